#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

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
      {"LRN", 6, kNewestOpset, 1, 1, "alpha beta bias size", import_lrn},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
