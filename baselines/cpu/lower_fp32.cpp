#include <algorithm>
#include <utility>

#include "baselines/cpu/fp32_layers.h"
#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/depthwise_conv.h"
#include "baselines/cpu/winograd.h"

namespace mobicuda::cpu {
namespace {

// Product or Winograd.
template <class Layer>
LoweredNode lower_product(Layer product, const NodeView& view, int residual) {
  LoweredNode lowered;
  lowered.kernel = with_isa(product.kernel(), view);
  lowered.weight_bytes = product.weight_bytes();
  lowered.workspace_bytes = product.scratch_bytes();
  lowered.run = [product = std::move(product), x = view.inputs.front(), residual, y = view.output,
                 first = view.output_first](const StepContext& context) {
    product.run(context, {context.buffer<const float>(x), context.buffer<const float>(residual),
                          context.buffer<float>(y) + first});
  };
  return lowered;
}

LoweredNode lower_depthwise(Depthwise depthwise, const NodeView& view) {
  LoweredNode lowered;
  lowered.kernel = with_isa("depthwise_conv", view);
  lowered.weight_bytes = depthwise.weight_bytes();
  lowered.run = [depthwise = std::move(depthwise), x = view.inputs[Conv2d::kInput],
                 residual = view.inputs[Conv2d::kResidual], y = view.output](const StepContext& context) {
    const std::int64_t out_h = depthwise.out_h();
    const std::int64_t image = depthwise.x_rows() * depthwise.x_row_elements();
    // Two rows at a time, which share lines.
    const std::int64_t pairs = ceil_div(out_h, 2);
    context.pool.for_ranges(context.n * pairs, 1, [&](std::int64_t first, std::int64_t last, int) {
      while (first < last) {
        const std::int64_t n = first / pairs;
        const std::int64_t end = std::min(last, (n + 1) * pairs);
        const Range rows{2 * (first - n * pairs), std::min(2 * (end - n * pairs), out_h)};
        const std::int64_t at = (n * out_h + rows.first) * depthwise.row_elements();
        depthwise.run_rows(rows, context.buffer<const float>(x) + n * image, depthwise.x_rows(),
                           residual == kNoBuffer ? nullptr : context.buffer<const float>(residual) + at,
                           context.buffer<float>(y) + at);
        first = end;
      }
    });
  };
  return lowered;
}

// `pixels` pixels of `channels` channels, each of those `times` times.
void repeat(std::int64_t pixels, std::int64_t channels, std::int64_t times, const float* from, float* to) {
  if (times == 2) {  // a loop that takes vectors
    for (std::int64_t i = 0; i < pixels * channels; ++i) to[2 * i] = to[2 * i + 1] = from[i];
    return;
  }
  for (std::int64_t i = 0; i < pixels * channels; ++i, to += times) std::fill_n(to, times, from[i]);
}

// repeats_channels(): by bands of output rows, whose input rows are repeated in the thread's scratch memory.
LoweredNode lower_repeated(Depthwise depthwise, const NodeView& view) {
  constexpr std::int64_t kBandRows = 8;
  const Shape& x_shape = view.desc(Conv2d::kInput).shape;
  LoweredNode lowered;
  lowered.kernel = with_isa("depthwise_conv_repeated", view);
  lowered.weight_bytes = depthwise.weight_bytes();
  const std::int64_t ring = depthwise.most_window_rows(std::min(kBandRows, depthwise.out_h()));
  lowered.workspace_bytes = checked_multiply(checked_multiply(ring, depthwise.x_row_elements()), kFloatBytes);
  lowered.run = [depthwise = std::move(depthwise), ring, channels = x_shape[1], w = x_shape[3],
                 x = view.inputs[Conv2d::kInput], residual = view.inputs[Conv2d::kResidual],
                 y = view.output](const StepContext& context) {
    const std::int64_t out_h = depthwise.out_h();
    const std::int64_t bands = ceil_div(out_h, kBandRows);
    const std::int64_t times = depthwise.x_row_elements() / (w * channels);
    context.pool.for_ranges(context.n * bands, 1, [&](std::int64_t first, std::int64_t last, int worker) {
      float* const rows = context.scratch(worker);
      for (std::int64_t item = first; item < last; ++item) {
        const Range band = part_of(out_h, item % bands, bands);
        const std::int64_t image = item / bands;
        const float* const from = context.buffer<const float>(x) + image * depthwise.x_rows() * w * channels;
        const Range window = depthwise.window_of(band);
        for (std::int64_t row = window.first; row < window.last; ++row) {
          repeat(w, channels, times, from + row * w * channels, rows + row % ring * depthwise.x_row_elements());
        }
        const std::int64_t at = (image * out_h + band.first) * depthwise.row_elements();
        depthwise.run_rows(band, rows, ring,
                           residual == kNoBuffer ? nullptr : context.buffer<const float>(residual) + at,
                           context.buffer<float>(y) + at);
      }
    });
  };
  return lowered;
}

}  // namespace

LoweredNode lower_fp32(const Conv2d& op, const NodeView& view) {
  const Shape& x_shape = view.desc(Conv2d::kInput).shape;
  const Shape& weight_shape = view.desc(Conv2d::kWeight).shape;
  if (repeats_channels(op, x_shape, weight_shape)) return lower_repeated(Depthwise(op, view), view);
  if (is_depthwise(op, x_shape, weight_shape)) return lower_depthwise(Depthwise(op, view), view);
  const int residual = view.inputs[Conv2d::kResidual];
  if (takes_winograd(op, view)) return lower_product(Winograd(op, view), view, residual);
  return lower_product(Product(op, view, view.zeros), view, residual);
}

LoweredNode lower_fp32(const Gemm& op, const NodeView& view) {
  return lower_product(Product(op, view, view.zeros), view, kNoBuffer);
}

}  // namespace mobicuda::cpu
