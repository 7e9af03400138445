#include "mobilenet_v2.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <mobicuda/error.h>
#include "onnx_writer.h"
#include "random.h"
#include "weights.h"

namespace mobicuda::zoo {
namespace {

struct BlockStage {
  std::int64_t expansion, channels, blocks, stride;
};
constexpr std::array<BlockStage, 7> kBlockStages{
    {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}};
constexpr double kStemChannels = 32;
constexpr double kLastChannels = 1280;

/// Moments of max(x, 0) for x ~ N(mean, variance): the second-order expansion in mean / deviation of the exact
/// formula. Good to 2 % for |mean| < deviation.
Moments after_relu6(const Moments& x) {
  constexpr double kDensityAtZero = 0.3989422804014327;
  const double deviation = std::sqrt(x.variance);
  const double t = x.mean / deviation;
  const double mean = deviation * (kDensityAtZero * (1.0 + 0.5 * t * t) + 0.5 * t);
  const double square = x.variance * (0.5 + 2.0 * kDensityAtZero * t + 0.5 * t * t);
  return {mean, square - mean * mean};
}

struct ConvShape {
  std::int64_t inputs, outputs, kernel, stride, groups;
  WeightShape weights() const { return {inputs, outputs, kernel * kernel, groups}; }
};

/// Writes the network front to back, drawing weights as it goes and following each channel's moments, so that
/// BatchNormalization gets the statistics that training would have found.
class NetworkBuilder {
 public:
  explicit NetworkBuilder(const MobileNetV2Options& options)
      : options_(options), random_(options.seed), height_(options.height), width_(options.picture_width) {}

  onnx_schema::ModelProto build();

 private:
  std::vector<std::int64_t> pads_of(const ConvShape& shape) const;
  void conv_bn(const std::string& conv_name, const std::string& bn_name, const ConvShape& shape);
  void relu6(const std::string& name);
  void inverted_residual(const std::string& prefix, const BlockStage& stage, std::int64_t stride, std::int64_t outputs);
  void head();
  std::string flatten_by_shape(const std::string& pooled);
  void finish();

  onnx_schema::GraphProto& graph() { return *model_.mutable_graph(); }
  std::int64_t channels() const { return static_cast<std::int64_t>(moments_.size()); }
  void constant(const std::string& name, std::vector<std::int64_t> dims, const std::vector<float>& values) {
    *graph().add_initializer() = make_tensor(name, dims, std::span(values));
  }
  void constant(const std::string& name, std::vector<std::int64_t> dims, const std::vector<std::int64_t>& values) {
    *graph().add_initializer() = make_tensor(name, dims, std::span(values));
  }

  const MobileNetV2Options& options_;
  Random random_;
  std::int64_t height_;  // of value_, as width_ and moments_
  std::int64_t width_;
  std::vector<Moments> moments_;
  std::string value_ = "input";
  BatchNorm batchnorm_;
  bool clip_bounds_written_ = false;
  onnx_schema::ModelProto model_;
};

/// (top, left, bottom, right) for the current extents.
std::vector<std::int64_t> NetworkBuilder::pads_of(const ConvShape& shape) const {
  if (shape.kernel == 1) return {0, 0, 0, 0};
  if (options_.padding == PaddingStyle::Torch) return {1, 1, 1, 1};
  const auto total = [&](std::int64_t extent) {
    const std::int64_t outputs = (extent + shape.stride - 1) / shape.stride;
    return std::max<std::int64_t>(0, (outputs - 1) * shape.stride + shape.kernel - extent);
  };
  const std::int64_t vertical = total(height_);
  const std::int64_t horizontal = total(width_);
  return {vertical / 2, horizontal / 2, vertical - vertical / 2, horizontal - horizontal / 2};
}

void NetworkBuilder::conv_bn(const std::string& conv_name, const std::string& bn_name, const ConvShape& shape) {
  constexpr double kGammaDeviation = 0.1;
  constexpr double kBetaDeviation = 0.2;
  std::vector<float> weights = draw_weights(shape.weights(), random_);
  batchnorm_ = {};
  for (Moments& moments : moments_ = moments_after_conv(moments_, weights, shape.weights())) {
    const auto gamma = static_cast<float>(1.0 + kGammaDeviation * random_.normal());
    const auto beta = static_cast<float>(kBetaDeviation * random_.normal());
    batchnorm_.gamma.push_back(gamma);
    batchnorm_.beta.push_back(beta);
    batchnorm_.mean.push_back(static_cast<float>(moments.mean));
    // Training would find this variance whatever epsilon is; at least 0.01 keeps a dead channel harmless.
    batchnorm_.variance.push_back(static_cast<float>(std::max(0.01, moments.variance - options_.batchnorm_epsilon)));
    moments = {double{beta}, double{gamma} * double{gamma}};
  }

  std::vector<float> bias;
  if (options_.fold_batchnorm) fold_batchnorm(batchnorm_, options_.batchnorm_epsilon, weights, bias);
  const std::vector<std::int64_t> pads = pads_of(shape);
  constant(conv_name + ".weight", {shape.outputs, shape.inputs / shape.groups, shape.kernel, shape.kernel}, weights);
  auto& conv = add_node(graph(), "Conv", conv_name, {value_, conv_name + ".weight"});
  set_attribute(conv, "dilations", std::vector<std::int64_t>{1, 1});
  set_attribute(conv, "group", shape.groups);
  set_attribute(conv, "kernel_shape", std::vector<std::int64_t>{shape.kernel, shape.kernel});
  set_attribute(conv, "pads", pads);
  set_attribute(conv, "strides", std::vector<std::int64_t>{shape.stride, shape.stride});
  value_ = conv_name;
  height_ = (height_ + pads[0] + pads[2] - shape.kernel) / shape.stride + 1;
  width_ = (width_ + pads[1] + pads[3] - shape.kernel) / shape.stride + 1;
  if (options_.fold_batchnorm) {
    constant(conv_name + ".bias", {shape.outputs}, bias);
    conv.add_input(conv_name + ".bias");
    return;
  }

  constant(bn_name + ".weight", {shape.outputs}, batchnorm_.gamma);
  constant(bn_name + ".bias", {shape.outputs}, batchnorm_.beta);
  constant(bn_name + ".running_mean", {shape.outputs}, batchnorm_.mean);
  constant(bn_name + ".running_var", {shape.outputs}, batchnorm_.variance);
  auto& bn =
      add_node(graph(), "BatchNormalization", bn_name,
               {value_, bn_name + ".weight", bn_name + ".bias", bn_name + ".running_mean", bn_name + ".running_var"});
  set_attribute(bn, "epsilon", options_.batchnorm_epsilon);
  set_attribute(bn, "momentum", 0.9F);
  value_ = bn_name;
}

void NetworkBuilder::relu6(const std::string& name) {
  if (options_.opset < 11) {
    auto& clip = add_node(graph(), "Clip", name, {value_});
    set_attribute(clip, "min", 0.0F);
    set_attribute(clip, "max", 6.0F);
  } else {
    if (!clip_bounds_written_) {
      constant("relu6.min", {}, std::vector<float>{0.0F});
      constant("relu6.max", {}, std::vector<float>{6.0F});
      clip_bounds_written_ = true;
    }
    add_node(graph(), "Clip", name, {value_, "relu6.min", "relu6.max"});
  }
  value_ = name;
  for (Moments& moments : moments_) moments = after_relu6(moments);
}

void NetworkBuilder::inverted_residual(const std::string& prefix, const BlockStage& stage, std::int64_t stride,
                                       std::int64_t outputs) {
  const std::string shortcut = value_;
  const std::vector<Moments> shortcut_moments = moments_;
  const std::int64_t inputs = channels();
  const std::int64_t hidden = inputs * stage.expansion;
  int child = 0;
  const auto next = [&] { return prefix + ".conv." + std::to_string(child++); };

  if (stage.expansion != 1) {
    const std::string expand = next();
    conv_bn(expand + ".0", expand + ".1", {inputs, hidden, 1, 1, 1});
    relu6(expand + ".2");
  }
  const std::string depthwise = next();
  conv_bn(depthwise + ".0", depthwise + ".1", {hidden, hidden, 3, stride, hidden});
  relu6(depthwise + ".2");
  const std::string project = next();
  conv_bn(project, next(), {hidden, outputs, 1, 1, 1});

  if (stride == 1 && inputs == outputs) {
    add_node(graph(), "Add", prefix + ".add", {shortcut, value_});
    value_ = prefix + ".add";
    for (std::size_t c = 0; c < moments_.size(); ++c) {
      moments_[c].mean += shortcut_moments[c].mean;
      moments_[c].variance += shortcut_moments[c].variance;
    }
  }
}

/// (N, C, 1, 1) -> (N, C) as `x.reshape(x.shape[0], -1)` was traced.
std::string NetworkBuilder::flatten_by_shape(const std::string& pooled) {
  constant("batch_axis", {}, std::vector<std::int64_t>{0});
  constant("minus_one", {1}, std::vector<std::int64_t>{-1});
  add_node(graph(), "Shape", "shape", {pooled});
  add_node(graph(), "Gather", "shape.batch", {"shape", "batch_axis"});
  if (options_.opset < 13) {
    auto& unsqueeze = add_node(graph(), "Unsqueeze", "shape.batch.1d", {"shape.batch"});
    set_attribute(unsqueeze, "axes", std::vector<std::int64_t>{0});
  } else {
    constant("unsqueeze_axes", {1}, std::vector<std::int64_t>{0});
    add_node(graph(), "Unsqueeze", "shape.batch.1d", {"shape.batch", "unsqueeze_axes"});
  }
  auto& concat = add_node(graph(), "Concat", "shape.flat", {"shape.batch.1d", "minus_one"});
  set_attribute(concat, "axis", std::int64_t{0});
  add_node(graph(), "Reshape", "flatten", {pooled, "shape.flat"});
  return "flatten";
}

void NetworkBuilder::head() {
  // Over the map's pixels a channel's mean varies from picture to picture with this share of its variance.
  constexpr double kPooledVariance = 0.3;
  constexpr double kLogitDeviation = 2.0;
  const std::int64_t features = channels();
  double variance = 0.0;
  for (const Moments& moments : moments_) variance += kPooledVariance * moments.variance;
  const double deviation = kLogitDeviation / std::sqrt(variance);

  const bool matmul = options_.head == HeadStyle::MatMul;
  std::vector<float> weights(static_cast<std::size_t>(options_.classes * features));
  std::vector<float> bias(static_cast<std::size_t>(options_.classes));
  for (std::int64_t k = 0; k < options_.classes; ++k) {
    double logit = 0.0;  // of the mean picture: the bias takes it away, so that pictures decide
    for (std::int64_t c = 0; c < features; ++c) {
      const auto weight = static_cast<float>(deviation * random_.normal());
      weights[static_cast<std::size_t>(matmul ? c * options_.classes + k : k * features + c)] = weight;
      logit += double{weight} * moments_[static_cast<std::size_t>(c)].mean;
    }
    bias[static_cast<std::size_t>(k)] = static_cast<float>(random_.normal() - logit);
  }
  constant("classifier.1.bias", {options_.classes}, bias);

  if (matmul) {
    constant("classifier.1.weight", {features, options_.classes}, weights);
    auto& mean = add_node(graph(), "ReduceMean", "pool", {value_});
    const std::vector<std::int64_t> axes{2, 3};
    if (options_.opset < 18) {
      set_attribute(mean, "axes", axes);
    } else {
      constant("pool.axes", {2}, axes);
      mean.add_input("pool.axes");
    }
    set_attribute(mean, "keepdims", std::int64_t{0});
    add_node(graph(), "MatMul", "classifier.1.matmul", {"pool", "classifier.1.weight"});
    add_node(graph(), "Add", "classifier.1", {"classifier.1.matmul", "classifier.1.bias"});
  } else {
    constant("classifier.1.weight", {options_.classes, features}, weights);
    add_node(graph(), "GlobalAveragePool", "pool", {value_});
    std::string flat = "flatten";
    if (options_.head == HeadStyle::Reshape) {
      flat = flatten_by_shape("pool");
    } else {
      set_attribute(add_node(graph(), "Flatten", flat, {"pool"}), "axis", std::int64_t{1});
    }
    auto& gemm = add_node(graph(), "Gemm", "classifier.1", {flat, "classifier.1.weight", "classifier.1.bias"});
    set_attribute(gemm, "transB", std::int64_t{1});
  }
  if (options_.softmax) {
    set_attribute(add_node(graph(), "Softmax", "softmax", {"classifier.1"}), "axis", std::int64_t{1});
  }
}

void NetworkBuilder::finish() {
  auto& nodes = *graph().mutable_node();
  nodes[nodes.size() - 1].set_output(0, "output");
  graph().set_name("mobilenet_v2");
  *graph().add_input() =
      make_value_info("input", std::vector<std::int64_t>{options_.batch, 3, options_.height, options_.picture_width});
  *graph().add_output() = make_value_info("output", std::vector<std::int64_t>{options_.batch, options_.classes});
  model_.set_ir_version(ir_version_of(options_.opset));
  model_.set_producer_name("mobicuda_write_model");
  auto& opset = *model_.add_opset_import();
  opset.set_domain("");
  opset.set_version(options_.opset);
  if (model_.ir_version() >= 4) return;
  for (const auto& tensor : graph().initializer()) {  // the old rule: initializers are inputs too
    *graph().add_input() = make_value_info(tensor.name(), std::vector(tensor.dims().begin(), tensor.dims().end()));
    graph()
        .mutable_input(graph().input_size() - 1)
        ->mutable_type()
        ->mutable_tensor_type()
        ->set_elem_type(tensor.data_type());
  }
}

onnx_schema::ModelProto NetworkBuilder::build() {
  moments_.assign(3, Moments{});
  conv_bn("features.0.0", "features.0.1", {3, make_divisible(kStemChannels * options_.width), 3, 2, 1});
  relu6("features.0.2");
  std::int64_t block = 0;
  for (const BlockStage& stage : kBlockStages) {
    const std::int64_t outputs = make_divisible(static_cast<double>(stage.channels) * options_.width);
    for (std::int64_t i = 0; i < stage.blocks && block < options_.blocks; ++i) {
      ++block;
      inverted_residual("features." + std::to_string(block), stage, i == 0 ? stage.stride : 1, outputs);
    }
  }
  const std::string last = "features." + std::to_string(block + 1);
  conv_bn(last + ".0", last + ".1",
          {channels(), make_divisible(kLastChannels * std::max(1.0, options_.width)), 1, 1, 1});
  relu6(last + ".2");
  head();
  finish();
  return std::move(model_);
}

template <class T>
void require_in(const char* option, T value, T least, T most) {
  if (value >= least && value <= most) return;
  std::string text = std::to_string(value);
  throw Error(ErrorCode::invalid_argument, std::string("MobileNetV2Options::") + option,
              "must be in " + std::to_string(least) + ".." + std::to_string(most) + ", got " + text);
}

}  // namespace

std::int64_t make_divisible(double channels) {
  constexpr std::int64_t kDivisor = 8;
  const auto nearest = static_cast<std::int64_t>(channels + kDivisor / 2.0) / kDivisor * kDivisor;
  const std::int64_t rounded = std::max(kDivisor, nearest);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + kDivisor : rounded;
}

onnx_schema::ModelProto build_mobilenet_v2(const MobileNetV2Options& options) {
  using Int = std::int64_t;
  require_in("width", options.width, 0.1, 4.0);
  require_in<Int>("height", options.height, 32, 1024);
  require_in<Int>("picture_width", options.picture_width, 32, 1024);
  require_in<Int>("classes", options.classes, 1, 100000);
  require_in<Int>("blocks", options.blocks, 1, 17);
  require_in<Int>("opset", options.opset, 7, 23);
  require_in<Int>("batch", options.batch, 0, 65536);
  require_in("batchnorm_epsilon", options.batchnorm_epsilon, 0.0F, 0.01F);
  return NetworkBuilder(options).build();
}

}  // namespace mobicuda::zoo
