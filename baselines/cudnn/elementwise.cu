// Bias, residual and activation; padding; layout and type conversion; global average. One pass over the tensor
// each, 16-byte accesses where the extents allow, arithmetic in double for double, else in float.

#include "cudnn/elementwise.h"

#include <algorithm>

#include "cudnn/device_vectors.cuh"

namespace mobicuda::cudnn {
namespace {

// ---- affine --------------------------------------------------------------------------------------

struct AffineExtents {
  unsigned vectors;  // in the whole tensor
  unsigned inner;    // NHWC: vectors of a pixel; NCHW: vectors of a plane
  unsigned channels;
  std::size_t x_pitch, residual_pitch, y_pitch;  // NHWC: vectors from pixel to pixel
  Activation activation;
};

// Without a switch for what nearly all layers are.
template <bool kClips, class R>
__device__ R finish(const AffineExtents& p, R v) {
  if constexpr (kClips) return clip(v, p.activation.lo, p.activation.hi);
  return activate(p.activation, v);
}

template <class V, class T, bool kChannelsLast, bool kClips>
__global__ void affine_kernel(AffineExtents p, const V* x, const T* scale, const T* bias, const V* residual, V* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.vectors) return;
  const unsigned row = i / p.inner;
  const unsigned column = i % p.inner;
  V value = x[kChannelsLast ? row * p.x_pitch + column : i];
  V skip{};
  if (residual != nullptr) skip = residual[kChannelsLast ? row * p.residual_pitch + column : i];
  // NHWC: a vector spans channels. NCHW: all its lanes belong to one channel.
  const unsigned first = kChannelsLast ? column * V::kSize : row % p.channels;
#pragma unroll
  for (int lane = 0; lane < V::kSize; ++lane) {
    const unsigned c = kChannelsLast ? first + static_cast<unsigned>(lane) : first;
    Real<T> v = to_real(value.lane[lane]);
    if (scale != nullptr) v *= to_real(scale[c]);
    if (bias != nullptr) v += to_real(bias[c]);
    if (residual != nullptr) v += to_real(skip.lane[lane]);
    store(finish<kClips>(p, v), value.lane[lane]);
  }
  y[kChannelsLast ? row * p.y_pitch + column : i] = value;
}

template <class V, class T, bool kClips>
cudaError_t launch_affine(const Affine& op, const void* x, const void* scale, const void* bias, const void* residual,
                          void* y, cudaStream_t stream) {
  const TensorShape& shape = op.shape;
  const std::int64_t vectors = shape.elements() / V::kSize;
  if (!fits_index(vectors)) return cudaErrorInvalidValue;
  const std::int64_t inner = (shape.channels_last ? shape.c : shape.h * shape.w) / V::kSize;
  const auto pitch = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements == 0 ? inner : elements / V::kSize);
  };
  const AffineExtents extents{static_cast<unsigned>(vectors),
                              static_cast<unsigned>(inner),
                              static_cast<unsigned>(shape.c),
                              pitch(op.x_pitch),
                              pitch(op.residual_pitch),
                              pitch(op.y_pitch),
                              op.activation};
  const auto kernel = shape.channels_last ? affine_kernel<V, T, true, kClips> : affine_kernel<V, T, false, kClips>;
  kernel<<<blocks_for(vectors), kThreads, 0, stream>>>(extents, static_cast<const V*>(x), static_cast<const T*>(scale),
                                                       static_cast<const T*>(bias), static_cast<const V*>(residual),
                                                       static_cast<V*>(y));
  return cudaGetLastError();
}

template <class T>
cudaError_t affine_of(const Affine& op, const void* x, const void* scale, const void* bias, const void* residual,
                      void* y, cudaStream_t stream) {
  constexpr int kLanes = Vector16<T>::kSize;
  const std::int64_t inner = op.shape.channels_last ? op.shape.c : op.shape.h * op.shape.w;
  const bool whole =
      inner % kLanes == 0 && op.x_pitch % kLanes == 0 && op.residual_pitch % kLanes == 0 && op.y_pitch % kLanes == 0;
  const bool clips = op.activation.is_clip();
  const auto launch = whole ? (clips ? launch_affine<Vector16<T>, T, true> : launch_affine<Vector16<T>, T, false>)
                            : (clips ? launch_affine<Vector1<T>, T, true> : launch_affine<Vector1<T>, T, false>);
  return launch(op, x, scale, bias, residual, y, stream);
}

// ---- pad -----------------------------------------------------------------------------------------

struct PadExtents {
  unsigned vectors;  // of y
  unsigned y_h, y_w, x_h, x_w;
  unsigned inner;  // vectors of a pixel (NHWC), 1 (NCHW)
  int top, left;
  float value;
  Border border;
};

// Where a row or column of y comes from: of x, or -1.
__device__ int source_of(int i, int extent, Border border) {
  if (i >= 0 && i < extent) return i;
  if (border == Border::Value) return -1;
  if (border == Border::Edge) return i < 0 ? 0 : extent - 1;
  return i < 0 ? -i : 2 * (extent - 1) - i;
}

template <class V>
__global__ void pad_kernel(PadExtents p, const V* x, V* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.vectors) return;
  const unsigned pixel = i / p.inner;
  const unsigned row = pixel / p.y_w;
  const int ix = source_of(static_cast<int>(pixel % p.y_w) - p.left, static_cast<int>(p.x_w), p.border);
  const int iy = source_of(static_cast<int>(row % p.y_h) - p.top, static_cast<int>(p.x_h), p.border);
  const unsigned outer = row / p.y_h;
  V result;
  if (ix >= 0 && iy >= 0) {
    const unsigned source = (outer * p.x_h + static_cast<unsigned>(iy)) * p.x_w + static_cast<unsigned>(ix);
    result = x[source * p.inner + i % p.inner];
  } else {
#pragma unroll
    for (int lane = 0; lane < V::kSize; ++lane) store(p.value, result.lane[lane]);
  }
  y[i] = result;
}

// y tells the order of both: where x has one pixel, either order is its own.
template <class V>
cudaError_t launch_pad(const PadShape& shape, const void* x, void* y, cudaStream_t stream) {
  const std::int64_t vectors = shape.y.elements() / V::kSize;
  if (!fits_index(vectors)) return cudaErrorInvalidValue;
  const std::int64_t inner = shape.y.channels_last ? shape.x.c / V::kSize : 1;
  const PadExtents extents{static_cast<unsigned>(vectors),
                           static_cast<unsigned>(shape.y.h),
                           static_cast<unsigned>(shape.y.w),
                           static_cast<unsigned>(shape.x.h),
                           static_cast<unsigned>(shape.x.w),
                           static_cast<unsigned>(inner),
                           static_cast<int>(shape.top),
                           static_cast<int>(shape.left),
                           shape.value,
                           shape.border};
  pad_kernel<V><<<blocks_for(vectors), kThreads, 0, stream>>>(extents, static_cast<const V*>(x), static_cast<V*>(y));
  return cudaGetLastError();
}

template <class T>
cudaError_t pad_of(const PadShape& shape, const void* x, void* y, cudaStream_t stream) {
  const bool whole = shape.y.channels_last && shape.x.c % Vector16<T>::kSize == 0;
  return whole ? launch_pad<Vector16<T>>(shape, x, y, stream) : launch_pad<Vector1<T>>(shape, x, y, stream);
}

// ---- interleave, strided_copy --------------------------------------------------------------------

__global__ void normalize_kernel(PictureShape p, unsigned pixels, const std::uint8_t* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pixels) return;
  const auto plane = static_cast<unsigned>(p.pixels);
  const std::size_t picture = static_cast<std::size_t>(i / plane) * 3 * plane;
#pragma unroll
  for (unsigned c = 0; c < 3; ++c) {
    const std::size_t to = p.channels_last ? std::size_t{i} * 3 + c : picture + std::size_t{c} * plane + i % plane;
    y[to] = static_cast<float>(x[std::size_t{i} * 3 + c]) * p.scale[c] + p.shift[c];
  }
}

template <class T>
__global__ void interleave_kernel(unsigned pixels, unsigned plane, unsigned x_channels, unsigned y_channels,
                                  const float* x, T* y) {
  const unsigned pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= pixels) return;
  const float* source = x + static_cast<std::size_t>(pixel / plane) * plane * x_channels + pixel % plane;
  T* target = y + static_cast<std::size_t>(pixel) * y_channels;
  for (unsigned c = 0; c < y_channels; ++c) {
    store(c < x_channels ? source[static_cast<std::size_t>(c) * plane] : 0.0F, target[c]);
  }
}

// As interleave_kernel, four pixels of an image at once: `plane` is a multiple of four.
template <class T, int kChannels>
__global__ void interleave4_kernel(unsigned groups, unsigned plane, unsigned x_channels, const float4* x,
                                   Vector16<T>* y) {
  constexpr int kPixels = 4;
  constexpr int kVectors = kPixels * kChannels / Vector16<T>::kSize;
  const unsigned group = blockIdx.x * blockDim.x + threadIdx.x;
  if (group >= groups) return;
  const unsigned step = plane / kPixels;
  const float4* source = x + static_cast<std::size_t>(group / step) * step * x_channels + group % step;
  Vector16<T> result[kVectors];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    float4 four{0.0F, 0.0F, 0.0F, 0.0F};
    if (static_cast<unsigned>(c) < x_channels) four = source[static_cast<std::size_t>(c) * step];
    const float pixels[kPixels] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const int at = i * kChannels + c;
      store(pixels[i], result[at / Vector16<T>::kSize].lane[at % Vector16<T>::kSize]);
    }
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    y[static_cast<std::size_t>(group) * kVectors + static_cast<std::size_t>(i)] = result[i];
}

template <class T, int kChannels>
cudaError_t launch_interleave4(std::int64_t x_channels, const TensorShape& y_shape, const float* x, void* y,
                               cudaStream_t stream) {
  const std::int64_t plane = y_shape.h * y_shape.w;
  const std::int64_t groups = y_shape.n * plane / 4;
  interleave4_kernel<T, kChannels><<<blocks_for(groups), kThreads, 0, stream>>>(
      static_cast<unsigned>(groups), static_cast<unsigned>(plane), static_cast<unsigned>(x_channels),
      reinterpret_cast<const float4*>(x), static_cast<Vector16<T>*>(y));
  return cudaGetLastError();
}

template <class T>
cudaError_t interleave_of(std::int64_t x_channels, const TensorShape& y_shape, const float* x, void* y,
                          cudaStream_t stream) {
  const std::int64_t plane = y_shape.h * y_shape.w;
  if (plane % 4 == 0 && y_shape.c == 4) return launch_interleave4<T, 4>(x_channels, y_shape, x, y, stream);
  if (plane % 4 == 0 && y_shape.c == 8) return launch_interleave4<T, 8>(x_channels, y_shape, x, y, stream);
  if constexpr (sizeof(T) >= sizeof(float)) {
    if (plane % 4 == 0 && y_shape.c == 3) return launch_interleave4<T, 3>(x_channels, y_shape, x, y, stream);
  }
  const std::int64_t pixels = y_shape.n * plane;
  interleave_kernel<T><<<blocks_for(pixels), kThreads, 0, stream>>>(
      static_cast<unsigned>(pixels), static_cast<unsigned>(plane), static_cast<unsigned>(x_channels),
      static_cast<unsigned>(y_shape.c), x, static_cast<T*>(y));
  return cudaGetLastError();
}

template <class From, class To>
__global__ void strided_copy_kernel(StridedShape p, unsigned elements, const From* x, To* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  unsigned rest = i;
  std::int64_t source = 0;
  for (int axis = p.rank - 1; axis >= 0; --axis) {
    const unsigned extent = static_cast<unsigned>(p.extents[axis]);
    source += static_cast<std::int64_t>(rest % extent) * p.x_strides[axis];
    rest /= extent;
  }
  store(to_real(x[source]), y[i]);
}

template <class From, class To>
cudaError_t launch_strided_copy(const StridedShape& shape, const void* x, void* y, cudaStream_t stream) {
  std::int64_t elements = 1;
  for (int axis = 0; axis < shape.rank; ++axis) elements *= shape.extents[axis];
  if (!fits_index(elements)) return cudaErrorInvalidValue;
  if (elements == 0) return cudaSuccess;
  strided_copy_kernel<From, To><<<blocks_for(elements), kThreads, 0, stream>>>(
      shape, static_cast<unsigned>(elements), static_cast<const From*>(x), static_cast<To*>(y));
  return cudaGetLastError();
}

// ---- global_average ------------------------------------------------------------------------------

constexpr unsigned kLanes = 32;
constexpr unsigned kRows = 8;

// NHWC: lanes are channels, rows share the pixels. NCHW: lanes share the pixels, rows are channels.
template <class T, bool kChannelsLast>
__global__ void global_average_kernel(unsigned channels, unsigned pixels, const T* x, T* y) {
  __shared__ Real<T> partial[kRows][kLanes];
  const unsigned width = kChannelsLast ? kLanes : kRows;
  const unsigned c = blockIdx.x * width + (kChannelsLast ? threadIdx.x : threadIdx.y);
  const std::size_t picture = static_cast<std::size_t>(blockIdx.y) * channels * pixels;
  Real<T> sum = 0;
  if (c < channels) {
    const unsigned start = kChannelsLast ? threadIdx.y : threadIdx.x;
    const unsigned step = kChannelsLast ? kRows : kLanes;
    for (unsigned i = start; i < pixels; i += step) {
      const std::size_t offset =
          kChannelsLast ? static_cast<std::size_t>(i) * channels + c : static_cast<std::size_t>(c) * pixels + i;
      sum += to_real(x[picture + offset]);
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const bool writes = kChannelsLast ? threadIdx.y == 0 : threadIdx.x == 0;
  if (!writes || c >= channels) return;
  Real<T> total = 0;
  const unsigned parts = kChannelsLast ? kRows : kLanes;
  for (unsigned i = 0; i < parts; ++i) {
    total += kChannelsLast ? partial[i][threadIdx.x] : partial[threadIdx.y][i];
  }
  store(total / static_cast<Real<T>>(pixels), y[static_cast<std::size_t>(blockIdx.y) * channels + c]);
}

template <class T>
cudaError_t global_average_of(const TensorShape& shape, const void* x, void* y, cudaStream_t stream) {
  constexpr std::int64_t kMaxGridY = 65535;
  const std::int64_t pixels = shape.h * shape.w;
  if (shape.n > kMaxGridY || !fits_index(pixels) || !fits_index(shape.c)) return cudaErrorInvalidValue;
  const auto width = static_cast<std::int64_t>(shape.channels_last ? kLanes : kRows);
  const dim3 grid(static_cast<unsigned>((shape.c + width - 1) / width), static_cast<unsigned>(shape.n));
  const auto kernel = shape.channels_last ? global_average_kernel<T, true> : global_average_kernel<T, false>;
  kernel<<<grid, dim3(kLanes, kRows), 0, stream>>>(static_cast<unsigned>(shape.c), static_cast<unsigned>(pixels),
                                                   static_cast<const T*>(x), static_cast<T*>(y));
  return cudaGetLastError();
}

}  // namespace

// ---- launchers -----------------------------------------------------------------------------------

cudaError_t affine(const Affine& op, const void* x, const void* scale, const void* bias, const void* residual, void* y,
                   cudaStream_t stream) {
  if (op.shape.elements() == 0) return cudaSuccess;
  switch (op.shape.element) {
    case Element::F32:
      return affine_of<float>(op, x, scale, bias, residual, y, stream);
    case Element::F16:
      return affine_of<__half>(op, x, scale, bias, residual, y, stream);
    case Element::F64:
      return affine_of<double>(op, x, scale, bias, residual, y, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t pad(const PadShape& shape, const void* x, void* y, cudaStream_t stream) {
  if (shape.y.elements() == 0) return cudaSuccess;
  switch (shape.x.element) {
    case Element::F32:
      return pad_of<float>(shape, x, y, stream);
    case Element::F16:
      return pad_of<__half>(shape, x, y, stream);
    case Element::F64:
      return pad_of<double>(shape, x, y, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t normalize(const PictureShape& shape, const std::uint8_t* x, float* y, cudaStream_t stream) {
  const std::int64_t pixels = shape.n * shape.pixels;
  if (pixels == 0) return cudaSuccess;
  if (!fits_index(pixels)) return cudaErrorInvalidValue;
  normalize_kernel<<<blocks_for(pixels), kThreads, 0, stream>>>(shape, static_cast<unsigned>(pixels), x, y);
  return cudaGetLastError();
}

cudaError_t interleave(std::int64_t x_channels, const TensorShape& y_shape, const float* x, void* y,
                       cudaStream_t stream) {
  const std::int64_t pixels = y_shape.n * y_shape.h * y_shape.w;
  if (!fits_index(pixels)) return cudaErrorInvalidValue;
  if (pixels == 0) return cudaSuccess;
  switch (y_shape.element) {
    case Element::F32:
      return interleave_of<float>(x_channels, y_shape, x, y, stream);
    case Element::F16:
      return interleave_of<__half>(x_channels, y_shape, x, y, stream);
    case Element::F64:
      return interleave_of<double>(x_channels, y_shape, x, y, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t strided_copy(const StridedShape& shape, Element x_element, Element y_element, const void* x, void* y,
                         cudaStream_t stream) {
  if (x_element == Element::F64 || y_element == Element::F64) {
    if (x_element == Element::F16 || y_element == Element::F16) return cudaErrorInvalidValue;
    if (x_element == Element::F32) return launch_strided_copy<float, double>(shape, x, y, stream);
    return y_element == Element::F32 ? launch_strided_copy<double, float>(shape, x, y, stream)
                                     : launch_strided_copy<double, double>(shape, x, y, stream);
  }
  if (x_element == Element::F16) {
    return y_element == Element::F16 ? launch_strided_copy<__half, __half>(shape, x, y, stream)
                                     : launch_strided_copy<__half, float>(shape, x, y, stream);
  }
  return y_element == Element::F16 ? launch_strided_copy<float, __half>(shape, x, y, stream)
                                   : launch_strided_copy<float, float>(shape, x, y, stream);
}

cudaError_t global_average(const TensorShape& x_shape, const void* x, void* y, cudaStream_t stream) {
  if (x_shape.n * x_shape.c == 0) return cudaSuccess;
  switch (x_shape.element) {
    case Element::F32:
      return global_average_of<float>(x_shape, x, y, stream);
    case Element::F16:
      return global_average_of<__half>(x_shape, x, y, stream);
    case Element::F64:
      return global_average_of<double>(x_shape, x, y, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::cudnn
