// Products and extrema of activations, pooling windows of any kind, normalisation over channels, joined and cut
// tensors. One thread for each vector or element of the output; windows of neighbours meet in L1.

#include "cudnn/branch_ops.h"

#include <algorithm>
#include <numeric>

#include "cudnn/device_vectors.cuh"

namespace mobicuda::cudnn {
namespace {

// ---- binary --------------------------------------------------------------------------------------

/// The same branch for a whole grid. Comparisons with NaN are false: b's is taken by itself, x's is asked for.
template <class R>
__device__ R evaluate(BinaryFunction function, R x, R b) {
  switch (function) {
    case BinaryFunction::Product:
      return x * b;
    case BinaryFunction::Max:
      return x > b || x != x ? x : b;
    case BinaryFunction::Min:
      return x < b || x != x ? x : b;
  }
  return x;
}

enum class Operand : std::uint8_t { Same, ChannelsLast, Planes };

struct BinaryExtents {
  unsigned vectors;  // of y
  unsigned inner;    // ChannelsLast: vectors of a pixel; Planes: vectors of a plane
  unsigned pixels;   // of an image
  BinaryFunction function;
  Activation activation;
};

template <class V, class T, Operand kOperand>
__global__ void binary_kernel(BinaryExtents p, const V* x, const void* b, V* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.vectors) return;
  V value = x[i];
  V operand;
  if constexpr (kOperand == Operand::Same) operand = static_cast<const V*>(b)[i];
  if constexpr (kOperand == Operand::ChannelsLast) {
    operand = static_cast<const V*>(b)[i / p.inner / p.pixels * p.inner + i % p.inner];
  }
  if constexpr (kOperand == Operand::Planes) {
    const T plane = static_cast<const T*>(b)[i / p.inner];
#pragma unroll
    for (int lane = 0; lane < V::kSize; ++lane) operand.lane[lane] = plane;
  }
#pragma unroll
  for (int lane = 0; lane < V::kSize; ++lane) {
    const auto result = evaluate(p.function, to_real(value.lane[lane]), to_real(operand.lane[lane]));
    store(activate(p.activation, result), value.lane[lane]);
  }
  y[i] = value;
}

template <class V, class T>
cudaError_t launch_binary(const Binary& op, const void* x, const void* b, void* y, cudaStream_t stream) {
  const TensorShape& shape = op.shape;
  const std::int64_t vectors = shape.elements() / V::kSize;
  if (!fits_index(vectors)) return cudaErrorInvalidValue;
  const std::int64_t pixels = shape.h * shape.w;
  const std::int64_t inner = (shape.channels_last ? shape.c : pixels) / V::kSize;
  const BinaryExtents extents{static_cast<unsigned>(vectors), static_cast<unsigned>(inner),
                              static_cast<unsigned>(pixels), op.function, op.activation};
  auto kernel = binary_kernel<V, T, Operand::Same>;
  if (op.by_channel) {
    kernel = shape.channels_last ? binary_kernel<V, T, Operand::ChannelsLast> : binary_kernel<V, T, Operand::Planes>;
  }
  kernel<<<blocks_for(vectors), kThreads, 0, stream>>>(extents, static_cast<const V*>(x), b, static_cast<V*>(y));
  return cudaGetLastError();
}

template <class T>
cudaError_t binary_of(const Binary& op, const void* x, const void* b, void* y, cudaStream_t stream) {
  const std::int64_t inner = op.shape.channels_last ? op.shape.c : op.shape.h * op.shape.w;
  const std::int64_t unit = op.by_channel ? inner : op.shape.elements();
  return unit % Vector16<T>::kSize == 0 ? launch_binary<Vector16<T>, T>(op, x, b, y, stream)
                                        : launch_binary<Vector1<T>, T>(op, x, b, y, stream);
}

template <class T>
__global__ void binary_strided_kernel(StridedShape p, unsigned elements, BinaryFunction function, Activation activation,
                                      const T* x, const T* b, T* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  unsigned rest = i;
  std::int64_t operand = 0;
  for (int axis = p.rank - 1; axis >= 0; --axis) {
    const unsigned extent = static_cast<unsigned>(p.extents[axis]);
    operand += static_cast<std::int64_t>(rest % extent) * p.x_strides[axis];
    rest /= extent;
  }
  store(activate(activation, evaluate(function, to_real(x[i]), to_real(b[operand]))), y[i]);
}

template <class T>
cudaError_t binary_strided_of(const StridedShape& shape, const Binary& op, const void* x, const void* b, void* y,
                              cudaStream_t stream) {
  std::int64_t elements = 1;
  for (int axis = 0; axis < shape.rank; ++axis) elements *= shape.extents[axis];
  if (!fits_index(elements)) return cudaErrorInvalidValue;
  if (elements == 0) return cudaSuccess;
  binary_strided_kernel<T><<<blocks_for(elements), kThreads, 0, stream>>>(
      shape, static_cast<unsigned>(elements), op.function, op.activation, static_cast<const T*>(x),
      static_cast<const T*>(b), static_cast<T*>(y));
  return cudaGetLastError();
}

// ---- pool ----------------------------------------------------------------------------------------

struct PoolAxis {
  int extent, out, kernel, stride, dilation, before, padded_end;  // padded_end: extent + padding after
};

struct PoolExtents {
  unsigned vectors;  // of y
  unsigned inner;    // vectors of a pixel (NHWC), 1 (NCHW)
  std::size_t y_pitch;
  PoolAxis rows, columns;
  bool average, count_padding;
};

// The taps first, first + 1, ... last - 1 lie in the image.
struct Taps {
  int first, last, divisor;
};

__device__ int taps_before(const PoolAxis& a, int start, int end) {
  return end <= start ? 0 : min(a.kernel, (end - start + a.dilation - 1) / a.dilation);
}

__device__ Taps taps_of(const PoolAxis& a, int start, bool count_padding) {
  const int first = taps_before(a, start, 0);
  const int last = taps_before(a, start, a.extent);
  return {first, last, count_padding ? taps_before(a, start, a.padded_end) : last - first};
}

template <class V>
__global__ void pool_kernel(PoolExtents p, const V* x, V* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.vectors) return;
  const unsigned pixel = i / p.inner;
  const unsigned column = i % p.inner;
  const unsigned row = pixel / static_cast<unsigned>(p.columns.out);
  const int left = static_cast<int>(pixel % static_cast<unsigned>(p.columns.out)) * p.columns.stride - p.columns.before;
  const int top = static_cast<int>(row % static_cast<unsigned>(p.rows.out)) * p.rows.stride - p.rows.before;
  const std::size_t outer = row / static_cast<unsigned>(p.rows.out);
  const Taps ty = taps_of(p.rows, top, p.count_padding);
  const Taps tx = taps_of(p.columns, left, p.count_padding);
  using R = Real<typename V::Value>;
  R result[V::kSize];
#pragma unroll
  for (R& r : result) r = p.average ? 0.0F : -INFINITY;
  for (int ky = ty.first; ky < ty.last; ++ky) {
    const std::size_t line =
        (outer * static_cast<unsigned>(p.rows.extent) + static_cast<unsigned>(top + ky * p.rows.dilation)) *
        static_cast<unsigned>(p.columns.extent);
    for (int kx = tx.first; kx < tx.last; ++kx) {
      const V tap = x[(line + static_cast<unsigned>(left + kx * p.columns.dilation)) * p.inner + column];
#pragma unroll
      for (int lane = 0; lane < V::kSize; ++lane) {
        const R v = to_real(tap.lane[lane]);
        if (p.average) {
          result[lane] += v;
        } else {
          result[lane] = v > result[lane] || v != v ? v : result[lane];
        }
      }
    }
  }
  const int divisor = ty.divisor * tx.divisor;
  V value;
#pragma unroll
  for (int lane = 0; lane < V::kSize; ++lane) {
    const bool divides = p.average && divisor > 0;
    store(divides ? result[lane] / static_cast<R>(divisor) : result[lane], value.lane[lane]);
  }
  y[static_cast<std::size_t>(pixel) * p.y_pitch + column] = value;
}

template <class V>
cudaError_t launch_pool(const PoolShape& s, const void* x, void* y, cudaStream_t stream) {
  const TensorShape& in = s.x;
  const std::int64_t vectors = in.n * in.c * s.out_h * s.out_w / V::kSize;
  if (!fits_index(vectors) || !fits_index(in.h + s.pads.bottom) || !fits_index(in.w + s.pads.right)) {
    return cudaErrorInvalidValue;
  }
  const std::int64_t inner = in.channels_last ? in.c / V::kSize : 1;
  const auto axis = [&](std::size_t i, std::int64_t extent, std::int64_t out, std::int64_t before, std::int64_t after) {
    return PoolAxis{static_cast<int>(extent),         static_cast<int>(out),
                    static_cast<int>(s.kernel[i]),    static_cast<int>(s.strides[i]),
                    static_cast<int>(s.dilations[i]), static_cast<int>(before),
                    static_cast<int>(extent + after)};
  };
  const PoolExtents extents{static_cast<unsigned>(vectors),
                            static_cast<unsigned>(inner),
                            static_cast<std::size_t>(s.y_pitch == 0 ? inner : s.y_pitch / V::kSize),
                            axis(0, in.h, s.out_h, s.pads.top, s.pads.bottom),
                            axis(1, in.w, s.out_w, s.pads.left, s.pads.right),
                            s.average,
                            s.count_padding};
  pool_kernel<V><<<blocks_for(vectors), kThreads, 0, stream>>>(extents, static_cast<const V*>(x), static_cast<V*>(y));
  return cudaGetLastError();
}

template <class T>
cudaError_t pool_of(const PoolShape& s, const void* x, void* y, cudaStream_t stream) {
  constexpr int kLanes = Vector16<T>::kSize;
  const bool whole = s.x.channels_last && s.x.c % kLanes == 0 && s.y_pitch % kLanes == 0;
  return whole ? launch_pool<Vector16<T>>(s, x, y, stream) : launch_pool<Vector1<T>>(s, x, y, stream);
}

// ---- normalize_channels --------------------------------------------------------------------------

struct NormalizationExtents {
  unsigned elements;
  unsigned channel_stride;
  int channels;
  int before, after;  // neighbours on either side
  double scale;       // alpha / size
  float beta, bias;
};

__device__ float power_of(float base, float beta) {
  if (beta == 0.75F) {
    const float root = sqrtf(base);
    return 1.0F / (root * sqrtf(root));
  }
  return powf(base, -beta);
}

__device__ double power_of(double base, float beta) { return pow(base, -static_cast<double>(beta)); }

template <class T>
__global__ void normalize_channels_kernel(NormalizationExtents p, const T* x, T* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.elements) return;
  const int c = static_cast<int>(i / p.channel_stride % static_cast<unsigned>(p.channels));
  const int first = max(-c, -p.before);
  const int last = min(p.channels - 1 - c, p.after);
  Real<T> sum = 0;
  for (int k = first; k <= last; ++k) {
    const Real<T> v = to_real(x[static_cast<std::int64_t>(i) + static_cast<std::int64_t>(k) * p.channel_stride]);
    sum = fma(v, v, sum);
  }
  store(to_real(x[i]) * power_of(fma(static_cast<Real<T>>(p.scale), sum, Real<T>{p.bias}), p.beta), y[i]);
}

template <class T>
cudaError_t normalize_channels_of(const Normalization& op, const void* x, void* y, cudaStream_t stream) {
  const TensorShape& s = op.shape;
  if (!fits_index(s.elements())) return cudaErrorInvalidValue;
  const std::int64_t before = (op.size - 1) / 2;
  const std::int64_t most = s.c;  // a wider window meets all channels as well
  const NormalizationExtents extents{static_cast<unsigned>(s.elements()),
                                     static_cast<unsigned>(s.channels_last ? 1 : s.h * s.w),
                                     static_cast<int>(s.c),
                                     static_cast<int>(std::min(before, most)),
                                     static_cast<int>(std::min(op.size - 1 - before, most)),
                                     static_cast<double>(op.alpha) / static_cast<double>(op.size),
                                     op.beta,
                                     op.bias};
  normalize_channels_kernel<T>
      <<<blocks_for(s.elements()), kThreads, 0, stream>>>(extents, static_cast<const T*>(x), static_cast<T*>(y));
  return cudaGetLastError();
}

// ---- copy_rows -----------------------------------------------------------------------------------

template <class V>
__global__ void copy_rows_kernel(unsigned vectors, unsigned inner, std::size_t x_pitch, std::size_t y_pitch, const V* x,
                                 V* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const std::size_t row = i / inner;
  const unsigned column = i % inner;
  y[row * y_pitch + column] = x[row * x_pitch + column];
}

template <class V>
cudaError_t launch_copy_rows(const RowCopy& op, const void* x, void* y, cudaStream_t stream) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(V));
  const std::int64_t vectors = op.rows * (op.bytes / kBytes);
  if (!fits_index(vectors)) return cudaErrorInvalidValue;
  copy_rows_kernel<V><<<blocks_for(vectors), kThreads, 0, stream>>>(
      static_cast<unsigned>(vectors), static_cast<unsigned>(op.bytes / kBytes),
      static_cast<std::size_t>(op.x_pitch_bytes / kBytes), static_cast<std::size_t>(op.y_pitch_bytes / kBytes),
      static_cast<const V*>(x), static_cast<V*>(y));
  return cudaGetLastError();
}

}  // namespace

// ---- launchers -----------------------------------------------------------------------------------

cudaError_t binary(const Binary& op, const void* x, const void* b, void* y, cudaStream_t stream) {
  if (op.shape.elements() == 0) return cudaSuccess;
  switch (op.shape.element) {
    case Element::F32:
      return binary_of<float>(op, x, b, y, stream);
    case Element::F16:
      return binary_of<__half>(op, x, b, y, stream);
    case Element::F64:
      return binary_of<double>(op, x, b, y, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t binary_strided(const StridedShape& b_shape, const Binary& op, const void* x, const void* b, void* y,
                           cudaStream_t stream) {
  switch (op.shape.element) {
    case Element::F32:
      return binary_strided_of<float>(b_shape, op, x, b, y, stream);
    case Element::F16:
      return binary_strided_of<__half>(b_shape, op, x, b, y, stream);
    case Element::F64:
      return binary_strided_of<double>(b_shape, op, x, b, y, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t pool(const PoolShape& shape, const void* x, void* y, cudaStream_t stream) {
  if (shape.x.n * shape.x.c * shape.out_h * shape.out_w == 0) return cudaSuccess;
  switch (shape.x.element) {
    case Element::F32:
      return pool_of<float>(shape, x, y, stream);
    case Element::F16:
      return pool_of<__half>(shape, x, y, stream);
    case Element::F64:
      return pool_of<double>(shape, x, y, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t normalize_channels(const Normalization& op, const void* x, void* y, cudaStream_t stream) {
  if (op.shape.elements() == 0) return cudaSuccess;
  switch (op.shape.element) {
    case Element::F32:
      return normalize_channels_of<float>(op, x, y, stream);
    case Element::F16:
      return normalize_channels_of<__half>(op, x, y, stream);
    case Element::F64:
      return normalize_channels_of<double>(op, x, y, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t copy_rows(const RowCopy& op, const void* x, void* y, cudaStream_t stream) {
  if (op.rows * op.bytes == 0) return cudaSuccess;
  const auto address =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y));
  const std::int64_t unit = std::gcd(std::gcd(op.bytes, address), std::gcd(op.x_pitch_bytes, op.y_pitch_bytes));
  if (unit % 16 == 0) return launch_copy_rows<uint4>(op, x, y, stream);
  if (unit % 8 == 0) return launch_copy_rows<uint2>(op, x, y, stream);
  if (unit % 4 == 0) return launch_copy_rows<unsigned>(op, x, y, stream);
  return launch_copy_rows<unsigned short>(op, x, y, stream);
}

}  // namespace mobicuda::cudnn
