// How a warp of the stem block brings its window of the input into shared memory, two rows at a time: as half, the
// three channels of a pixel together, zeros outside the image. Lane p converts columns 2p and 2p + 1. Rows come by
// asynchronous copies, kAhead pairs of them under way at once.
#pragma once

#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/stem_block/values.cuh"

namespace mobicuda::kernels::stem_block_detail {

inline constexpr int kAhead = 4;
// 97 words: the ninths of a window's three rows, see the kernel, are in different banks.
inline constexpr int kInputRowBytes = 388;
inline constexpr int kPairBytes = 2 * kInputRowBytes;
inline constexpr int kRawRowBytes = 3 * 32 * 8;  // floats: (channel, lane, 2 columns); bytes as they come, 48 words
inline constexpr int kRawPairBytes = 2 * kRawRowBytes;

/// What alternates: in one half is what a step reads, in the other what it writes, then they change places.
struct InputHalf {
  alignas(16) unsigned char pairs[2][kPairBytes];
  alignas(16) unsigned char raw[2][kRawPairBytes];
};

template <InputForm kForm>
class InputWalk {
 public:
  /// The window's first row and column, which may lie outside; no row from `end_row` on is read. `base`: of halves.
  __device__ __forceinline__ InputWalk(const Arguments& a, const void* x, std::uint32_t n, int row, int column,
                                       int end_row, std::uint32_t base)
      : a_(a), end_row_(min(a.h, end_row)), row_(row), lane_to_(base + ptx::lane() * 12) {
    const int first = 2 * static_cast<int>(ptx::lane());
    const int begin = max(0, -column);
    const int end = min(kWindow, a.w - column);
#pragma unroll
    for (int i = 0; i < 2; ++i) present_[i] = first + i >= begin && first + i < end;
    const std::int64_t picture = std::int64_t{a.h} * a.w * 3;
    const std::int64_t pixel = std::int64_t{row} * a.w + column;
    if constexpr (kBytes) {
      from_ = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(n * picture + pixel * 3);
      // A word begins less than 4 bytes before the first byte present, or behind it, and before the last one.
      words_from_ = static_cast<unsigned>(begin * 3 - 3);
      words_ = static_cast<unsigned>(end * 3) - words_from_;
      raw_ = base + kRawOffset + ptx::lane() * 4;
    } else {
      from_ = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>((n * picture + pixel + first) * 4);
      raw_ = base + kRawOffset + ptx::lane() * 8;
    }
  }

  /// Begins to copy the next two rows to a place of raw[], `half` the offset of its half.
  template <int kSlot>
  __device__ __forceinline__ void load(std::uint32_t half) {
    if constexpr (kBytes) __syncwarp();  // a lane's bytes are not what it has copied
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool row_present = is_row(row_ + r);
      const std::uint32_t to = raw_ + half + kSlot * kRawPairBytes + r * kRawRowBytes;
      const std::uintptr_t row = from_ + static_cast<std::uintptr_t>(r * a_.row_bytes);
      if constexpr (kBytes) {
        const unsigned first_word = ptx::lane() * 4 - static_cast<unsigned>(row % 4) - words_from_;
        const unsigned words = row_present ? words_ : 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const bool present = first_word + i * 128U < words;
          if (i == 0 || ptx::lane() < 16)
            copy_or_zero<4>(to + i * 128, row / 4 * 4 + ptx::lane() * 4 + i * 128U, present);
        }
      } else {
#pragma unroll
        for (int c = 0; c < 3; ++c) {
          const std::uintptr_t from = row + static_cast<std::uintptr_t>(c * a_.plane_bytes);
          if constexpr (kForm == InputForm::FloatPairs) {
            copy_or_zero<8>(to + c * 256, from, row_present && present_[0]);
          } else {
            copy_or_zero<4>(to + c * 256, from, row_present && present_[0]);
            copy_or_zero<4>(to + c * 256 + 4, from + 4, row_present && present_[1]);
          }
        }
      }
    }
    ptx::copy_async_commit();
    from_ += static_cast<std::uintptr_t>(2 * a_.row_bytes);
    row_ += 2;
  }

  /// Converts the oldest pair of kAhead under way, whose copies all lanes have waited for.
  template <int kSlot>
  __device__ __forceinline__ void store(std::uint32_t half) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::uint32_t from = raw_ + half + kSlot * kRawPairBytes + r * kRawRowBytes;
      const std::uint32_t to = lane_to_ + half + kSlot * kPairBytes + r * kInputRowBytes;
      std::uint32_t words[3];
      if constexpr (kBytes) {
        const std::uintptr_t row = from_ + static_cast<std::uintptr_t>((r - 2 * kAhead) * a_.row_bytes);
        const auto at = static_cast<unsigned>(row % 4) + ptx::lane() * 6;
        const std::uint32_t first_word = from - ptx::lane() * 4 + at / 4 * 4;
        const std::uint32_t raw[3] = {ptx::load_shared<std::uint32_t>(first_word),
                                      ptx::load_shared<std::uint32_t>(first_word + 4),
                                      ptx::load_shared<std::uint32_t>(first_word + 8)};
        const unsigned shift = at % 4 * 8;
        const std::uint32_t bytes[2] = {__funnelshift_r(raw[0], raw[1], shift), __funnelshift_r(raw[1], raw[2], shift)};
        const auto value = [&](int c, int i) {
          const int k = i * 3 + c;
          return scaled(bytes[k / 4], k % 4, a_.scale[c], a_.shift[c]);
        };
        const bool row_present = is_row(row_ + r - 2 * kAhead);
        const std::uint32_t first = row_present && present_[0] ? ~0U : 0U;
        const std::uint32_t second = row_present && present_[1] ? ~0U : 0U;
        words[0] = ptx::to_half2(value(0, 0), value(1, 0)) & first;
        words[1] = ptx::to_half2(value(2, 0), value(0, 1)) & ((first & 0xFFFFU) | (second & 0xFFFF0000U));
        words[2] = ptx::to_half2(value(1, 1), value(2, 1)) & second;
      } else {
        float values[3][2];
#pragma unroll
        for (int c = 0; c < 3; ++c) {
          const auto pair = ptx::load_shared<float2>(from + c * 256);
          values[c][0] = pair.x;
          values[c][1] = pair.y;
        }
        words[0] = ptx::to_half2(values[0][0], values[1][0]);
        words[1] = ptx::to_half2(values[2][0], values[0][1]);
        words[2] = ptx::to_half2(values[1][1], values[2][1]);
      }
#pragma unroll
      for (int i = 0; i < 3; ++i) ptx::store_shared(to + i * 4, words[i]);
    }
  }

 private:
  __device__ __forceinline__ bool is_row(int row) const {
    return static_cast<unsigned>(row) < static_cast<unsigned>(end_row_);
  }

  static constexpr bool kBytes = kForm == InputForm::Bytes;
  static constexpr int kRawOffset = 2 * kPairBytes;

  const Arguments& a_;
  int end_row_;
  int row_;
  std::uint32_t lane_to_;
  std::uint32_t raw_;
  bool present_[2];
  unsigned words_from_, words_;
  std::uintptr_t from_;
};

}  // namespace mobicuda::kernels::stem_block_detail
