// add, clip:    y[i] = act(a[i] + b[i]), y[i] = clip(x[i])
// scale_shift:  y[r, c] = act(scale[c] * x[r, c] + shift[c])
//
// 16-byte accesses where pointers (scale_shift: and c) allow, else one element at a time.
// add, clip: a thread takes kPackets packets, a block apart, all loads before the first store, to keep more reads in
// flight. The last elements, which fill no packet, are done by the first block.
// scale_shift: a thread keeps the factors of its packet of channels, loaded before the wait for the predecessor, and
// goes down the rows, kRowsPerThread at a time. A block is as wide as the row, up to kThreads packets, and as high as
// kThreads threads allow: they are consecutive in memory whatever c is.
#include "kernels/streaming/elementwise.h"

#include <algorithm>

#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kPackets = 2;        // of a thread in add and clip
constexpr int kRowsPerThread = 4;  // in scale_shift

struct AddOp {
  template <class R>
  __device__ R operator()(R a, R b) const {
    return a + b;
  }
  static constexpr bool kBinary = true;
};

struct IdentityOp {
  template <class R>
  __device__ R operator()(R a, R) const {
    return a;
  }
  static constexpr bool kBinary = false;
};

template <class T, int N, class Op>
__global__ void __launch_bounds__(kThreads)
    map_kernel(std::int64_t elements, Activation activation, const T* a, const T* b, T* y) {
  wait_for_predecessor();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kPackets + threadIdx.x;
  const std::int64_t packets = elements / N;
  Packet<T, N> left[kPackets];
  Packet<T, N> right[kPackets];
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    const std::int64_t at = first + i * kThreads;
    if (at >= packets) break;
    left[i] = load<N>(a + at * N);
    if constexpr (Op::kBinary) right[i] = load<N>(b + at * N);
  }
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    const std::int64_t at = first + i * kThreads;
    if (at >= packets) break;
    Packet<T, N> result;
    Real<T> values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const Real<T> second = Op::kBinary ? to_real(right[i].item[j]) : 0;
      values[j] = Op{}(to_real(left[i].item[j]), second);
    }
    apply(activation, values);
#pragma unroll
    for (int j = 0; j < N; ++j) result.item[j] = from_real<T>(values[j]);
    store<N>(y + at * N, result);
  }
  const std::int64_t tail = packets * N + threadIdx.x;  // fewer than N elements after the last packet
  if (blockIdx.x == 0 && tail < elements) {
    const Real<T> second = Op::kBinary ? to_real(b[tail]) : 0;
    y[tail] = from_real<T>(apply(activation, Op{}(to_real(a[tail]), second)));
  }
}

// block (packets of channels, rows); grid (packets of channels, rows)
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    scale_shift_kernel(std::int64_t rows, int c, std::int64_t x_pitch, Activation activation, const T* x,
                       const float* scale, const float* shift, T* y) {
  const std::int64_t channel = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  Real<T> factor[N];
  Real<T> offset[N];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    factor[j] = channel < c ? scale[channel + j] : 0.0F;
    offset[j] = channel < c ? shift[channel + j] : 0.0F;
  }
  wait_for_predecessor();
  if (channel >= c) return;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; row < rows; row += stride * kRowsPerThread) {
    Packet<T, N> values[kRowsPerThread];
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      if (row + i * stride < rows) values[i] = load<N>(x + (row + i * stride) * x_pitch + channel);
    }
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      if (row + i * stride >= rows) break;
      Real<T> results[N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        results[j] = fused_multiply_add(factor[j], to_real(values[i].item[j]), offset[j]);
      }
      apply(activation, results);
#pragma unroll
      for (int j = 0; j < N; ++j) values[i].item[j] = from_real<T>(results[j]);
      store<N>(y + (row + i * stride) * c + channel, values[i]);
    }
  }
}

template <class T, int N, class Op>
cudaError_t launch_map(std::int64_t elements, Activation activation, const void* a, const void* b, void* y,
                       const Launch& where) {
  const std::int64_t blocks = ceil_div(ceil_div(elements, std::int64_t{N}), std::int64_t{kThreads * kPackets});
  if (blocks > kMaxGridX) return cudaErrorInvalidValue;
  return launch(map_kernel<T, N, Op>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, where, elements,
                activation, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y));
}

template <class T, class Op>
cudaError_t map(std::int64_t elements, Activation activation, const void* a, const void* b, void* y,
                const Launch& where) {
  const bool wide = aligned_16(a, b, y);  // null counts as aligned
  return wide ? launch_map<T, kWide<T>, Op>(elements, activation, a, b, y, where)
              : launch_map<T, 1, Op>(elements, activation, a, b, y, where);
}

template <class Op>
cudaError_t map(Elem elem, std::int64_t elements, Activation activation, const void* a, const void* b, void* y,
                const Launch& where) {
  if (elements < 0) return cudaErrorInvalidValue;
  if (elements == 0) return cudaSuccess;
  switch (elem) {
    case Elem::F32:
      return map<float, Op>(elements, activation, a, b, y, where);
    case Elem::F16:
      return map<__half, Op>(elements, activation, a, b, y, where);
    case Elem::F64:
      return map<double, Op>(elements, activation, a, b, y, where);
  }
  return cudaErrorInvalidValue;
}

template <class T, int N>
cudaError_t launch_scale_shift(std::int64_t rows, int c, std::int64_t x_pitch, Activation activation, const void* x,
                               const float* scale, const float* shift, void* y, const Launch& where) {
  const int packets = c / N;
  const int width = std::min(packets, kThreads);
  const int height = kThreads / width;
  const std::int64_t row_blocks = ceil_div(rows, std::int64_t{height} * kRowsPerThread);
  const dim3 grid(static_cast<unsigned>(ceil_div(packets, width)),
                  static_cast<unsigned>(std::min<std::int64_t>(row_blocks, kMaxGridYz)));
  return launch(scale_shift_kernel<T, N>, grid, dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)), 0,
                where, rows, c, x_pitch, activation, static_cast<const T*>(x), scale, shift, static_cast<T*>(y));
}

template <class T>
cudaError_t scale_shift_of(std::int64_t rows, int c, std::int64_t x_pitch, Activation activation, const void* x,
                           const float* scale, const float* shift, void* y, const Launch& where) {
  const bool wide = c % kWide<T> == 0 && x_pitch % kWide<T> == 0 && aligned_16(x, y);
  return wide ? launch_scale_shift<T, kWide<T>>(rows, c, x_pitch, activation, x, scale, shift, y, where)
              : launch_scale_shift<T, 1>(rows, c, x_pitch, activation, x, scale, shift, y, where);
}

}  // namespace

cudaError_t add(Elem elem, std::int64_t elements, Activation activation, const void* a, const void* b, void* y,
                const Launch& where) {
  return map<AddOp>(elem, elements, activation, a, b, y, where);
}

cudaError_t clip(Elem elem, std::int64_t elements, Clip bounds, const void* x, void* y, const Launch& where) {
  return map<IdentityOp>(elem, elements, bounds, x, static_cast<const void*>(nullptr), y, where);
}

cudaError_t scale_shift(Elem elem, std::int64_t rows, int c, Activation activation, const void* x, const float* scale,
                        const float* shift, void* y, const Launch& where, std::int64_t x_pitch) {
  if (rows < 0 || c < 0 || (x_pitch != 0 && x_pitch < c)) return cudaErrorInvalidValue;
  if (rows == 0 || c == 0) return cudaSuccess;
  if (x_pitch == 0) x_pitch = c;
  switch (elem) {
    case Elem::F32:
      return scale_shift_of<float>(rows, c, x_pitch, activation, x, scale, shift, y, where);
    case Elem::F16:
      return scale_shift_of<__half>(rows, c, x_pitch, activation, x, scale, shift, y, where);
    case Elem::F64:
      return scale_shift_of<double>(rows, c, x_pitch, activation, x, scale, shift, y, where);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mobicuda::kernels
