#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/conv2d.h"
#include "baselines/cpu/ops/depthwise_conv.h"
#include "baselines/cpu/ops/gemm.h"

namespace mobicuda::cpu {
namespace {

const float* data_or_null(const PackedWeights& weights) { return weights.bytes() == 0 ? nullptr : weights.data(); }

}  // namespace

LoweredNode lower_fp64(const Conv2d& op, const NodeView& view) {
  const PackedWeights weight = view.copy_of(Conv2d::kWeight);
  const PackedWeights bias = view.copy_of(Conv2d::kBias);
  const Shape weight_shape = view.desc(Conv2d::kWeight).shape;
  const TensorDesc x_desc = view.desc(Conv2d::kInput);
  const TensorDesc y_desc = view.output_desc();
  const bool depthwise = is_depthwise(op, x_desc.shape, weight_shape);
  const auto reference = depthwise ? depthwise_conv_reference : conv2d_reference;
  LoweredNode lowered;
  lowered.kernel = depthwise ? "depthwise_conv/fp64" : "conv2d/fp64";
  lowered.weight_bytes = weight.bytes() + bias.bytes();
  lowered.run = [=, x = view.inputs[Conv2d::kInput], residual = view.inputs[Conv2d::kResidual],
                 y = view.output](const StepContext& context) {
    context.pool.for_ranges(context.n * y_desc.shape[2], 1, [&](std::int64_t first, std::int64_t last, int) {
      reference(op, x_desc, weight_shape, y_desc, context.buffer<const double>(x), weight.data(), data_or_null(bias),
                context.buffer<const double>(residual), context.buffer<double>(y), Range{first, last});
    });
  };
  return lowered;
}

LoweredNode lower_fp64(const Gemm& op, const NodeView& view) {
  const PackedWeights weight = view.copy_of(Gemm::kWeight);
  const PackedWeights bias = view.copy_of(Gemm::kBias);
  const Shape weight_shape = view.desc(Gemm::kWeight).shape;
  LoweredNode lowered;
  lowered.kernel = "gemm/fp64";
  lowered.weight_bytes = weight.bytes() + bias.bytes();
  lowered.run = [=, x = view.inputs[Gemm::kInput], y = view.output](const StepContext& context) {
    context.pool.for_ranges(context.n, 1, [&](std::int64_t first, std::int64_t last, int) {
      gemm_reference(op, weight_shape, context.buffer<const double>(x), weight.data(), data_or_null(bias),
                     context.buffer<double>(y), Range{first, last});
    });
  };
  return lowered;
}

}  // namespace mobicuda::cpu
