// Images of another height and width: cuDNN has no such operation that knows how ONNX places pixels. A thread for each
// element of the output.

#include <cstdint>
#include <string>
#include <utility>

#include "cudnn/device_vectors.cuh"
#include "cudnn/plan_builder.h"
#include "cudnn/tensor_formats.h"

namespace mobicuda::cudnn {
namespace {

struct Line {
  std::int64_t in, out;
  ResizeAxis at;
};

struct ResizeShape {
  std::int64_t elements;  ///< of y
  std::int64_t channels;
  Line rows, columns;
  std::int64_t x_strides[4];  ///< of the image, channel, row and column
  bool channels_last;
  bool linear;
};

template <class R>
struct Neighbours {
  std::int64_t near, far;
  R weight;  ///< of the far one
};

template <class R>
__device__ Neighbours<R> neighbours(const Line& line, std::int64_t i) {
  const std::int64_t position = line.at.factor * i + line.at.offset;
  std::int64_t whole = position / line.at.divisor;
  if (whole * line.at.divisor > position) --whole;
  const R weight = static_cast<R>(position - whole * line.at.divisor) / static_cast<R>(line.at.divisor);
  const std::int64_t last = line.in - 1;
  const auto clamp = [&](std::int64_t pixel) { return pixel < 0 ? std::int64_t{0} : pixel > last ? last : pixel; };
  return {clamp(whole), clamp(whole + 1), weight};
}

template <class T>
__global__ void resize_kernel(ResizeShape p, const T* x, T* y) {
  using R = Real<T>;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.elements) return;
  const std::int64_t plane = p.rows.out * p.columns.out;
  const std::int64_t image = i / (plane * p.channels);
  const std::int64_t rest = i % (plane * p.channels);
  const std::int64_t channel = p.channels_last ? rest % p.channels : rest / plane;
  const std::int64_t pixel = p.channels_last ? rest / p.channels : rest % plane;
  const Neighbours<R> rows = neighbours<R>(p.rows, pixel / p.columns.out);
  const Neighbours<R> columns = neighbours<R>(p.columns, pixel % p.columns.out);
  const T* const from = x + image * p.x_strides[0] + channel * p.x_strides[1];
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return from[row * p.x_strides[2] + column * p.x_strides[3]];
  };
  if (!p.linear) {
    y[i] = at(rows.near, columns.near);
    return;
  }
  const auto across = [&](std::int64_t row) {
    return to_real(at(row, columns.near)) * (R{1} - columns.weight) + to_real(at(row, columns.far)) * columns.weight;
  };
  store(across(rows.near) * (R{1} - rows.weight) + across(rows.far) * rows.weight, y[i]);
}

template <class T>
cudaError_t launch(const ResizeShape& shape, const void* x, void* y, cudaStream_t stream) {
  if (!fits_index(shape.elements)) return cudaErrorInvalidValue;
  resize_kernel<T>
      <<<blocks_for(shape.elements), kThreads, 0, stream>>>(shape, static_cast<const T*>(x), static_cast<T*>(y));
  return cudaGetLastError();
}

cudaError_t resize(const ResizeShape& shape, DType dtype, const void* x, void* y, cudaStream_t stream) {
  if (dtype == DType::F64) return launch<double>(shape, x, y, stream);
  return dtype == DType::F16 ? launch<__half>(shape, x, y, stream) : launch<float>(shape, x, y, stream);
}

}  // namespace

void emit(PlanBuilder& plan, const Node& node, const Resize& op) {
  const Stored x = plan.in_plan_format(plan.stored(node.inputs[Resize::kInput]), "input of " + node.origin.label());
  const Stored y = plan.new_output(node, plan.element());
  ResizeShape shape{};
  shape.elements = y.shape.elements();
  shape.channels = x.shape[1];
  shape.rows = {x.shape[2], y.shape[2], resize_axis(op, 0, x.shape[2])};
  shape.columns = {x.shape[3], y.shape[3], resize_axis(op, 1, x.shape[3])};
  const std::vector<std::int64_t> strides = strides_of(x.shape, x.layout, 0);
  std::copy(strides.begin(), strides.end(), shape.x_strides);
  shape.channels_last = y.layout == Layout::NHWC;
  shape.linear = op.mode == ResizeMode::Linear;
  LayerInfo info = plan.layer_info(node, "elementwise/resize");
  info.flops = flops_per_picture(plan.graph(), node);
  info.activation_bytes = (x.shape.elements() + y.shape.elements()) * size_of(plan.element()) / x.shape[0];
  plan.add_step(std::move(info), {x.place.buffer, y.place.buffer},
                [=, dtype = plan.element(), from = x.place, to = y.place](const CudaStepContext& c, const Handles&) {
                  return resize(shape, dtype, from.in(c), to.in(c), c.stream);
                });
}

}  // namespace mobicuda::cudnn
