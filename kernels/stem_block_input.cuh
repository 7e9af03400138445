// How a warp of the stem block brings its window of the input into shared memory, two rows at a time: as half, the
// three channels of a pixel together, zeros outside the picture. Lane -> row lane / 16, columns 2p and 2p + 1 with
// p = lane % 16, all channels; and of the last column, which has no partner, channel p.
#pragma once

#include "stem_block_instructions.cuh"

namespace mobicuda::kernels::stem_block_detail {

// 80 words: the two rows that are stored at once are in different banks.
inline constexpr int kInputRowBytes = 320;
inline constexpr int kPairBytes = 2 * kInputRowBytes;

/// Two rows on their way: (channel, column) and the last column. Floats' bits or bytes.
struct RawPair {
  std::uint32_t value[3][2];
  std::uint32_t last;
};

template <StemInput kInput>
class InputWalk {
 public:
  /// The window's first row and column, which may lie outside; no row from `end_row` on is read.
  __device__ __forceinline__ InputWalk(const Arguments& a, const void* x, std::uint32_t n, int row, int column,
                                       int end_row)
      : h_(min(a.h, end_row)), row_(row + static_cast<int>(lane()) / 16), paired_(a.paired) {
    const int p = static_cast<int>(lane() % 16);
    const int first = column + 2 * p;
    present_[0] = first >= 0 && first < a.w;
    present_[1] = first + 1 >= 0 && first + 1 < a.w;
    const int last = column + kWindow - 1;
    last_present_ = p < 3 && last >= 0 && last < a.w;
    const std::int64_t picture = std::int64_t{a.h} * a.w * 3;
    const std::int64_t pixel = std::int64_t{row_} * a.w + first;
    if constexpr (kInput == StemInput::NchwFloat) {
      channel_bytes_ = a.h * a.w * 4;
      step_ = a.w * 8;
      from_ = static_cast<const char*>(x) + (n * picture + pixel) * 4;
      last_offset_ = p * channel_bytes_ + (last - first) * 4;
    } else {
      channel_bytes_ = 1;
      step_ = a.w * 6;
      from_ = static_cast<const char*>(x) + (n * picture + pixel * 3);
      last_offset_ = p + (last - first) * 3;
    }
  }

  /// Begins to load two rows and steps to the next.
  __device__ __forceinline__ void load(RawPair& raw) {
    const bool row_present = row_ >= 0 && row_ < h_;
    const bool present[2] = {row_present && present_[0], row_present && present_[1]};
    if constexpr (kInput == StemInput::NchwFloat) {
      if (paired_) {
#pragma unroll
        for (int c = 0; c < 3; ++c) load_two_or_zero(present[0], from_ + c * channel_bytes_, raw.value[c]);
      } else {
#pragma unroll
        for (int c = 0; c < 3; ++c) {
#pragma unroll
          for (int i = 0; i < 2; ++i) load_or_zero(present[i], from_ + c * channel_bytes_ + i * 4, raw.value[c][i]);
        }
      }
      load_or_zero(row_present && last_present_, from_ + last_offset_, raw.last);
    } else {
#pragma unroll
      for (int c = 0; c < 3; ++c) {
#pragma unroll
        for (int i = 0; i < 2; ++i) load_byte_or_zero(present[i], from_ + i * 3 + c, raw.value[c][i]);
      }
      load_byte_or_zero(row_present && last_present_, from_ + last_offset_, raw.last);
    }
    from_ += step_;
    row_ += 2;
  }

  /// `back`: how many calls of load() ago the two rows were loaded, the last call being 1.
  __device__ __forceinline__ void store(const Arguments& a, const RawPair& raw, int back, std::uint32_t pair) const {
    const std::uint32_t to = pair + lane() / 16 * kInputRowBytes;
    const unsigned p = lane() % 16;
    std::uint32_t words[3];
    float last;
    if constexpr (kInput == StemInput::NchwFloat) {
      const auto value = [&](int c, int i) { return __uint_as_float(raw.value[c][i]); };
      words[0] = round_two(value(0, 0), value(1, 0));
      words[1] = round_two(value(2, 0), value(0, 1));
      words[2] = round_two(value(1, 1), value(2, 1));
      last = __uint_as_float(raw.last);
    } else {
      const auto value = [&](int c, int i) { return scaled(raw.value[c][i], a.scale[c], a.shift[c]); };
      const int row = row_ - 2 * back;
      const bool row_present = row >= 0 && row < h_;
      const std::uint32_t first = row_present && present_[0] ? ~0U : 0U;
      const std::uint32_t second = row_present && present_[1] ? ~0U : 0U;
      words[0] = round_two(value(0, 0), value(1, 0)) & first;
      words[1] = round_two(value(2, 0), value(0, 1)) & ((first & 0xFFFFU) | (second & 0xFFFF0000U));
      words[2] = round_two(value(1, 1), value(2, 1)) & second;
      const float scale = p == 0 ? a.scale[0] : p == 1 ? a.scale[1] : a.scale[2];
      const float shift = p == 0 ? a.shift[0] : p == 1 ? a.shift[1] : a.shift[2];
      last = row_present && last_present_ ? scaled(raw.last, scale, shift) : 0.0F;
    }
#pragma unroll
    for (unsigned i = 0; i < 3; ++i) store_word(to + (3 * p + i) * 4, words[i]);
    if (p < 3) store_half(to + (kWindow - 1) * 6 + p * 2, round_two(last, 0.0F));
  }

 private:
  /// A byte as float, without the slow conversion: 2^23 + byte is exact.
  __device__ __forceinline__ static float scaled(std::uint32_t byte, float scale, float shift) {
    constexpr std::uint32_t kTwoTo23 = 0x4B000000;
    return fmaf(__uint_as_float(byte | kTwoTo23) - 8388608.0F, scale, shift);
  }

  int h_;
  int row_;
  bool paired_;
  bool present_[2];
  bool last_present_;
  int channel_bytes_;
  int step_;
  int last_offset_;
  const char* from_;
};

}  // namespace mobicuda::kernels::stem_block_detail
