// Normalisation by mean and variance. cuDNN's is an operation of its graph API that is compiled at run time and wants a
// scale; a block for each row of elements that are normalised together does it in one launch.

#include <cstdint>
#include <string>
#include <utility>

#include "cudnn/device_vectors.cuh"
#include "cudnn/plan_builder.h"
#include "cudnn/tensor_formats.h"

namespace mobicuda::cudnn {
namespace {

struct RowShape {
  std::int64_t rows;        ///< in the batch
  std::int64_t rows_image;  ///< in an image
  std::int64_t image;       ///< elements of an image
  std::int64_t row_step;    ///< elements from one row's first to the next one's
  std::int64_t channels;    ///< of a row, in each of its pixels
  std::int64_t channel_step;
  std::int64_t pixels;
  std::int64_t pixel_step;
  float epsilon;
};

constexpr unsigned kRowThreads = 128;

template <class R>
__device__ R sum_of_block(R value) {
  __shared__ R parts[kRowThreads];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kRowThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  const R sum = parts[0];
  __syncthreads();
  return sum;
}

template <class T>
__global__ void normalize_rows_kernel(RowShape p, const T* x, T* y) {
  using R = Real<T>;
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const std::int64_t first = row / p.rows_image * p.image + row % p.rows_image * p.row_step;
    const std::int64_t count = p.channels * p.pixels;
    // The threads go along what lies together in memory.
    const bool channels_inside = p.channel_step == 1;
    const std::int64_t inner = channels_inside ? p.channels : p.pixels;
    const std::int64_t inner_step = channels_inside ? p.channel_step : p.pixel_step;
    const std::int64_t outer_step = channels_inside ? p.pixel_step : p.channel_step;
    const auto place = [&](std::int64_t i) { return first + i / inner * outer_step + i % inner * inner_step; };
    R sum = 0;
    for (std::int64_t i = threadIdx.x; i < count; i += kRowThreads) sum += to_real(x[place(i)]);
    const R mean = sum_of_block(sum) / static_cast<R>(count);
    R squares = 0;
    for (std::int64_t i = threadIdx.x; i < count; i += kRowThreads) {
      const R difference = to_real(x[place(i)]) - mean;
      squares += difference * difference;
    }
    const R variance = sum_of_block(squares) / static_cast<R>(count);
    const R factor = R{1} / sqrt(variance + static_cast<R>(p.epsilon));
    for (std::int64_t i = threadIdx.x; i < count; i += kRowThreads) {
      store((to_real(x[place(i)]) - mean) * factor, y[place(i)]);
    }
  }
}

template <class T>
cudaError_t launch(const RowShape& shape, const void* x, void* y, cudaStream_t stream) {
  constexpr std::int64_t kMostBlocks = 65535;
  const auto blocks = static_cast<unsigned>(std::min(shape.rows, kMostBlocks));
  normalize_rows_kernel<T><<<blocks, kRowThreads, 0, stream>>>(shape, static_cast<const T*>(x), static_cast<T*>(y));
  return cudaGetLastError();
}

cudaError_t normalize_rows(const RowShape& shape, DType dtype, const void* x, void* y, cudaStream_t stream) {
  if (dtype == DType::F64) return launch<double>(shape, x, y, stream);
  return dtype == DType::F16 ? launch<__half>(shape, x, y, stream) : launch<float>(shape, x, y, stream);
}

}  // namespace

void emit(PlanBuilder& plan, const Node& node, const Normalize& op) {
  const Stored x = plan.in_plan_format(plan.stored(node.inputs[Normalize::kInput]), "input of " + node.origin.label());
  const Stored y = plan.new_output(node, plan.element());
  const std::vector<std::int64_t> strides = strides_of(x.shape, x.layout, 0);
  const std::int64_t pixels = x.shape[2] * x.shape[3];
  const std::int64_t channels = x.shape[1];
  RowShape rows{};
  rows.image = channels * pixels;
  rows.channel_step = strides[1];
  rows.pixel_step = strides[3];
  rows.epsilon = op.epsilon;
  if (op.over == NormalizedOver::Channels) {
    rows.rows_image = pixels;
    rows.row_step = strides[3];
    rows.channels = channels;
    rows.pixels = 1;
  } else {
    rows.rows_image = op.groups;
    rows.channels = channels / op.groups;
    rows.row_step = rows.channels * strides[1];
    rows.pixels = pixels;
  }
  rows.rows = x.shape[0] * rows.rows_image;
  LayerInfo info = plan.layer_info(node, "elementwise/normalize_rows");
  info.flops = flops_per_picture(plan.graph(), node);
  info.activation_bytes = 2 * rows.image * size_of(plan.element());
  plan.add_step(std::move(info), {x.place.buffer, y.place.buffer},
                [=, dtype = plan.element(), from = x.place, to = y.place](const CudaStepContext& c, const Handles&) {
                  return normalize_rows(rows, dtype, from.in(c), to.in(c), c.stream);
                });
}

}  // namespace mobicuda::cudnn
