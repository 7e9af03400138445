#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

#include "channels_last.h"
#include "elementwise.h"
#include "moments.h"
#include "ops.h"
#include "window.h"

namespace mobicuda::onnx_import {
namespace {

float not_negative_attribute(const NodeImporter& node, std::string_view name, float fallback) {
  const float value = node.float_attribute(name, fallback);
  if (!std::isfinite(value) || value < 0) {
    throw node.invalid_attribute(name, "must be >= 0 and finite, got " + std::to_string(value));
  }
  return value;
}

// Inputs X, scale, B, mean, var. y = scale * (x - mean) / sqrt(var + epsilon) + B, in double, rounded once.
void import_batch_norm(NodeImporter& node) {
  for (std::size_t position = 1; position < static_cast<std::size_t>(node.proto().output_size()); ++position) {
    if (node.output_is_used(position)) {
      throw node.error(ErrorCode::unsupported, "output #" + std::to_string(position) + " is a training statistic",
                       kEvalHint);
    }
  }
  const Shape shape = node.shape(0);
  if (shape.rank() < 2) throw node.invalid_input(0, "must have channels on axis 1, has shape " + to_string(shape));
  const std::int64_t channels = shape[1];
  std::array<ConstantPtr, 5> parameters;
  for (std::size_t position = 1; position < parameters.size(); ++position) {
    parameters.at(position) = node.floats(position);
    if (parameters.at(position)->shape() != Shape{channels}) {
      throw node.invalid_input(position, "must have shape " + std::to_string(channels) +
                                             ", one element a channel; has " +
                                             to_string(parameters.at(position)->shape()));
    }
  }
  const float epsilon = not_negative_attribute(node, "epsilon", 1e-5F);
  node.count_scale_and_shift(channels);
  std::vector<float> scale;
  std::vector<float> shift;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const double variance = double{parameters[4]->floats()[c]} + double{epsilon};
    if (variance <= 0) {
      throw node.invalid_input(
          4, "variance of channel " + std::to_string(c) + " plus epsilon must be > 0, is " + std::to_string(variance));
    }
    const double factor = double{parameters[1]->floats()[c]} / std::sqrt(variance);
    scale.push_back(static_cast<float>(factor));
    shift.push_back(
        static_cast<float>(double{parameters[2]->floats()[c]} - double{parameters[3]->floats()[c]} * factor));
  }
  const std::string name = node.proto().output(0);
  node.set_output(
      node.add(ScaleShift{}, {node.activation(0), node.add_constant(name + "/scale", Shape{channels}, scale),
                              node.add_constant(name + "/shift", Shape{channels}, shift)}));
}

// Whether statistics are taken from the input itself, as a network in training does.
bool in_training(const NodeImporter& node) {
  if (node.opset() < 7) return !node.flag_attribute("is_test", false);
  if (node.opset() < 14) return node.proto().output_size() > 1;
  return node.flag_attribute("training_mode", false);
}

// Of weights, which some networks standardise so: in inference with the statistics given, in training with their own.
void fold_batch_norm(NodeImporter& node) {
  const ConstantPtr x = node.floats(0);
  const Shape& shape = x->shape();
  if (shape.rank() < 2 || shape.elements() == 0) {
    throw node.unsupported_input(0, "must have elements, and channels on axis 1, has shape " + to_string(shape));
  }
  const auto channels = static_cast<std::size_t>(shape[1]);
  const std::size_t pixels = static_cast<std::size_t>(shape.elements() / shape[0]) / channels;
  const bool training = in_training(node);
  std::array<std::vector<double>, 5> parameters;
  for (std::size_t position = 1; position < parameters.size(); ++position) {
    if (training && position > 2) {
      parameters.at(position).assign(channels, 0.0);
      continue;
    }
    const ConstantPtr given = node.floats(position);
    if (given->shape() != Shape{shape[1]}) {
      throw node.invalid_input(position, "must have shape " + std::to_string(channels) +
                                             ", one element a channel; has " + to_string(given->shape()));
    }
    parameters.at(position).assign(given->floats().begin(), given->floats().end());
  }
  auto& [unused, scale, bias, mean, variance] = parameters;
  const std::span<const float> in = x->floats();
  // Calls sink(channel, element) for all of them.
  const auto each = [&](auto sink) {
    for (std::size_t i = 0; i < in.size(); ++i) sink(i / pixels % channels, i);
  };
  if (training) {
    const double count = static_cast<double>(in.size()) / static_cast<double>(channels);
    each([&](std::size_t c, std::size_t i) { mean[c] += double{in[i]} / count; });
    each([&](std::size_t c, std::size_t i) { variance[c] += (in[i] - mean[c]) * (in[i] - mean[c]) / count; });
  }
  const float epsilon = not_negative_attribute(node, "epsilon", 1e-5F);
  for (std::size_t c = 0; c < channels; ++c) {
    if (!(variance[c] + epsilon > 0)) {
      throw node.invalid_input(training ? 0 : 4, "variance of channel " + std::to_string(c) +
                                                     " plus epsilon must be > 0, is " + std::to_string(variance[c]));
    }
    scale[c] /= std::sqrt(variance[c] + epsilon);
  }
  node.count_elements(shape.elements(), false);
  auto result = std::make_shared<HostTensor>(DType::F32, shape);
  const std::span<float> out = result->data<float>();
  each([&](std::size_t c, std::size_t i) { out[i] = static_cast<float>((in[i] - mean[c]) * scale[c] + bias[c]); });
  node.set_output(std::make_shared<const Constant>(std::shared_ptr<const HostTensor>(std::move(result))));
}

void require_spatial(const NodeImporter& node) {
  if (!node.flag_attribute("spatial", true)) {
    throw node.unsupported_attribute("spatial", "0 (statistics for each pixel) is not supported");
  }
}

void import_lrn(NodeImporter& node) {
  require_image(node, node.shape(0));
  LocalResponseNorm op;
  if (!node.has_attribute("size")) throw node.invalid_attribute("size", "is missing");
  op.size = node.attribute("size", 1);
  if (op.size <= 0) throw node.invalid_attribute("size", "must be > 0, got " + std::to_string(op.size));
  op.alpha = not_negative_attribute(node, "alpha", 1e-4F);
  op.beta = not_negative_attribute(node, "beta", 0.75F);
  op.bias = not_negative_attribute(node, "bias", 1.0F);
  if (op.bias == 0) {
    throw node.unsupported_attribute("bias", "must be > 0, got 0", "zeros in the image would be divided by zero");
  }
  node.set_output(node.add(op, {node.activation(0)}));
}

float positive_epsilon(const NodeImporter& node) {
  const float epsilon = not_negative_attribute(node, "epsilon", 1e-5F);
  if (epsilon == 0) {
    throw node.unsupported_attribute("epsilon", "must be > 0, got 0", "equal values would be divided by zero");
  }
  return epsilon;
}

// An input with `elements` of them, or one that stands for all.
std::vector<float> factors(const NodeImporter& node, std::size_t position, std::int64_t elements) {
  const ConstantPtr given = node.floats(position);
  if (given->elements() != elements && given->elements() != 1) {
    throw node.invalid_input(
        position, "must have " + std::to_string(elements) + " elements, has shape " + to_string(given->shape()));
  }
  return {given->floats().begin(), given->floats().end()};
}

bool all_equal(const std::vector<float>& values, float expected) {
  return std::ranges::all_of(values, [&](float value) { return value == expected; });
}

// scale * x + shift, which leaves x as it is where it has to.
ValueId scaled(NodeImporter& node, ValueId x, const std::vector<float>& scale, const std::vector<float>& shift) {
  if (all_equal(scale, 1.0F) && all_equal(shift, 0.0F)) return x;
  return scale_and_shift(node, x, scale, shift);
}

// Inputs X, Scale, B (optional); over the axes from `axis` on.
void import_layer_norm(NodeImporter& node) {
  for (const std::size_t position : {std::size_t{1}, std::size_t{2}}) {
    if (node.output_is_used(position)) {
      throw node.error(ErrorCode::unsupported, "output #" + std::to_string(position) + " is a training statistic",
                       kEvalHint);
    }
  }
  const Shape shape = node.shape(0);
  const std::size_t axis = normalize_axis(node, node.attribute("axis", -1), shape.rank());
  if (axis == 0) {
    throw node.unsupported_attribute("axis", "0 is not supported", "it would mix the pictures of a batch");
  }
  Normalize op;
  op.epsilon = positive_epsilon(node);
  std::int64_t rows = 1;
  for (std::size_t i = 1; i < axis; ++i) rows *= shape[i];
  const std::int64_t elements = shape.elements() / rows;
  const std::vector<float> scale = factors(node, 1, elements);
  const std::vector<float> shift = node.has_input(2) ? factors(node, 2, elements) : std::vector<float>{0.0F};
  // The last axes as one, which is that of the channels.
  ValueId x = node.activation(0);
  const bool one_axis = axis + 1 == shape.rank();
  if (!one_axis) x = node.add(Reshape{Shape{shape[0], rows, elements}}, {x});
  const Shape rows_shape = node.shape_of(x);
  const ValueId image = scaled(node, node.add(op, {image_of_channels_last(node, x)}), scale, shift);
  const ValueId y = to_channels_last(node, image, rows_shape);
  node.set_output(one_axis ? y : node.add(Reshape{shape}, {y}));
}

// An image, or a row (N, C, W) or other value as an image of height 1.
ValueId as_planes(NodeImporter& node, ValueId x) {
  const Shape& shape = node.shape_of(x);
  if (shape.rank() == 4) return x;
  return node.add(Reshape{Shape{shape[0], shape[1], 1, shape.elements() / (shape[0] * shape[1])}}, {x});
}

// Every factor of a group for each of its channels.
std::vector<float> for_channels(const std::vector<float>& of_groups, std::int64_t channels) {
  std::vector<float> result;
  const auto repeats = static_cast<std::size_t>(channels) / of_groups.size();
  for (const float factor : of_groups) result.insert(result.end(), repeats, factor);
  return result;
}

// Of each group of channels.
void normalize_groups(NodeImporter& node, std::int64_t groups, const std::vector<float>& scale,
                      const std::vector<float>& shift) {
  Normalize op;
  op.over = NormalizedOver::Groups;
  op.groups = groups;
  op.epsilon = positive_epsilon(node);
  const Shape shape = node.shape(0);
  // PyTorch normalises groups as channels of the image reshaped to (N, groups, -1).
  const ValueId before = node.before_reshape(node.activation(0));
  const bool reshaped = before != kNoValue && shape.rank() == 3 && node.shape_of(before).rank() == 4 &&
                        node.shape_of(before)[1] % shape[1] == 0 && shape[1] == groups;
  const ValueId x = as_planes(node, reshaped ? before : node.activation(0));
  const std::int64_t channels = node.shape_of(x)[1];
  node.count_scale_and_shift(channels);
  const ValueId y = scaled(node, node.add(op, {x}), for_channels(scale, channels), for_channels(shift, channels));
  if (node.shape_of(y) == shape) {
    node.set_output(y);
    return;
  }
  const ValueId output = node.add(Reshape{shape}, {y});
  node.remember_reshape(output, y);
  node.set_output(output);
}

void require_planes(const NodeImporter& node) {
  const Shape& shape = node.shape(0);
  if (shape.rank() < 3) {
    throw node.unsupported_input(0, "must be (N, C, ...) with at least three axes, has shape " + to_string(shape));
  }
}

// As many elements as there are channels, or groups.
std::vector<float> factor_each(const NodeImporter& node, std::size_t position, std::int64_t elements,
                               const char* what) {
  const ConstantPtr given = node.floats(position);
  if (given->shape() != Shape{elements}) {
    throw node.invalid_input(position, "must have shape " + std::to_string(elements) + ", one element a " + what +
                                           "; has " + to_string(given->shape()));
  }
  return {given->floats().begin(), given->floats().end()};
}

void import_instance_norm(NodeImporter& node) {
  require_planes(node);
  const std::int64_t channels = node.shape(0)[1];
  normalize_groups(node, channels, factor_each(node, 1, channels, "channel"),
                   factor_each(node, 2, channels, "channel"));
}

std::int64_t read_groups(const NodeImporter& node) {
  require_planes(node);
  if (!node.has_attribute("num_groups")) throw node.invalid_attribute("num_groups", "is missing");
  const std::int64_t groups = node.attribute("num_groups", 1);
  const std::int64_t channels = node.shape(0)[1];
  if (groups <= 0 || channels % groups != 0) {
    throw node.invalid_attribute(
        "num_groups", "must divide " + std::to_string(channels) + " channels, got " + std::to_string(groups));
  }
  return groups;
}

void import_group_norm_18(NodeImporter& node) {
  const std::int64_t groups = read_groups(node);
  normalize_groups(node, groups, factor_each(node, 1, groups, "group"), factor_each(node, 2, groups, "group"));
}

void import_group_norm_21(NodeImporter& node) {
  const std::int64_t groups = read_groups(node);
  const std::int64_t channels = node.shape(0)[1];
  normalize_groups(node, groups, factor_each(node, 1, channels, "channel"), factor_each(node, 2, channels, "channel"));
}

void import_batch_norm_6(NodeImporter& node) {
  if (!node.flag_attribute("is_test", false)) {
    throw node.unsupported_attribute("is_test", "must be 1, training mode is not supported", kEvalHint);
  }
  require_spatial(node);
  import_batch_norm(node);
}

void import_batch_norm_7(NodeImporter& node) {
  require_spatial(node);
  import_batch_norm(node);
}

void import_batch_norm_14(NodeImporter& node) {
  if (node.flag_attribute("training_mode", false)) {
    throw node.unsupported_attribute("training_mode", "1 is not supported", kEvalHint);
  }
  import_batch_norm(node);
}

}  // namespace

Forms norm_forms() {
  static constexpr OperatorForm kForms[] = {
      {"BatchNormalization", 6, 6, 5, 5, "epsilon is_test momentum spatial", import_batch_norm_6, fold_batch_norm},
      {"BatchNormalization", 7, 8, 5, 5, "epsilon momentum spatial", import_batch_norm_7, fold_batch_norm},
      {"BatchNormalization", 9, 13, 5, 5, "epsilon momentum", import_batch_norm_7, fold_batch_norm},
      {"BatchNormalization", 14, kNewestOpset, 5, 5, "epsilon momentum training_mode", import_batch_norm_14,
       fold_batch_norm},
      {"GroupNormalization", 18, 20, 3, 3, "epsilon num_groups", import_group_norm_18},
      {"GroupNormalization", 21, kNewestOpset, 3, 3, "epsilon num_groups stash_type", import_group_norm_21},
      {"InstanceNormalization", 6, kNewestOpset, 3, 3, "epsilon", import_instance_norm},
      {"LayerNormalization", 17, kNewestOpset, 2, 3, "axis epsilon stash_type", import_layer_norm},
      {"LRN", 6, kNewestOpset, 1, 1, "alpha beta bias size", import_lrn},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
