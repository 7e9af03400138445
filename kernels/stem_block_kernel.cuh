// The first convolution and the block after it. A warp computes a strip of 14 columns of the output, from top to
// bottom, on its own: nothing passes between warps. A step makes one row of 16 pixels of the stem and with it one row
// of output, all by mma.sync with a row's pixels as the instruction's rows:
//   stem: k is the window of 27 and, in what is left of 32, a one that meets the bias in two halves. A window is three
//     times 9 neighbouring halves in shared memory, so that operands are read from there as they lie.
//   depthwise: 8 channels at a time, kx 1 and 2 in the two halves of k, kx 0 by itself; weights are diagonal matrices.
//     The stem's results are operands as they are for kx 0, and go through shared memory for kx 1 and 2. A row is added
//     to the sums of the three rows of output that see it.
//   projection: the clipped sums of the depthwise are operands as they are.
// Weights are in registers. Shared memory: 20 KB.
#pragma once

#include "stem_block_input.cuh"

namespace mobicuda::kernels::stem_block_detail {

inline constexpr int kMinBlocks = 3;
inline constexpr int kInputPairs = 3;
// 20 words: 8 neighbouring pixels, 4 words each, are in different banks.
inline constexpr int kRowPixelBytes = 80;
inline constexpr int kRowBytes = (kStemPixels + 2) * kRowPixelBytes;

struct WarpMemory {
  alignas(16) unsigned char input[kInputPairs][kPairBytes];
  alignas(16) unsigned char rows[2][kRowBytes];  // of the stem: (pixel, channel)
  alignas(16) unsigned char raw[kAhead][kRawBytes];
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
  WarpMemory& own = memory[warp()];
  const std::uint32_t row_base = shared_address(own.rows);
  // The two pixels behind a row belong to no output.
  for (std::uint32_t i = lane(); i < 2 * kRowPixelBytes / 4; i += 32) {
    store_word(row_base + kStemPixels * kRowPixelBytes + i * 4, 0);
    store_word(row_base + kRowBytes + kStemPixels * kRowPixelBytes + i * 4, 0);
  }

  const std::uint32_t unit = blockIdx.x * kWarps + warp();
  std::uint32_t strip;
  std::uint32_t band;
  const std::uint32_t n = a.bands.divide(a.strips.divide(unit, strip), band);
  const int ox = static_cast<int>(strip) * kStrip;
  const int oy = static_cast<int>(band) * a.rows;
  const int steps = min(a.rows, a.out_h - oy) + 2;
  const int g = static_cast<int>(lane() / 4);
  const int t = static_cast<int>(lane() % 4);

  // Of the stem's row, pixels g and g + 8.
  const int stem_x = ox - a.stem_left + g;
  const std::uint32_t masks[2] = {stem_x >= 0 && stem_x < a.stem_w ? ~0U : 0U,
                                  stem_x + 8 >= 0 && stem_x + 8 < a.stem_w ? ~0U : 0U};
  const bool edge = ox < a.stem_left || ox - a.stem_left + kStemPixels > a.stem_w;
  int stem_y = oy - a.stem_top;

  const bool stored[2] = {ox + g < a.out_w && 4 * t < a.c_out,
                          g + 8 < kStrip && ox + g + 8 < a.out_w && 4 * t < a.c_out};
  const std::int64_t first_pixel = (std::int64_t{n} * a.out_h + oy) * a.out_w + ox + g;
  __half* to = y + (first_pixel * a.c_out + 4 * t);

  // Word t of a quarter of k, of pixel g: quarters 0 to 2 are 8 of the 9 halves of row ky; the last one has the ninth
  // of each row and the one.
  const std::uint32_t lane_input = static_cast<std::uint32_t>(12 * g + 4 * t);
  const std::uint32_t lane_ninths = static_cast<std::uint32_t>(12 * g + 16 + (t == 1 ? kInputRowBytes : 0));
  const std::uint32_t ninth_mask = t == 3 ? 0 : 0xFFFFU;
  const std::uint32_t ninth_ones = t == 3 ? 0x3C003C00U : 0;
  const std::uint32_t lane_store = lane() % 16 * kRowPixelBytes + lane() / 16 * 16;
  const std::uint32_t lane_load = (lane() % 16 + 1 + lane() / 16) * kRowPixelBytes;
  const std::uint32_t bias_base = shared_address(biases) + static_cast<std::uint32_t>(t * 16);

  InputWalk<kForm> input(a, x, n, 2 * oy - a.input_top, 2 * ox - a.input_left, 2 * (oy + steps) + 1 - a.input_top,
                         shared_address(own.raw));
  std::uint32_t pair = shared_address(own.input);  // that the step begins in
  std::uint32_t next_pair = pair + kPairBytes;
  std::uint32_t free_pair = pair + 2 * kPairBytes;
  __syncthreads();
  wait_for_predecessor();
  if (unit >= a.units) return;

  input.begin();
  input.advance(pair);
  input.advance(next_pair);
  __syncwarp();

  float sums[2][kGroups][4] = {};  // of the outputs that have seen two rows, and one
  const auto step = [&](int i, std::uint32_t row) {
    std::uint32_t window[2][4];
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const std::uint32_t pixels = static_cast<std::uint32_t>(lower * 96);
      window[0][lower] = load_word(pair + lane_input + pixels);
      window[0][2 + lower] = load_word(pair + lane_input + kInputRowBytes + pixels);
      window[1][lower] = load_word(next_pair + lane_input + pixels);
      const std::uint32_t ninths = load_word((t == 2 ? next_pair : pair) + lane_ninths + pixels);
      window[1][2 + lower] = (ninths & ninth_mask) | ninth_ones;
    }
    std::uint32_t stem[kGroups][2];
#pragma unroll
    for (int q = 0; q < kGroups; ++q) {
      constexpr float kZeros[4] = {};
      float values[4];
      multiply_add(values, window[0], weights.stem[q][0], weights.stem[q][1], kZeros);
      multiply_add(values, window[1], weights.stem[q][2], weights.stem[q][3], values);
      stem[q][0] = round_and_clip<kRelu>(a.stem_clip, values[0], values[1]);
      stem[q][1] = round_and_clip<kRelu>(a.stem_clip, values[2], values[3]);
    }
    const bool row_present = stem_y >= 0 && stem_y < a.stem_h;
    if (edge || !row_present) {
#pragma unroll
      for (auto& group : stem) {
        group[0] &= row_present ? masks[0] : 0;
        group[1] &= row_present ? masks[1] : 0;
      }
    }
#pragma unroll
    for (int q = 0; q < kGroups; q += 2) {
      store_matrices(row + lane_store + static_cast<std::uint32_t>(q * 16), stem[q][0], stem[q][1], stem[q + 1][0],
                     stem[q + 1][1]);
    }
    input.advance(free_pair);
    __syncwarp();

    float result[kProjectFragments][4];
#pragma unroll
    for (int f = 0; f < kProjectFragments; ++f) {
      load_four(bias_base + static_cast<std::uint32_t>((kGroups + f) * 64), result[f]);
    }
#pragma unroll
    for (int k = 0; k < kProjectSteps; ++k) {
      std::uint32_t filtered[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int q = 2 * k + half;
        std::uint32_t right[4];
        load_matrices(row + lane_load + static_cast<std::uint32_t>(q * 16), right);
        const auto add_row = [&](float(&sum)[4], int ky, const float(&before)[4]) {
          const auto& taps = weights.depthwise[ky][q];
          float part[4];
          multiply_add(part, stem[q], taps[0], before);
          multiply_add(sum, right, taps[1], taps[2], part);
        };
        float done[4];
        add_row(done, 2, sums[0][q]);
        add_row(sums[0][q], 1, sums[1][q]);
        float bias[4];
        load_four(bias_base + static_cast<std::uint32_t>(q * 64), bias);
        add_row(sums[1][q], 0, bias);
        filtered[2 * half] = round_and_clip<kRelu>(a.depthwise_clip, done[0], done[1]);
        filtered[2 * half + 1] = round_and_clip<kRelu>(a.depthwise_clip, done[2], done[3]);
      }
#pragma unroll
      for (int f = 0; f < kProjectFragments; ++f) {
        multiply_add(result[f], filtered, weights.project[k][f][0], weights.project[k][f][1], result[f]);
      }
    }
    if (i >= 2) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        std::uint32_t words[2] = {round_two(result[0][2 * lower], result[0][2 * lower + 1]),
                                  round_two(result[1][2 * lower], result[1][2 * lower + 1])};
        if (a.clips) {
          words[0] = clipped(a.project_clip, words[0]);
          words[1] = clipped(a.project_clip, words[1]);
        }
        if (stored[lower]) store_two(to + lower * 8 * a.c_out, words);
      }
      to += a.out_w * a.c_out;
    }
    ++stem_y;
    const std::uint32_t done_pair = pair;
    pair = next_pair;
    next_pair = free_pair;
    free_pair = done_pair;
  };
#pragma unroll 1
  for (int i = 0; i < steps; i += 2) {
    step(i, row_base);
    if (i + 1 < steps) step(i + 1, row_base + kRowBytes);
  }
#endif
}

}  // namespace mobicuda::kernels::stem_block_detail
