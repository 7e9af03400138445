#include "network_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "onnx_writer.h"

namespace mobicuda::zoo {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr double kBetaDeviation = 0.2;
constexpr double kLogitDeviation = 2.0;
constexpr double kLogitBiasDeviation = 1.0;

WeightShape weight_shape(const Value& x, const Conv& conv) {
  return {x.depth(), conv.outputs, conv.kernel.height * conv.kernel.width, conv.groups};
}

std::int64_t pooled(std::int64_t extent, const Pool& pool) {
  const std::int64_t room = extent + 2 * pool.pad - pool.kernel;
  std::int64_t outputs = (room + (pool.ceil_mode ? pool.stride - 1 : 0)) / pool.stride + 1;
  if ((outputs - 1) * pool.stride >= extent + pool.pad) --outputs;  // a window that begins outside is dropped
  return outputs;
}

std::vector<Moments> mapped(std::vector<Moments> channels, Moments (*rule)(const Moments&)) {
  for (Moments& moments : channels) moments = rule(moments);
  return channels;
}

}  // namespace

NetworkWriter::NetworkWriter(const NetworkInfo& info, const NetworkOptions& options)
    : info_(info),
      options_(options),
      classes_(options.classes == 0 ? info.classes : options.classes),
      random_(options.seed) {
  input_.name = "input";
  input_.extent = {options.height == 0 ? info.resolution : options.height,
                   options.picture_width == 0 ? info.resolution : options.picture_width};
  input_.channels.assign(static_cast<std::size_t>(info.input_channels), Moments{});
}

void NetworkWriter::constant(const std::string& name, const Ints& dims, const std::vector<float>& values) {
  *graph().add_initializer() = make_tensor(name, dims, std::span(values));
}

/// The layer that normalises channels of these moments, which become those behind it.
BatchNorm NetworkWriter::draw_norm(std::vector<Moments>& channels, double epsilon, double gain, double beta_deviation,
                                   double shift) {
  constexpr double kGammaDeviation = 0.1;
  constexpr double kLeastVariance = 0.01;  // keeps a dead channel harmless
  BatchNorm norm;
  for (Moments& moments : channels) {
    const auto gamma = static_cast<float>(gain * (1.0 + kGammaDeviation * random_.normal()));
    const auto beta = static_cast<float>(shift + beta_deviation * random_.normal());
    norm.gamma.push_back(gamma);
    norm.beta.push_back(beta);
    norm.mean.push_back(static_cast<float>(moments.mean));
    norm.variance.push_back(static_cast<float>(std::max(kLeastVariance, moments.variance - epsilon)));
    moments = {double{beta}, double{gamma} * double{gamma}};
  }
  return norm;
}

Value NetworkWriter::conv_node(const std::string& name, const Value& x, const Conv& conv,
                               const std::vector<float>& weights, const std::vector<float>& bias) {
  const Extent& kernel = conv.kernel;
  const Extent& pad = conv.pad;
  constant(name + ".weight", {conv.outputs, x.depth() / conv.groups, kernel.height, kernel.width}, weights);
  auto& node = add_node(graph(), "Conv", name, {x.name, name + ".weight"});
  set_attribute(node, "dilations", Ints{1, 1});
  set_attribute(node, "group", conv.groups);
  set_attribute(node, "kernel_shape", Ints{kernel.height, kernel.width});
  set_attribute(node, "pads", Ints{pad.height, pad.width, pad.height, pad.width});
  set_attribute(node, "strides", Ints{conv.stride, conv.stride});
  if (!bias.empty()) {
    constant(name + ".bias", {conv.outputs}, bias);
    node.add_input(name + ".bias");
  }
  const auto windows = [&](std::int64_t extent, std::int64_t window, std::int64_t padding) {
    return (extent + 2 * padding - window) / conv.stride + 1;
  };
  return {name,
          {windows(x.extent.height, kernel.height, pad.height), windows(x.extent.width, kernel.width, pad.width)},
          {}};
}

Value NetworkWriter::conv(const std::string& name, const Value& x, const Conv& conv, double gain) {
  const WeightShape shape = weight_shape(x, conv);
  std::vector<float> weights = draw_weights(shape, random_);
  std::vector<Moments> moments = moments_after_conv(x.channels, weights, shape, channel_correlation_);
  const BatchNorm norm = draw_norm(moments, 0.0, gain, kBetaDeviation);
  std::vector<float> bias;
  fold_batchnorm(norm, 0.0F, weights, bias);
  Value y = conv_node(name, x, conv, weights, bias);
  y.channels = std::move(moments);
  return y;
}

Value NetworkWriter::conv_without_bias(const std::string& name, const Value& x, const Conv& conv) {
  const WeightShape shape = weight_shape(x, conv);
  std::vector<float> weights = draw_weights(shape, random_);
  std::vector<Moments> moments = moments_after_conv(x.channels, weights, shape, channel_correlation_);
  auto weight = weights.begin();
  for (Moments& channel : moments) {
    const double scale = 1.0 / std::sqrt(channel.variance);
    for (std::int64_t i = 0; i < shape.per_output(); ++i, ++weight) {
      *weight = static_cast<float>(double{*weight} * scale);
    }
    channel = {channel.mean * scale, 1.0};
  }
  Value y = conv_node(name, x, conv, weights, {});
  y.channels = std::move(moments);
  return y;
}

Value NetworkWriter::conv_bn(const std::string& conv_name, const std::string& bn_name, const Value& x, const Conv& conv,
                             const BatchNormStyle& style) {
  constexpr double kConvBiasDeviation = 0.1;
  const WeightShape shape = weight_shape(x, conv);
  std::vector<float> weights = draw_weights(shape, random_);
  std::vector<Moments> moments = moments_after_conv(x.channels, weights, shape, channel_correlation_);
  std::vector<float> conv_bias(style.conv_bias ? moments.size() : 0);
  for (float& bias : conv_bias) bias = static_cast<float>(kConvBiasDeviation * random_.normal());
  std::vector<Moments> biased = moments;
  for (std::size_t o = 0; o < conv_bias.size(); ++o) biased[o].mean += double{conv_bias[o]};
  BatchNorm norm = draw_norm(biased, double{style.epsilon}, style.gain, kBetaDeviation, style.shift);

  Value y;
  if (options_.fold_batchnorm) {
    // The two biases cancel: what is left of the mean is that of the sum of products.
    for (std::size_t o = 0; o < conv_bias.size(); ++o) norm.mean[o] = static_cast<float>(moments[o].mean);
    std::vector<float> bias;
    fold_batchnorm(norm, style.epsilon, weights, bias);
    y = conv_node(conv_name, x, conv, weights, bias);
  } else {
    y = conv_node(conv_name, x, conv, weights, conv_bias);
    norm_node(bn_name, y.name, norm, style.epsilon);
    y.name = bn_name;
  }
  y.channels = std::move(biased);
  return y;
}

void NetworkWriter::norm_node(const std::string& name, const std::string& x, const BatchNorm& norm, float epsilon) {
  const Ints dims{static_cast<std::int64_t>(norm.gamma.size())};
  constant(name + ".weight", dims, norm.gamma);
  constant(name + ".bias", dims, norm.beta);
  constant(name + ".running_mean", dims, norm.mean);
  constant(name + ".running_var", dims, norm.variance);
  auto& node = add_node(graph(), "BatchNormalization", name,
                        {x, name + ".weight", name + ".bias", name + ".running_mean", name + ".running_var"});
  set_attribute(node, "epsilon", epsilon);
  set_attribute(node, "momentum", 0.9F);
}

Value NetworkWriter::batchnorm(const std::string& name, const Value& x) {
  constexpr float kEpsilon = 1e-5F;
  Value y{name, x.extent, x.channels};
  norm_node(name, x.name, draw_norm(y.channels, double{kEpsilon}, 1.0, kBetaDeviation), kEpsilon);
  return y;
}

Value NetworkWriter::pointwise(const char* op_type, const std::string& name, const Value& x, PointwiseMoments rule) {
  add_node(graph(), op_type, name, {x.name});
  return {name, x.extent, mapped(x.channels, rule)};
}

Value NetworkWriter::relu6(const std::string& name, const Value& x) {
  if (!clip_bounds_written_) {
    constant("relu6.min", {}, {0.0F});
    constant("relu6.max", {}, {6.0F});
    clip_bounds_written_ = true;
  }
  add_node(graph(), "Clip", name, {x.name, "relu6.min", "relu6.max"});
  return {name, x.extent, mapped(x.channels, after_relu)};
}

Value NetworkWriter::hard_sigmoid(const std::string& name, const Value& x) {
  constexpr float kSlope = 1.0F / 6.0F;
  Value y = pointwise("HardSigmoid", name, x, after_hard_sigmoid);
  auto& nodes = *graph().mutable_node();
  set_attribute(nodes[nodes.size() - 1], "alpha", kSlope);
  return y;
}

Value NetworkWriter::silu(const std::string& name, const Value& x) {
  add_node(graph(), "Sigmoid", name + ".sigmoid", {x.name});
  add_node(graph(), "Mul", name, {x.name, name + ".sigmoid"});
  return {name, x.extent, mapped(x.channels, after_swish)};
}

Value NetworkWriter::local_response_normalization(const std::string& name, const Value& x) {
  auto& node = add_node(graph(), "LRN", name, {x.name});
  set_attribute(node, "alpha", 1e-4F);
  set_attribute(node, "beta", 0.75F);
  set_attribute(node, "bias", 1.0F);
  set_attribute(node, "size", std::int64_t{5});
  return {name, x.extent, x.channels};  // the divisor is 1 + 1e-4 squares
}

Value NetworkWriter::pool_node(const char* op_type, const std::string& name, const Value& x, const Pool& pool) {
  auto& node = add_node(graph(), op_type, name, {x.name});
  set_attribute(node, "ceil_mode", std::int64_t{pool.ceil_mode ? 1 : 0});
  set_attribute(node, "kernel_shape", Ints{pool.kernel, pool.kernel});
  set_attribute(node, "pads", Ints(4, pool.pad));
  set_attribute(node, "strides", Ints{pool.stride, pool.stride});
  return {name, {pooled(x.extent.height, pool), pooled(x.extent.width, pool)}, x.channels};
}

Value NetworkWriter::max_pool(const std::string& name, const Value& x, const Pool& pool) {
  Value y = pool_node("MaxPool", name, x, pool);
  for (Moments& moments : y.channels) moments = after_max_pool(moments, pool.kernel * pool.kernel);
  return y;
}

Value NetworkWriter::average_pool(const std::string& name, const Value& x, const Pool& pool, bool count_pads) {
  Value y = pool_node("AveragePool", name, x, pool);
  auto& nodes = *graph().mutable_node();
  set_attribute(nodes[nodes.size() - 1], "count_include_pad", std::int64_t{count_pads ? 1 : 0});
  for (Moments& moments : y.channels) moments = after_average_pool(moments, pool.kernel * pool.kernel);
  return y;
}

Value NetworkWriter::global_average_pool(const std::string& name, const Value& x) {
  add_node(graph(), "GlobalAveragePool", name, {x.name});
  return {name, {1, 1}, mapped(x.channels, after_global_pool)};
}

Value NetworkWriter::add(const std::string& name, const Value& a, const Value& b) {
  add_node(graph(), "Add", name, {a.name, b.name});
  Value y{name, a.extent, a.channels};
  for (std::size_t c = 0; c < y.channels.size(); ++c) y.channels[c] = sum_of(a.channels[c], b.channels[c]);
  return y;
}

Value NetworkWriter::multiply(const std::string& name, const Value& x, const Value& gate) {
  add_node(graph(), "Mul", name, {x.name, gate.name});
  Value y{name, x.extent, x.channels};
  for (std::size_t c = 0; c < y.channels.size(); ++c) y.channels[c] = product_of(x.channels[c], gate.channels[c]);
  return y;
}

Value NetworkWriter::concat(const std::string& name, const std::vector<Value>& values) {
  auto& node = add_node(graph(), "Concat", name, {});
  set_attribute(node, "axis", std::int64_t{1});
  Value y{name, values.front().extent, {}};
  for (const Value& value : values) {
    node.add_input(value.name);
    y.channels.insert(y.channels.end(), value.channels.begin(), value.channels.end());
  }
  return y;
}

Value NetworkWriter::flatten(const std::string& name, const Value& x) {
  set_attribute(add_node(graph(), "Flatten", name, {x.name}), "axis", std::int64_t{1});
  Value y{name, {1, 1}, {}};
  for (const Moments& moments : x.channels) {
    y.channels.insert(y.channels.end(), static_cast<std::size_t>(x.extent.height * x.extent.width), moments);
  }
  return y;
}

Value NetworkWriter::dense_scaled(const std::string& name, const Value& x, std::int64_t outputs, double gain,
                                  double beta_deviation) {
  const WeightShape shape{x.depth(), outputs, 1, 1};
  std::vector<float> weights = draw_weights(shape, random_);
  Value y{name, {1, 1}, moments_after_conv(x.channels, weights, shape, channel_correlation_)};
  const BatchNorm norm = draw_norm(y.channels, 0.0, gain, beta_deviation);
  std::vector<float> bias;
  fold_batchnorm(norm, 0.0F, weights, bias);
  constant(name + ".weight", {outputs, x.depth()}, weights);
  constant(name + ".bias", {outputs}, bias);
  auto& node = add_node(graph(), "Gemm", name, {x.name, name + ".weight", name + ".bias"});
  set_attribute(node, "transB", std::int64_t{1});
  return y;
}

Value NetworkWriter::dense(const std::string& name, const Value& x, std::int64_t outputs, double gain) {
  return dense_scaled(name, x, outputs, gain, kBetaDeviation);
}

Value NetworkWriter::logits(const std::string& name, const Value& x) {
  return dense_scaled(name, x, classes_, kLogitDeviation, kLogitBiasDeviation);
}

onnx_schema::ModelProto NetworkWriter::finish(const Value& logits) && {
  if (options_.softmax) {
    set_attribute(add_node(graph(), "Softmax", "softmax", {logits.name}), "axis", std::int64_t{1});
  }
  auto& nodes = *graph().mutable_node();
  nodes[nodes.size() - 1].set_output(0, "output");
  graph().set_name(std::string(info_.name));
  *graph().add_input() =
      make_value_info("input", Ints{options_.batch, info_.input_channels, input_.extent.height, input_.extent.width});
  *graph().add_output() = make_value_info("output", Ints{options_.batch, classes_});
  model_.set_ir_version(ir_version_of(options_.opset));
  model_.set_producer_name("mobicuda_write_model");
  auto& opset = *model_.add_opset_import();
  opset.set_domain("");
  opset.set_version(options_.opset);
  return std::move(model_);
}

}  // namespace mobicuda::zoo
