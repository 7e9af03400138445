// How a convolution layer is stated to cuDNN's graph API.

#include "cudnn/graph_writer.h"

#include <cmath>
#include <limits>
#include <utility>

namespace mobicuda::cudnn {
namespace {

constexpr std::int64_t kTensorAlignment = 16;  // arena, weights and the session's ends are all 256-byte aligned

// `pitch` is the distance of an NHWC tensor's pixels, 0 where it is packed.
std::array<std::int64_t, 4> strides_of(const std::array<std::int64_t, 4>& dims, Layout layout, std::int64_t pitch) {
  const auto [n, c, h, w] = dims;
  const std::int64_t pixel = pitch == 0 ? c : pitch;
  if (layout == Layout::NHWC) return {h * w * pixel, 1, w * pixel, pixel};
  return {c * h * w, h * w, w, 1};
}

cudnnDataType_t cudnn_type(DType dtype) { return dtype == DType::F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT; }

Descriptor make_tensor(std::int64_t id, const std::array<std::int64_t, 4>& dims, Layout layout, cudnnDataType_t type,
                       bool is_virtual, std::int64_t pitch = 0) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::array<std::int64_t, 4> strides = strides_of(dims, layout, pitch);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
  tensor.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kTensorAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  tensor.finalize();
  return tensor;
}

Descriptor make_convolution(const ConvProblem& p) {
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const std::array<std::int64_t, 2> before{p.pads.top, p.pads.left};
  const std::array<std::int64_t, 2> after{p.pads.bottom, p.pads.right};
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
  convolution.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, before);
  convolution.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, after);
  convolution.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, p.strides);
  convolution.set_array<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, p.dilations);
  convolution.finalize();
  return convolution;
}

// A float that every execution passes from host memory.
Descriptor make_scalar(std::int64_t id) {
  Descriptor scalar(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::array<std::int64_t, 4> ones{1, 1, 1, 1};
  scalar.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  scalar.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, ones);
  scalar.set_array<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, ones);
  scalar.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  scalar.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kTensorAlignment);
  scalar.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  scalar.finalize();
  return scalar;
}

Descriptor make_pointwise(cudnnPointwiseMode_t mode) {
  Descriptor operation(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  operation.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  return operation;
}

Descriptor finished(Descriptor operation) {
  operation.finalize();
  return operation;
}

// min(relu(x), upper), with a slope below zero.
Descriptor make_relu(double upper, double slope = 0.0) {
  Descriptor relu = make_pointwise(CUDNN_POINTWISE_RELU_FWD);
  relu.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 0.0);
  if (std::isfinite(upper)) relu.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, upper);
  if (slope != 0.0) relu.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, slope);
  return finished(std::move(relu));
}

Descriptor make_swish() {
  Descriptor swish = make_pointwise(CUDNN_POINTWISE_SWISH_FWD);
  swish.set(CUDNN_ATTR_POINTWISE_SWISH_BETA, CUDNN_TYPE_DOUBLE, 1.0);
  return finished(std::move(swish));
}

}  // namespace

std::vector<GraphForm> graph_forms(const ConvProblem& problem) {
  const Activation& act = problem.activation;
  if (act.is_none() && !problem.bias && !problem.residual) return {GraphForm::Bare};
  switch (act.kind) {
    case ActivationKind::Clip: {
      if (act.is_none()) break;
      if (act.lo != 0.0F || act.hi <= 0.0F) return {GraphForm::Bare};
      if (std::isfinite(act.hi)) return {GraphForm::Composed, GraphForm::Native, GraphForm::Bare};
      break;
    }
    case ActivationKind::Silu:
      return {GraphForm::Composed, GraphForm::Native, GraphForm::Bare};
    case ActivationKind::HardSwish:
      return {GraphForm::Composed, GraphForm::Bare};
    case ActivationKind::Elu:
      return {GraphForm::Bare};  // cuDNN's subtracts 1 from the exponential: near 0 no digit is left
    default:
      break;
  }
  return {GraphForm::Native, GraphForm::Bare};
}

GraphWriter::GraphWriter(const ConvProblem& problem, GraphForm form)
    : problem_(problem), form_(form), dims_{problem.n, problem.k, problem.out_h(), problem.out_w()} {
  const bool layer = form != GraphForm::Bare;
  operations_left_ = 1 + (layer && problem.bias ? 1 : 0) + (layer && problem.residual ? 1 : 0) +
                     (layer ? operations_of_activation() : 0);
  std::size_t current = add_convolution();
  const cudnnDataType_t type = cudnn_type(problem.output_element());
  if (layer && problem.bias) {
    const std::size_t bias = keep(make_tensor(kBias, {1, problem.k, 1, 1}, problem.layout, type, false));
    current = add_binary(CUDNN_POINTWISE_ADD, current, bias);
  }
  if (layer && problem.residual) {
    const std::size_t residual = keep(make_tensor(kResidual, dims_, problem.layout, type, false));
    current = add_binary(CUDNN_POINTWISE_ADD, current, residual);
  }
  if (layer) add_activation(current);
}

int GraphWriter::operations_of_activation() const {
  const Activation& act = problem_.activation;
  if (act.is_none()) return 0;
  if (form_ == GraphForm::Native) return 1;
  constexpr int kHardSwish = 4;
  return act.kind == ActivationKind::HardSwish ? kHardSwish : 2;
}

// All that the graph knows of activations; graph_forms() says which of them have which form.
void GraphWriter::add_activation(std::size_t x) {
  const Activation& act = problem_.activation;
  const bool composed = form_ == GraphForm::Composed;
  if (act.is_none()) return;
  switch (act.kind) {
    case ActivationKind::Clip:
      if (!composed) return void(add_pointwise(make_relu(static_cast<double>(act.hi)), x, nullptr));
      x = add_pointwise(make_relu(std::numeric_limits<double>::infinity()), x, nullptr);
      add_binary(CUDNN_POINTWISE_MIN, x, add_scalar(act.hi));
      return;
    case ActivationKind::Sigmoid:
      add_pointwise(finished(make_pointwise(CUDNN_POINTWISE_SIGMOID_FWD)), x, nullptr);
      return;
    case ActivationKind::Tanh:
      add_pointwise(finished(make_pointwise(CUDNN_POINTWISE_TANH_FWD)), x, nullptr);
      return;
    case ActivationKind::LeakyRelu:
      add_pointwise(make_relu(std::numeric_limits<double>::infinity(), static_cast<double>(act.alpha)), x, nullptr);
      return;
    case ActivationKind::Elu:
      return;  // graph_forms() has it computed behind the convolution
    case ActivationKind::Silu: {
      if (!composed) return void(add_pointwise(make_swish(), x, nullptr));
      const std::size_t gate = add_pointwise(finished(make_pointwise(CUDNN_POINTWISE_SIGMOID_FWD)), x, nullptr);
      add_binary(CUDNN_POINTWISE_MUL, x, gate);
      return;
    }
    case ActivationKind::HardSwish: {
      std::size_t gate = add_binary(CUDNN_POINTWISE_MUL, x, add_scalar(1.0F / 6.0F));
      gate = add_binary(CUDNN_POINTWISE_ADD, gate, add_scalar(0.5F));
      gate = add_pointwise(make_relu(1.0), gate, nullptr);
      add_binary(CUDNN_POINTWISE_MUL, x, gate);
      return;
    }
  }
}

std::size_t GraphWriter::keep(Descriptor descriptor) {
  parts_.push_back(std::move(descriptor));
  return parts_.size() - 1;
}

std::size_t GraphWriter::add_scalar(float value) {
  scalars_.emplace_back(kFirstScalar + std::ssize(scalars_), value);
  return keep(make_scalar(scalars_.back().first));
}

// The result of an operation: y of the last one, otherwise a virtual tensor in float.
std::size_t GraphWriter::add_result() {
  if (--operations_left_ == 0) {
    return keep(
        make_tensor(kY, dims_, problem_.layout, cudnn_type(problem_.output_element()), false, problem_.y_pitch));
  }
  return keep(make_tensor(next_virtual_++, dims_, problem_.layout, CUDNN_DATA_FLOAT, true));
}

std::size_t GraphWriter::add_convolution() {
  const ConvProblem& p = problem_;
  const cudnnDataType_t type = cudnn_type(p.element());
  const std::size_t x = keep(make_tensor(kX, {p.n, p.c, p.h, p.w}, p.layout, type, false));
  const std::size_t w = keep(make_tensor(kW, {p.k, p.c / p.groups, p.kh, p.kw}, p.layout, type, false));
  const std::size_t y = add_result();
  const std::size_t convolution = keep(make_convolution(p));
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, parts_[x]);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, parts_[w]);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, parts_[y]);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, parts_[convolution]);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0F);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0F);
  operation.finalize();
  operations_.push_back(keep(std::move(operation)));
  return y;
}

std::size_t GraphWriter::add_binary(cudnnPointwiseMode_t mode, std::size_t left, std::size_t right) {
  return add_pointwise(finished(make_pointwise(mode)), left, &right);
}

std::size_t GraphWriter::add_pointwise(Descriptor mode, std::size_t input, const std::size_t* second) {
  const std::size_t pointwise = keep(std::move(mode));
  const std::size_t result = add_result();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts_[pointwise]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts_[input]);
  if (second != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts_[*second]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts_[result]);
  operation.finalize();
  operations_.push_back(keep(std::move(operation)));
  return result;
}

}  // namespace mobicuda::cudnn
