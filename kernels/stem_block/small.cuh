// The stem block for few images: a warp computes kRows rows of a strip on its own, and all it does at once, in the
// order of the stages, as latency is what counts. Sums are in the same order as in the kernel for many images.
// Weights are in registers. Shared memory: 32 KB (two rows).
#pragma once

#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/stem_block/stages.cuh"

namespace mobicuda::kernels::stem_block_detail {

inline constexpr int kSmallWarps = 4;
inline constexpr int kSmallThreads = 32 * kSmallWarps;
inline constexpr int kSmallMinBlocks = 2;
inline constexpr int kSmallInputPairs = kStrip + 3;  // of neighbouring columns
// 65 words: the ninths of a window's three rows are in different banks.
inline constexpr int kSmallInputRowBytes = 260;

template <class S, int kRows>
struct SmallMemory {
  static constexpr int kRowBytes = (kStrip + 4) * S::kPixelBytes;
  // Of the stem: (pixel, channel), the last two pixels for outputs that are not stored; before that, copies of the
  // input.
  alignas(16) unsigned char rows[kRows + 2][kRowBytes];
  alignas(16) unsigned char input[2 * kRows + 5][kSmallInputRowBytes];
};

/// The lane's part of the input: every 32nd pair of columns of all rows. Addresses are computed, and pinned, before the
/// wait for the predecessor; all loads are under way before the first one is used. Single floats come by asynchronous
/// copies, as these go through L1, where neighbours of a pair meet.
template <class S, InputForm kForm, int kRows>
class SmallInput {
 public:
  /// The window's first row and column, which may lie outside; `to` is its place in shared memory, `raw` that of its
  /// copies.
  __device__ __forceinline__ SmallInput(const Arguments& a, const void* x, std::uint32_t n, int row, int column,
                                        std::uint32_t to, std::uint32_t raw)
      : raw_copies_(raw + ptx::lane() * 4) {
    const std::int64_t picture = n * (std::int64_t{a.h} * a.w * 3);
    const std::uint32_t scratch = to + ptx::lane() * 8;  // nobody uses it yet
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int item = static_cast<int>(ptx::lane()) + 32 * i;
      const int r = item / kSmallInputPairs;
      const int pair = item % kSmallInputPairs;
      const int first = column + pair * 2;
      const bool is_item = r < kInputRows;
      const bool row_present = is_item && row + r >= 0 && row + r < a.h;
      const unsigned left = row_present && first >= 0 && first < a.w ? kLeft : 0;
      const unsigned right = row_present && first + 1 >= 0 && first + 1 < a.w ? kRight : 0;
      const std::int64_t pixel = std::int64_t{row + r} * a.w + first;
      const std::int64_t at = kBytes ? picture + pixel * 3 : (picture + pixel) * 4;
      from_[i] = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(at);
      flags_[i] = left | right;
      if constexpr (kBytes) {
        const auto ahead = static_cast<unsigned>(from_[i] % 4);
        const unsigned bytes = ((left != 0 ? 0x7U : 0U) | (right != 0 ? 0x38U : 0U)) << ahead;
#pragma unroll
        for (unsigned word = 0; word < 3; ++word) {
          if ((bytes >> (4 * word) & 0xFU) != 0) flags_[i] |= kWord << word;
        }
        flags_[i] |= ahead * 8 * kShift;
        from_[i] -= ahead;
      }
      to_[i] = is_item ? to + static_cast<std::uint32_t>(r * kSmallInputRowBytes + pair * 12) : 0;
      ptx::pin_by_memory(scratch, from_[i]);
      ptx::pin_by_memory(scratch, flags_[i]);
      ptx::pin_by_memory(scratch, to_[i]);
    }
  }

  __device__ __forceinline__ void load(const Arguments& a) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        if constexpr (kBytes) {
          ptx::load_global_volatile_if(has(i, kWord << j), from_[i] + static_cast<unsigned>(j) * 4, raw_[i][j][0]);
          continue;
        }
        const std::uintptr_t from = from_[i] + static_cast<std::uintptr_t>(j * a.plane_bytes);
        if constexpr (kForm == InputForm::FloatPairs) {
          ptx::load_global_volatile_if(has(i, kLeft), from, raw_[i][j]);
        } else {
          copy_or_zero<4>(copy(i, j, 0), from, has(i, kLeft));
          copy_or_zero<4>(copy(i, j, 1), from + 4, has(i, kRight));
        }
      }
    }
  }

  __device__ __forceinline__ void store(const Arguments& a) const {
    if constexpr (kForm == InputForm::Floats) {
      ptx::copy_async_commit();
      ptx::copy_async_wait<0>();
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (to_[i] == 0) continue;
      float values[2][3];
      if constexpr (kBytes) {
        const unsigned shift = flags_[i] / kShift;
        const std::uint32_t bytes[2] = {__funnelshift_r(raw_[i][0][0], raw_[i][1][0], shift),
                                        __funnelshift_r(raw_[i][1][0], raw_[i][2][0], shift)};
#pragma unroll
        for (int k = 0; k < 6; ++k) {
          const float value = scaled(bytes[k / 4], k % 4, a.scale[k % 3], a.shift[k % 3]);
          values[k / 3][k % 3] = has(i, k < 3 ? kLeft : kRight) ? value : 0.0F;
        }
      } else {
#pragma unroll
        for (int k = 0; k < 6; ++k) {
          const bool copied = kForm == InputForm::Floats;
          const std::uint32_t bits =
              copied ? ptx::load_shared<std::uint32_t>(copy(i, k % 3, k / 3)) : raw_[i][k % 3][k / 3];
          values[k / 3][k % 3] = __uint_as_float(bits);
        }
      }
      ptx::store_shared_volatile(to_[i], ptx::to_half2(values[0][0], values[0][1]));
      ptx::store_shared_volatile(to_[i] + 4, ptx::to_half2(values[0][2], values[1][0]));
      ptx::store_shared_volatile(to_[i] + 8, ptx::to_half2(values[1][1], values[1][2]));
    }
  }

 private:
  static constexpr bool kBytes = kForm == InputForm::Bytes;
  static constexpr int kInputRows = 2 * kRows + 5;
  static constexpr int kItems = ceil_div(kInputRows * kSmallInputPairs, 32);
  static_assert(kItems * 6 * 128 <= sizeof(SmallMemory<S, kRows>::rows));
  // Flags of an item: its two pixels; of bytes, three words and by how much they are to be shifted.
  static constexpr unsigned kLeft = 1;
  static constexpr unsigned kRight = 2;
  static constexpr unsigned kWord = 4;
  static constexpr unsigned kShift = 32;

  __device__ __forceinline__ bool has(int item, unsigned flag) const { return (flags_[item] & flag) != 0; }

  __device__ __forceinline__ std::uint32_t copy(int item, int c, int column) const {
    return raw_copies_ + static_cast<std::uint32_t>(((item * 3 + c) * 2 + column) * 128);
  }

  std::uint32_t raw_copies_;
  std::uintptr_t from_[kItems];
  std::uint32_t to_[kItems];
  std::uint32_t flags_[kItems];
  std::uint32_t raw_[kItems][3][2];  // floats' bits, or words of bytes
};

/// S: Shape<...>.
template <class S, InputForm kForm, bool kPlain, int kRows>
__global__ void __launch_bounds__(kSmallThreads, kSmallMinBlocks)
    stem_block_small_kernel(const Arguments a, const void* x, const unsigned char* packed, __half* y) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr int kGroups = S::kGroups;
  constexpr int kFragments = S::kFragments;
  constexpr int kPixelBytes = S::kPixelBytes;
  constexpr int kRowBytes = SmallMemory<S, kRows>::kRowBytes;
  __shared__ SmallMemory<S, kRows> memory[kSmallWarps];
  __shared__ __align__(16) unsigned char biases[S::kBiasBytes];

  const Weights<S, false> weights(packed, nullptr);
  const std::uint32_t lane_bias = load_biases<S>(packed, biases);
  const std::uint32_t rows = ptx::shared_address(memory[ptx::warp()].rows);
  const std::uint32_t input_rows = ptx::shared_address(memory[ptx::warp()].input);
  const std::uint32_t unit = blockIdx.x * kSmallWarps + ptx::warp();
  std::uint32_t strip;
  std::uint32_t band;
  const std::uint32_t n = a.bands.divide(a.column_blocks.divide(unit, strip), band);
  const int ox = static_cast<int>(strip) * kStrip;
  const int oy = static_cast<int>(band) * kRows;
  const int g = static_cast<int>(ptx::lane() / 4);
  const int t = static_cast<int>(ptx::lane() % 4);
  const std::int64_t pixel = (std::int64_t{n} * a.out_h + oy) * a.out_w + ox + g;
  const auto to = reinterpret_cast<std::uintptr_t>(y) + static_cast<std::uintptr_t>((pixel * a.c_out + 4 * t) * 2);
  const int columns = 4 * t < a.c_out ? a.out_w - ox - g : 0;
  const std::uint32_t lane_window = input_rows + static_cast<std::uint32_t>(12 * g + 4 * t);
  const std::uint32_t lane_ninths =
      input_rows + static_cast<std::uint32_t>(12 * g + 16 + (t < 3 ? t * kSmallInputRowBytes : 0));
  const std::uint32_t lane_store = rows + ptx::lane() % 16 * kPixelBytes + ptx::lane() / 16 * 16;
  const std::uint32_t lane_load = rows + (ptx::lane() % 16 + 1 + ptx::lane() / 16) * kPixelBytes;

  SmallInput<S, kForm, kRows> input(a, x, n, 2 * oy - a.input_top, 2 * ox - a.input_left, input_rows, rows);
  __syncthreads();
  wait_for_predecessor();
  if (unit >= a.units) return;
  input.load(a);
  input.store(a);
  __syncwarp();  // also: copies have been where the stem's rows come

  std::uint32_t stem[kRows + 2][kGroups][2];
#pragma unroll
  for (int row = 0; row < kRows + 2; ++row) {
    const std::uint32_t first = lane_window + static_cast<std::uint32_t>(2 * row * kSmallInputRowBytes);
    const LaneWindow window{{first, first + kSmallInputRowBytes, first + 2 * kSmallInputRowBytes},
                            lane_ninths + static_cast<std::uint32_t>(2 * row * kSmallInputRowBytes)};
    compute_stem<kPlain>(a, weights, window, 0, stem[row]);
  }
#pragma unroll
  for (int row = 0; row < kRows + 2; ++row) {
    const int stem_y = oy - a.stem_top + row;
    mask_stem(a, stem_y >= 0 && stem_y < a.stem_h, ox - a.stem_left, stem[row]);
    store_stem(stem[row], lane_store + static_cast<std::uint32_t>(row * kRowBytes));
  }
  __syncwarp();

  float sums[kRows][kGroups][4];
#pragma unroll
  for (int q = 0; q < kGroups; ++q) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) load_bias(lane_bias, q, sums[row][q]);
    std::uint32_t taps[3][3];
    weights.depthwise(q, taps);
#pragma unroll
    for (int from = 0; from < kRows + 2; ++from) {
      std::uint32_t right[4];
      ptx::ldmatrix_x4(right, lane_load + static_cast<std::uint32_t>(from * kRowBytes + q * 16));
#pragma unroll
      for (int ky = 0; ky < 3; ++ky) {
        const int row = from - ky;
        if (row < 0 || row >= kRows) continue;
        add_row(taps[ky], stem[from][q], right, sums[row][q], sums[row][q]);
      }
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    float result[kFragments][4];
#pragma unroll
    for (int f = 0; f < kFragments; ++f) load_bias(lane_bias, kGroups + f, result[f]);
    std::uint32_t filtered[4];
#pragma unroll
    for (int q = 0; q < kGroups; ++q) {
      filter<kPlain>(a, q, sums[row][q], filtered);
      project(weights, q, filtered, result);
    }
    store_result<kPlain>(a, result, oy + row < a.out_h ? columns : 0,
                         to + static_cast<std::uintptr_t>(row) * static_cast<unsigned>(a.out_row_bytes));
  }
#endif
}

}  // namespace mobicuda::kernels::stem_block_detail
