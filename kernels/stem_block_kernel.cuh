// The first convolution and the block after it. A warp computes two strips of 14 columns of the output, side by side,
// from top to bottom, on its own: nothing passes between warps. A step makes a row of 16 pixels of the stem for each
// strip and with it one row of output, all by mma.sync with a row's pixels as the instruction's rows:
//   stem: k is the window of 27 and, in what is left of 32, a one that meets the bias in two halves. A window is three
//     times 9 neighbouring halves in shared memory, so that operands are read from there as they lie.
//   depthwise: 8 channels at a time, kx 1 and 2 in the two halves of k, kx 0 by itself; weights are diagonal matrices.
//     The stem's results are operands as they are for kx 0, and go through shared memory for kx 1 and 2. A row is added
//     to the sums of the three rows of output that see it.
//   projection: the clipped sums of the depthwise are operands as they are.
// Weights are in registers. Shared memory: 28 KB.
#pragma once

#include <type_traits>

#include "stem_block_input.cuh"

namespace mobicuda::kernels::stem_block_detail {

inline constexpr int kMinBlocks = 4;
// 20 words: 8 neighbouring pixels, 4 words each, are in different banks.
inline constexpr int kPixelBytes = 80;
inline constexpr int kRowBytes = (kStemColumns + 2) * kPixelBytes;

struct WarpMemory {
  InputHalf input[2];
  alignas(16) unsigned char rows[2][kRowBytes];  // of the stem: (pixel, channel)
};

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// The operands of a lane.
struct Weights {
  std::uint32_t stem[kGroups][4];  // two steps of k
  std::uint32_t depthwise[3][kGroups][3];
  std::uint32_t project[kProjectSteps][kProjectFragments][2];

  __device__ __forceinline__ explicit Weights(const unsigned char* packed) {
    static_assert(sizeof(Weights) == kOperandVectors * 16);
    const unsigned char* const from = packed + kBiasBytes + lane() * 16;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) load_vector(from + i * kVectorBytes, stem[i]);
#pragma unroll
    for (int i = 0; i < kDepthwiseVectors; ++i) {
      std::uint32_t words[4];
      load_vector(from + (kGroups + i) * kVectorBytes, words);
#pragma unroll
      for (int j = 0; j < 4; ++j) depthwise[(4 * i + j) / 12][(4 * i + j) / 3 % 4][(4 * i + j) % 3] = words[j];
    }
#pragma unroll
    for (int i = 0; i < kProjectSteps; ++i) {
      std::uint32_t words[4];
      load_vector(from + (kGroups + kDepthwiseVectors + i) * kVectorBytes, words);
#pragma unroll
      for (int j = 0; j < 4; ++j) project[i][j / 2][j % 2] = words[j];
    }
  }
};

template <InputForm kForm, bool kRelu>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    stem_block_kernel(const Arguments a, const void* x, const unsigned char* packed, __half* y) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  __shared__ WarpMemory memory[kWarps];
  __shared__ alignas(16) unsigned char biases[kBiasBytes];
  release_successor();

  const Weights weights(packed);
  if (threadIdx.x < kBiasVectors) {
    std::uint32_t words[4];
    load_vector(packed + threadIdx.x * 16, words);
    store_vector(shared_address(biases + threadIdx.x * 16), words);
  }
  const std::uint32_t halves = shared_address(memory[warp()].input);
  const std::uint32_t rows = shared_address(memory[warp()].rows);
  // The two pixels behind a row belong to no output.
  for (std::uint32_t i = lane(); i < 2 * kPixelBytes / 4; i += 32) {
    store_word(rows + kStemColumns * kPixelBytes + i * 4, 0);
    store_word(rows + kRowBytes + kStemColumns * kPixelBytes + i * 4, 0);
  }

  const std::uint32_t unit = blockIdx.x * kWarps + warp();
  std::uint32_t column_block;
  std::uint32_t band;
  const std::uint32_t n = a.bands.divide(a.column_blocks.divide(unit, column_block), band);
  const int ox = static_cast<int>(column_block) * kColumns;
  const int oy = static_cast<int>(band) * a.rows;
  const int steps = min(a.rows, a.out_h - oy) + 2;
  const int g = static_cast<int>(lane() / 4);
  const int t = static_cast<int>(lane() % 4);

  const int stem_x = ox - a.stem_left;
  const bool edge = stem_x < 0 || stem_x + kStemColumns > a.stem_w;
  int stem_y = oy - a.stem_top;

  const std::int64_t first_pixel = (std::int64_t{n} * a.out_h + oy) * a.out_w + ox + g;
  __half* to = y + (first_pixel * a.c_out + 4 * t);
  const int columns = 4 * t < a.c_out ? a.out_w - ox - g : 0;  // from the lane's first on

  // Word t of a quarter of k, of pixel g: quarters 0 to 2 are 8 of the 9 halves of row ky; the last one has the ninth
  // of each row and the one.
  const std::uint32_t lane_window = halves + static_cast<std::uint32_t>(12 * g + 4 * t);
  const std::uint32_t lane_ninths = halves + static_cast<std::uint32_t>(12 * g + 16 + (t < 3 ? t * kInputRowBytes : 0));
  const std::uint32_t ninth_mask = t == 3 ? 0 : 0xFFFFU;
  const std::uint32_t ninth_ones = t == 3 ? 0x3C003C00U : 0;
  const std::uint32_t lane_store = rows + lane() % 16 * kPixelBytes + lane() / 16 * 16;
  const std::uint32_t lane_load = rows + (lane() % 16 + 1 + lane() / 16) * kPixelBytes;
  const std::uint32_t lane_bias = shared_address(biases) + static_cast<std::uint32_t>(t * 16);

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
  wait_groups<kAhead - 1>();
  __syncwarp();
  input.template store<0>(0);
  input.template load<0>(0);
  wait_groups<kAhead - 1>();
  __syncwarp();
  input.template store<1>(0);
  input.template load<1>(0);
  wait_groups<kAhead - 1>();
  __syncwarp();

  float sums[kStrips][2][kGroups][4] = {};  // of the outputs that have seen two rows, and one
  // `here` and `there` are the offsets of the input's halves. An even step's window is both pairs of `here`, an odd
  // one's the second of `here` and the first of `there`; it puts the next pair behind that.
  const auto step = [&](auto odd, int i, std::uint32_t here, std::uint32_t there) {
    constexpr int kOdd = decltype(odd)::value;
    const std::uint32_t pair = lane_window + here + kOdd * kPairBytes;
    const std::uint32_t next_pair = lane_window + (kOdd == 0 ? here + kPairBytes : there);
    const std::uint32_t ninth_row = lane_ninths + (kOdd == 0 ? here : t == 2 ? there - kPairBytes : here + kPairBytes);
    std::uint32_t stem[kStrips][kGroups][2];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      std::uint32_t window[2][4];
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const auto pixels = static_cast<std::uint32_t>((s * kStrip + lower * 8) * 12);
        window[0][lower] = load_word(pair + pixels);
        window[0][2 + lower] = load_word(pair + kInputRowBytes + pixels);
        window[1][lower] = load_word(next_pair + pixels);
        window[1][2 + lower] = (load_word(ninth_row + pixels) & ninth_mask) | ninth_ones;
      }
#pragma unroll
      for (int q = 0; q < kGroups; ++q) {
        constexpr float kZeros[4] = {};
        float values[4];
        multiply_add(values, window[0], weights.stem[q][0], weights.stem[q][1], kZeros);
        multiply_add(values, window[1], weights.stem[q][2], weights.stem[q][3], values);
        stem[s][q][0] = round_and_clip<kRelu>(a.stem_clip, values[0], values[1]);
        stem[s][q][1] = round_and_clip<kRelu>(a.stem_clip, values[2], values[3]);
      }
    }
    const bool row_present = stem_y >= 0 && stem_y < a.stem_h;
    if (edge || !row_present) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
          const int column = stem_x + s * kStrip + lower * 8 + g;
          const bool present = row_present && column >= 0 && column < a.stem_w;
#pragma unroll
          for (auto& group : stem[s]) group[lower] = present ? group[lower] : 0;
        }
      }
    }
    // The strips' common pixels are the same twice.
    constexpr std::uint32_t kRow = kOdd * kRowBytes;
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
#pragma unroll
      for (int q = 0; q < kGroups; q += 2) {
        store_matrices(lane_store + kRow + static_cast<std::uint32_t>(s * kStrip * kPixelBytes + q * 16), stem[s][q][0],
                       stem[s][q][1], stem[s][q + 1][0], stem[s][q + 1][1]);
      }
    }
    input.template store<kOdd>(there);
    input.template load<kOdd>(there);
    wait_groups<kAhead - 1>();
    __syncwarp();

    float result[kStrips][kProjectFragments][4];
#pragma unroll
    for (int f = 0; f < kProjectFragments; ++f) {
      load_four(lane_bias + static_cast<std::uint32_t>((kGroups + f) * 64), result[0][f]);
#pragma unroll
      for (int e = 0; e < 4; ++e) result[1][f][e] = result[0][f][e];
    }
#pragma unroll
    for (int k = 0; k < kProjectSteps; ++k) {
      std::uint32_t filtered[kStrips][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int q = 2 * k + half;
        float bias[4];
        load_four(lane_bias + static_cast<std::uint32_t>(q * 64), bias);
#pragma unroll
        for (int s = 0; s < kStrips; ++s) {
          std::uint32_t right[4];
          load_matrices(lane_load + kRow + static_cast<std::uint32_t>(s * kStrip * kPixelBytes + q * 16), right);
          const auto add_row = [&](float(&sum)[4], int ky, const float(&before)[4]) {
            const auto& taps = weights.depthwise[ky][q];
            float part[4];
            multiply_add(part, stem[s][q], taps[0], before);
            multiply_add(sum, right, taps[1], taps[2], part);
          };
          float done[4];
          add_row(done, 2, sums[s][0][q]);
          add_row(sums[s][0][q], 1, sums[s][1][q]);
          add_row(sums[s][1][q], 0, bias);
          filtered[s][2 * half] = round_and_clip<kRelu>(a.depthwise_clip, done[0], done[1]);
          filtered[s][2 * half + 1] = round_and_clip<kRelu>(a.depthwise_clip, done[2], done[3]);
        }
      }
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
#pragma unroll
        for (int f = 0; f < kProjectFragments; ++f) {
          multiply_add(result[s][f], filtered[s], weights.project[k][f][0], weights.project[k][f][1], result[s][f]);
        }
      }
    }
    if (i >= 2) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
          const auto& sum = result[s];
          std::uint32_t words[2] = {round_two(sum[0][2 * lower], sum[0][2 * lower + 1]),
                                    round_two(sum[1][2 * lower], sum[1][2 * lower + 1])};
          if (a.clips) {
            words[0] = clipped(a.project_clip, words[0]);
            words[1] = clipped(a.project_clip, words[1]);
          }
          const int column = s * kStrip + lower * 8;
          if (column < columns && (lower == 0 || g + 8 < kStrip)) store_two(to + column * a.c_out, words);
        }
      }
      to += a.out_w * a.c_out;
    }
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
