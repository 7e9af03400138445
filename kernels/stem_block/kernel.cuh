// The stem block for many images. A warp computes two strips of the output, side by side, from top to bottom, on its
// own: nothing passes between warps. A step makes a row of the stem, adds it to the sums of the three rows of the
// depthwise that see it, and finishes one. Weights are in registers, or in shared memory where those have no room.
// Shared memory: 28 KB, with weights 47.
#pragma once

#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/stem_block/input.cuh"
#include "kernels/stem_block/stages.cuh"

namespace mobicuda::kernels::stem_block_detail {

inline constexpr int kWarps = 2;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kMinBlocks = 4;

template <class S>
struct WarpMemory {
  static constexpr int kRowBytes = (kStemColumns + 2) * S::kPixelBytes;
  InputHalf input[2];
  alignas(16) unsigned char rows[2][kRowBytes];  // of the stem: (pixel, channel), two that no output needs
};

/// S: Shape<...>.
template <class S, InputForm kForm, bool kPlain>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    stem_block_kernel(const Arguments a, const void* x, const unsigned char* packed, __half* y) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr int kGroups = S::kGroups;
  constexpr int kFragments = S::kFragments;
  constexpr int kPixelBytes = S::kPixelBytes;
  constexpr int kRowBytes = WarpMemory<S>::kRowBytes;
  __shared__ WarpMemory<S> memory[kWarps];
  __shared__ __align__(16) unsigned char biases[S::kBiasBytes];

  // Beside the sums of so many channels registers have no room for the weights.
  using Operands = Weights<S, (S::kGroups > 5)>;
  __shared__ __align__(16) unsigned char shared_weights[Operands::kSharedBytes + 16];  // not of no size
  const Operands weights(packed, shared_weights);
  const std::uint32_t lane_bias = load_biases<S>(packed, biases);
  const std::uint32_t halves = ptx::shared_address(memory[ptx::warp()].input);
  const std::uint32_t rows = ptx::shared_address(memory[ptx::warp()].rows);
  const std::uint32_t unit = blockIdx.x * kWarps + ptx::warp();
  std::uint32_t column_block;
  std::uint32_t band;
  const std::uint32_t n = a.bands.divide(a.column_blocks.divide(unit, column_block), band);
  const int ox = static_cast<int>(column_block) * kColumns;
  const int oy = static_cast<int>(band) * a.rows;
  const int steps = min(a.rows, a.out_h - oy) + 2;
  const int g = static_cast<int>(ptx::lane() / 4);
  const int t = static_cast<int>(ptx::lane() % 4);

  const int stem_x = ox - a.stem_left;
  const bool edge = stem_x < 0 || stem_x + kStemColumns > a.stem_w;
  int stem_y = oy - a.stem_top;

  // Two rows before the first, which step 2 finishes.
  const std::int64_t pixel = (std::int64_t{n} * a.out_h + oy - 2) * a.out_w + ox + g;
  auto to = reinterpret_cast<std::uintptr_t>(y) + static_cast<std::uintptr_t>((pixel * a.c_out + 4 * t) * 2);
  const int columns = 4 * t < a.c_out ? a.out_w - ox - g : 0;  // from the lane's first on

  const std::uint32_t lane_window = halves + static_cast<std::uint32_t>(12 * g + 4 * t);
  const std::uint32_t lane_ninths = halves + static_cast<std::uint32_t>(12 * g + 16 + (t < 3 ? t * kInputRowBytes : 0));
  const std::uint32_t lane_store = rows + ptx::lane() % 16 * kPixelBytes + ptx::lane() / 16 * 16;
  const std::uint32_t lane_load = rows + (ptx::lane() % 16 + 1 + ptx::lane() / 16) * kPixelBytes;

  InputWalk<kForm> input(a, x, n, 2 * oy - a.input_top, 2 * ox - a.input_left, 2 * (oy + steps) + 1 - a.input_top,
                         halves);
  __syncthreads();
  wait_for_predecessor();
  if (unit >= a.units) return;

  constexpr std::uint32_t kHalfBytes = sizeof(InputHalf);
  static_assert(kAhead == 4);
  input.template load<0>(0);
  input.template load<1>(0);
  input.template load<0>(kHalfBytes);
  input.template load<1>(kHalfBytes);
  ptx::copy_async_wait<kAhead - 1>();
  __syncwarp();
  input.template store<0>(0);
  input.template load<0>(0);
  ptx::copy_async_wait<kAhead - 1>();
  __syncwarp();
  input.template store<1>(0);
  input.template load<1>(0);
  ptx::copy_async_wait<kAhead - 1>();
  __syncwarp();

  float sums[kStrips][2][kGroups][4] = {};  // of the outputs that have seen two rows, and one
  // `here` and `there` are the offsets of the input's halves. An even step's window is both pairs of `here`, an odd
  // one's the second of `here` and the first of `there`; it puts the next pair behind that.
  const auto step = [&](auto odd, int i, std::uint32_t here, std::uint32_t there) {
    constexpr int kOdd = decltype(odd)::value;
    constexpr std::uint32_t kRow = kOdd * kRowBytes;
    const std::uint32_t pair = lane_window + here + kOdd * kPairBytes;
    const LaneWindow window{{pair, pair + kInputRowBytes, lane_window + (kOdd == 0 ? here + kPairBytes : there)},
                            lane_ninths + (kOdd == 0 ? here
                                           : t == 2  ? there - kPairBytes
                                                     : here + kPairBytes)};
    std::uint32_t stem[kStrips][kGroups][2];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) compute_stem<kPlain>(a, weights, window, s * kStrip, stem[s]);
    const bool row_present = static_cast<unsigned>(stem_y) < static_cast<unsigned>(a.stem_h);
    if (edge || !row_present) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) mask_stem(a, row_present, stem_x + s * kStrip, stem[s]);
    }
    // The strips' common pixels are the same twice.
#pragma unroll
    for (int s = 0; s < kStrips; ++s) store_stem(stem[s], lane_store + kRow + s * kStrip * kPixelBytes);
    input.template store<kOdd>(there);
    input.template load<kOdd>(there);
    ptx::copy_async_wait<kAhead - 1>();
    __syncwarp();

    float result[kStrips][kFragments][4];
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      load_bias(lane_bias, kGroups + f, result[0][f]);
#pragma unroll
      for (int e = 0; e < 4; ++e) result[1][f][e] = result[0][f][e];
    }
    std::uint32_t filtered[kStrips][4];
#pragma unroll
    for (int q = 0; q < kGroups; ++q) {
      float bias[4];
      load_bias(lane_bias, q, bias);
      std::uint32_t taps[3][3];
      weights.depthwise(q, taps);
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        std::uint32_t right[4];
        ptx::ldmatrix_x4(right, lane_load + kRow + static_cast<std::uint32_t>(s * kStrip * kPixelBytes + q * 16));
        float done[4];
        add_row(taps[2], stem[s][q], right, sums[s][0][q], done);
        add_row(taps[1], stem[s][q], right, sums[s][1][q], sums[s][0][q]);
        add_row(taps[0], stem[s][q], right, bias, sums[s][1][q]);
        filter<kPlain>(a, q, done, filtered[s]);
        project(weights, q, filtered[s], result[s]);
      }
    }
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      const int there_are = i >= 2 ? columns - s * kStrip : 0;
      store_result<kPlain>(a, result[s], there_are, to + static_cast<std::uintptr_t>(s * a.strip_pixels));
    }
    to += static_cast<std::uintptr_t>(a.out_row_bytes);
    ++stem_y;
  };
  std::uint32_t here = 0;
#pragma unroll 1
  for (int i = 0; i < steps; i += 2) {
    step(std::integral_constant<int, 0>{}, i, here, kHalfBytes - here);
    if (i + 1 < steps) step(std::integral_constant<int, 1>{}, i + 1, here, kHalfBytes - here);
    here = kHalfBytes - here;
  }
#endif
}

}  // namespace mobicuda::kernels::stem_block_detail
