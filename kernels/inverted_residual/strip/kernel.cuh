// The strip inverted residual kernel: warps that share the weights in shared memory and nothing else.
#pragma once

#include "kernels/inverted_residual/strip/stages.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::inverted_strip {

/// Calls body(run, result, channel) for what a lane has of a pixel's output: `run` times two neighbouring channels from
/// `channel` on, of `run` results from `result` on.
template <class S, class Body>
__device__ __forceinline__ void for_each_run(const Body& body) {
  const int column = static_cast<int>(reread_lane() % 4) * 2;
  const auto at = [&](auto run, int result) { body(run, result, output_channel(S::kCOut, result, column)); };
#pragma unroll
  for (int result = 0; result + 4 <= S::kResults; result += 4) at(std::integral_constant<int, 4>{}, result);
  if constexpr (S::kResults % 4 >= 2) at(std::integral_constant<int, 2>{}, S::kResults / 4 * 4);
  if constexpr (S::kResults % 2 == 1) at(std::integral_constant<int, 1>{}, S::kResults - 1);
}

/// Starts the sums with the biases, and with x where it is added.
template <class S>
__device__ __forceinline__ void start(const Arguments& a, std::uint32_t head, std::uint32_t patch, Sums<S>& sums) {
  std::uint32_t biases[S::kHeadVectors * 4];
#pragma unroll
  for (int i = 0; i < S::kHeadVectors; ++i) ptx::load_shared_words<4>(head + i * kRowVector, biases + 4 * i);
#pragma unroll
  for (int row = 0; row < S::kRows; ++row) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < S::kResults * 4; ++i) {
        sums.sum[row][j][i / 4][i % 4] = __uint_as_float(biases[i / 4 * 2 + i % 2]);
      }
    }
  }
  if constexpr (S::kMayAdd) {
    if (!a.residual) return;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // Row 7 has no outputs, and perhaps no pixels.
      const int column = min(static_cast<int>(reread_lane() / 4), 6) * 2 + j + a.pad_left;
      const std::uint32_t pixel =
          patch + static_cast<std::uint32_t>(a.pad_top * S::kRowBytes + column % 2 * S::kClassBytes);
      for_each_run<S>([&](auto run, int result, int channel) {
        constexpr int kRun = decltype(run)::value;
        const std::uint32_t from =
            pixel + static_cast<std::uint32_t>(S::chunk_offset(column / 2, channel / 8) + channel % 8 * 2);
#pragma unroll
        for (int row = 0; row < S::kRows; ++row) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            std::uint32_t words[kRun];
            ptx::load_shared_words<kRun>(from + static_cast<std::uint32_t>(row * S::kRowBytes + half * S::kStripBytes),
                                         words);
#pragma unroll
            for (int i = 0; i < kRun; ++i) {
              const float2 added = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
              sums.sum[row][j][result + i][2 * half] += added.x;
              sums.sum[row][j][result + i][2 * half + 1] += added.y;
            }
          }
        }
      });
    }
  }
}

template <class S>
__device__ __forceinline__ void store(const Arguments& a, const Place& place, int half, const Sums<S>& sums,
                                      unsigned char* y) {
  const int column = static_cast<int>(reread_lane() / 4) * 2;
  const int columns = place.present ? min(kColumns - column, a.out_w - place.ox - column) : 0;
  const int rows = a.out_h - place.oy;
  y += static_cast<std::size_t>(place.n) * static_cast<std::size_t>(a.out_h * a.out_w) * (S::kCOut * 2) +
       static_cast<std::size_t>(place.oy * a.out_w + place.ox + column) * (S::kCOut * 2);
  for_each_run<S>([&](auto run, int result, int channel) {
    constexpr int kRun = decltype(run)::value;
    unsigned char* to = y + channel * 2;
#pragma unroll
    for (int row = 0; row < S::kRows; ++row, to += a.out_w * (S::kCOut * 2)) {
      ptx::pin(to);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        std::uint32_t words[kRun];
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
          const float* const sum = sums.sum[row][j][result + i] + 2 * half;
          words[i] = ptx::bits(__hmin2_nan(__hmax2_nan(__floats2half2_rn(sum[0], sum[1]), a.project_lo), a.project_hi));
        }
        ptx::store_global_if(row < rows && j < columns, to + j * (S::kCOut * 2), words);
      }
    }
  });
}

/// All units of a pair. `kAllRows`: the patches' rows are in the image, which is all but a few pairs.
template <bool kAllRows, class S>
__device__ __forceinline__ void add_units(const Arguments& a, const typename InputRow<S>::Addresses& input,
                                          Bounds<S>& bounds, std::uint32_t weights, Sums<S>& sums) {
  std::uint32_t unit = weights + S::kUnitsAt;
  ExpandWeights<S> first;
  first.load(unit);
  InputRow<S> pixels;
  pixels.load(input, 0);
#pragma unroll 1
  for (int left = S::kUnits; left > 0; --left) {
    const std::uint32_t next = left > 1 ? unit + S::kUnitBytes : weights + S::kUnitsAt;
    sums.template add_unit<kAllRows>(a, input, bounds, weights, unit, next, first, pixels);
    unit = next;
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    strip_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, shared);
  const auto weights = ptx::shared_address(shared);
  for (unsigned i = threadIdx.x; i < S::kPackedBytes / 16; i += S::kThreads) {
    ptx::copy_async_cg_or_zero(weights + i * 16, packed + i * 16, true);
  }
  ptx::copy_async_commit();
  const auto patches = [weights] { return weights + S::kPackedBytes + reread_warp() * (S::kBuffers * S::kPatchBytes); };
  // Neighbouring blocks first, so that few pairs spread over the multiprocessors.
  std::uint32_t pair = reread_warp() * gridDim.x + blockIdx.x;
  const std::uint32_t step = gridDim.x * S::kWarps;
  const auto copy = [&](std::uint32_t of, std::uint32_t patch) {
    if (of < a.pairs) copy_patches<S>(a, of, x, patch);
    ptx::copy_async_commit();
  };

  wait_for_predecessor();
  copy(pair, patches());
  ptx::copy_async_wait<1>();
  __syncthreads();

  std::uint32_t patch = patches();
#pragma unroll 1
  for (; pair < a.pairs; pair += step) {
    ptx::copy_async_wait<0>();
    __syncwarp();
    const auto other = [&] { return S::kBuffers == 2 ? 2 * patches() + S::kPatchBytes - patch : patch; };
    if constexpr (S::kBuffers == 2) copy(pair + step, other());

    Bounds<S> bounds;
#pragma unroll
    for (int half = 0; half < 2; ++half) bounds.set(a, locate<S>(a, 2 * pair + half), half);
    Sums<S> sums;
    start<S>(a, weights + reread_lane() % 4 * 16, patch, sums);
    const typename InputRow<S>::Addresses input = InputRow<S>::aim(patch);
    if (!S::kExpands || bounds.all_rows()) {  // x itself is zeros outside the image
      add_units<true>(a, input, bounds, weights, sums);
    } else {
      add_units<false>(a, input, bounds, weights, sums);
    }
    if constexpr (S::kBuffers == 1) {
      __syncwarp();
      copy(pair + step, other());
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) store<S>(a, locate<S>(a, 2 * pair + half), half, sums, y);
    patch = other();
  }
#endif
}

}  // namespace mobicuda::kernels::inverted_strip
