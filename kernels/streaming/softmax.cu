// y[r, c] = exp(x[r, c] - max) / sum exp(x[r, c] - max), or x[r, c] - max - log sum exp(x[r, c] - max); one block for
// each row, or one warp, or one thread.
//
// Rows of up to kNarrow columns take a warp: each lane holds kItems elements, the reductions are shuffles. Rows whose
// columns lie apart take a thread each, that reads them three times. Rows of up to kHeld columns: a thread holds kItems
// elements in registers and the row is read once. Longer rows are read three times (from the caches, after the first).
// Two block reductions by shuffles, one word of shared memory for each warp, one barrier, and shuffles again in every
// warp, so that no broadcast is needed.
#include "kernels/streaming/softmax.h"

#include <algorithm>

#include "kernels/common/real.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kItems = 4;
constexpr int kHeld = kThreads * kItems;
constexpr int kLongThreads = 1024;
constexpr int kNarrow = kWarp * kItems;

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

struct Plus {
  template <class R>
  __device__ R operator()(R a, R b) const {
    return a + b;
  }
};

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }

/// A softmax: what is held of an element until its row's sum is known, what is held of the sum, and what the two make.
/// An element has a distance from the row's largest, and a weight, which is the exponential of that.
struct Shares {
  template <class R>
  __device__ static R held(R /*distance*/, R weight) {
    return weight;
  }
  template <class R>
  __device__ static R of_sum(R sum) {
    return sum;
  }
  template <class R>
  __device__ static R result(R weight, R sum) {
    return weight / sum;
  }
};

/// The logarithm of it, in the same parts.
struct Logarithms {
  template <class R>
  __device__ static R held(R distance, R /*weight*/) {
    return distance;
  }
  template <class R>
  __device__ static R of_sum(R sum) {
    return logarithm(sum);
  }
  template <class R>
  __device__ static R result(R distance, R log_sum) {
    return distance - log_sum;
  }
};

/// Of an element that is read again.
template <class Form, class R>
__device__ R result_of(R distance, R sum) {
  return Form::result(Form::held(distance, exponential(distance)), sum);
}

template <class R, class Op>
__device__ R warp_reduce(R value, Op op) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

/// The same result in every thread. `scratch` holds one number for each warp; a reduction before this one with
/// the same scratch must be followed by a barrier.
template <int Threads, class R, class Op>
__device__ R block_reduce(R value, R neutral, Op op, R* scratch) {
  constexpr int kWarps = Threads / kWarp;
  value = warp_reduce(value, op);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = lane < kWarps ? scratch[lane] : neutral;
  return warp_reduce(value, op);
}

// block (lanes, rows); grid (rows)
template <class Form, class In, class Out>
__global__ void __launch_bounds__(kThreads) softmax_narrow_kernel(int rows, int columns, const In* x, Out* y) {
  wait_for_predecessor();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // a whole warp
  Real<In> values[kItems];
  Real<In> largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int column = static_cast<int>(threadIdx.x) + i * kWarp;
    values[i] = column < columns ? to_real(x[row * columns + column]) : -INFINITY;
    largest = Larger{}(largest, values[i]);
  }
  largest = warp_reduce(largest, Larger{});
  Real<In> sum = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const Real<In> distance = values[i] - largest;
    const Real<In> weight = exponential(distance);  // 0 beyond the row
    sum += weight;
    values[i] = Form::held(distance, weight);
  }
  sum = Form::of_sum(warp_reduce(sum, Plus{}));
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int column = static_cast<int>(threadIdx.x) + i * kWarp;
    if (column < columns) y[row * columns + column] = from_real<Out>(Form::result(values[i], sum));
  }
}

// grid (rows)
template <class Form, class In, class Out>
__global__ void __launch_bounds__(kThreads)
    softmax_apart_kernel(int rows, int columns, int inner, const In* x, Out* y) {
  wait_for_predecessor();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= rows) return;
  const std::int64_t first = row / inner * inner * columns + row % inner;
  const std::int64_t end = first + static_cast<std::int64_t>(columns) * inner;
  Real<In> largest = -INFINITY;
  for (std::int64_t at = first; at < end; at += inner) largest = Larger{}(largest, to_real(x[at]));
  Real<In> sum = 0;
  for (std::int64_t at = first; at < end; at += inner) sum += exponential(to_real(x[at]) - largest);
  sum = Form::of_sum(sum);
  for (std::int64_t at = first; at < end; at += inner)
    y[at] = from_real<Out>(result_of<Form>(to_real(x[at]) - largest, sum));
}

template <class Form, class In, class Out>
__global__ void __launch_bounds__(kThreads) softmax_held_kernel(int columns, const In* x, Out* y) {
  using R = Real<In>;
  __shared__ R maxima[kThreads / kWarp];
  __shared__ R sums[kThreads / kWarp];
  wait_for_predecessor();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * columns;
  Real<In> values[kItems];
  Real<In> largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int column = static_cast<int>(threadIdx.x) + i * kThreads;
    values[i] = column < columns ? to_real(x[row + column]) : -INFINITY;
    largest = Larger{}(largest, values[i]);
  }
  largest = block_reduce<kThreads, R>(largest, -INFINITY, Larger{}, maxima);
  Real<In> sum = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const Real<In> distance = values[i] - largest;
    const Real<In> weight = exponential(distance);  // 0 beyond the row
    sum += weight;
    values[i] = Form::held(distance, weight);
  }
  sum = Form::of_sum(block_reduce<kThreads, R>(sum, 0, Plus{}, sums));
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int column = static_cast<int>(threadIdx.x) + i * kThreads;
    if (column < columns) y[row + column] = from_real<Out>(Form::result(values[i], sum));
  }
}

template <class Form, class In, class Out>
__global__ void __launch_bounds__(kLongThreads) softmax_long_kernel(int columns, const In* x, Out* y) {
  using R = Real<In>;
  __shared__ R maxima[kLongThreads / kWarp];
  __shared__ R sums[kLongThreads / kWarp];
  wait_for_predecessor();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * columns;
  Real<In> largest = -INFINITY;
  for (std::int64_t column = threadIdx.x; column < columns; column += kLongThreads) {
    largest = Larger{}(largest, to_real(x[row + column]));
  }
  largest = block_reduce<kLongThreads, R>(largest, -INFINITY, Larger{}, maxima);
  Real<In> sum = 0;
  for (std::int64_t column = threadIdx.x; column < columns; column += kLongThreads) {
    sum += exponential(to_real(x[row + column]) - largest);
  }
  sum = Form::of_sum(block_reduce<kLongThreads, R>(sum, 0, Plus{}, sums));
  for (std::int64_t column = threadIdx.x; column < columns; column += kLongThreads) {
    y[row + column] = from_real<Out>(result_of<Form>(to_real(x[row + column]) - largest, sum));
  }
}

template <class Form, class In, class Out>
cudaError_t launch_softmax(const SoftmaxParams& p, const void* x, void* y, const Launch& where) {
  if (p.inner > 1) {
    return launch(softmax_apart_kernel<Form, In, Out>, dim3(static_cast<unsigned>(ceil_div(p.rows, kThreads))),
                  dim3(kThreads), 0, where, p.rows, p.columns, p.inner, static_cast<const In*>(x),
                  static_cast<Out*>(y));
  }
  if (p.columns <= kNarrow) {
    const int height = std::min(p.rows, kThreads / kWarp);
    return launch(softmax_narrow_kernel<Form, In, Out>, dim3(static_cast<unsigned>(ceil_div(p.rows, height))),
                  dim3(kWarp, static_cast<unsigned>(height)), 0, where, p.rows, p.columns, static_cast<const In*>(x),
                  static_cast<Out*>(y));
  }
  const dim3 grid(static_cast<unsigned>(p.rows));
  const bool held = p.columns <= kHeld;
  return launch(held ? softmax_held_kernel<Form, In, Out> : softmax_long_kernel<Form, In, Out>, grid,
                dim3(held ? kThreads : kLongThreads), 0, where, p.columns, static_cast<const In*>(x),
                static_cast<Out*>(y));
}

template <class Form>
cudaError_t launch_of_types(const SoftmaxParams& p, const void* x, void* y, const Launch& where) {
  const bool floats = p.output == Elem::F32;
  if (p.elem == Elem::F32) return launch_softmax<Form, float, float>(p, x, y, where);
  if (p.elem == Elem::F64) {
    return floats ? launch_softmax<Form, double, float>(p, x, y, where)
                  : launch_softmax<Form, double, double>(p, x, y, where);
  }
  return floats ? launch_softmax<Form, __half, float>(p, x, y, where)
                : launch_softmax<Form, __half, __half>(p, x, y, where);
}

}  // namespace

cudaError_t softmax(const SoftmaxParams& p, const void* x, void* y, const Launch& where) {
  if (p.rows < 0 || p.columns < 0 || p.inner <= 0 || p.rows % p.inner != 0) return cudaErrorInvalidValue;
  if (p.output != Elem::F32 && p.output != p.elem) return cudaErrorInvalidValue;
  if (p.rows == 0 || p.columns == 0) return cudaSuccess;
  return p.logarithm ? launch_of_types<Logarithms>(p, x, y, where) : launch_of_types<Shares>(p, x, y, where);
}

}  // namespace mobicuda::kernels
