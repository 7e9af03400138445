// Few rows of X: one warp computes one column of Y for up to kGemvRows rows; its lanes stream W's row by 16 bytes and
// add across the warp at the end. W's first elements are in registers before the predecessor ends. X comes by way of
// shared memory, so that it takes one round trip to L2.
#pragma once

#include "kernels/common/product_pipeline.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/lane.cuh"

namespace mobicuda::kernels::products {

inline constexpr int kGemvThreads = 128;
inline constexpr int kGemvRows = 4;

/// kRows: rows of X at once.
template <class T, int kRows>
__global__ void __launch_bounds__(kGemvThreads) gemv_kernel(const ProductArgs args) {
  // 1280 elements are held at once, 640 of double.
  constexpr int kChunks = std::is_same_v<T, double> ? 10 : 5 * static_cast<int>(sizeof(T)) / 2;
  constexpr int kWarps = kGemvThreads / 32;
  constexpr int kRowPackets = 32 * kChunks;
  __shared__ Packet<T, kWide<T>> x[kRows * kRowPackets];
  const int lane = ptx::as_int::lane();
  const int n = static_cast<int>(blockIdx.x) * kWarps + ptx::as_int::warp();
  const int m0 = static_cast<int>(blockIdx.y) * kRows;
  const bool inside = n < args.n;
  const T* w = static_cast<const T*>(args.w) +
               static_cast<std::size_t>(inside ? n : 0) * static_cast<std::size_t>(args.k_packed);
  const float bias = inside && args.bias != nullptr ? args.bias[n] : 0.0F;

  Real<T> sum[kRows] = {};
  for (int k0 = 0; k0 < args.k; k0 += kRowPackets * kWide<T>) {
    Packet<T, kWide<T>> held[kChunks];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int k = k0 + (i * 32 + lane) * kWide<T>;
      held[i] = k < args.k ? load<kWide<T>>(w + k) : Packet<T, kWide<T>>{};
    }
    if (k0 == 0) {
      wait_for_predecessor();
    } else {
      __syncthreads();
    }
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kRowPackets; i += kGemvThreads) {
      const int row = m0 + i / kRowPackets;
      const int k = k0 + i % kRowPackets * kWide<T>;
      const bool is_there = row < args.m && k < args.k;
      const std::size_t at = is_there ? static_cast<std::size_t>(row) * static_cast<std::size_t>(args.x_pitch) + k : 0;
      ptx::copy_async_cg_128_or_zero(reinterpret_cast<unsigned char*>(x + i), static_cast<const T*>(args.x) + at,
                                     is_there);
    }
    ptx::copy_async_commit();
    ptx::copy_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const Packet<T, kWide<T>> values = x[row * kRowPackets + i * 32 + lane];
#pragma unroll
        for (int e = 0; e < kWide<T>; ++e) {
          sum[row] = fused_multiply_add(to_real(values.item[e]), to_real(held[i].item[e]), sum[row]);
        }
      }
    }
  }

#pragma unroll
  for (Real<T>& total : sum) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) total += __shfl_xor_sync(0xFFFFFFFFU, total, distance);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (lane != row || m0 + row >= args.m || !inside) continue;
    const auto at = [&](int pitch) {
      return static_cast<std::size_t>(m0 + row) * static_cast<std::size_t>(pitch) + static_cast<std::size_t>(n);
    };
    Real<T> value = sum[row] + bias;
    if (args.residual != nullptr) value += to_real(static_cast<const T*>(args.residual)[at(args.n)]);
    value = apply(args.activation, value);
    if (std::is_same_v<T, float> || args.y_is_float) {
      static_cast<float*>(args.y)[at(args.y_pitch)] = from_real<float>(value);
    } else {
      static_cast<T*>(args.y)[at(args.y_pitch)] = from_real<T>(value);
    }
  }
}

}  // namespace mobicuda::kernels::products
