// How a warp of the stem block brings its window of the input into shared memory, two rows at a time: as half, the
// three channels of a pixel together, zeros outside the picture. Lane -> row lane / 16, columns 2p and 2p + 1 with
// p = lane % 16, all channels; and of the last column, which has no partner, channel p. Rows come by asynchronous
// copies, kAhead pairs of them under way at once; what a lane has copied nobody but itself reads.
#pragma once

#include "stem_block_instructions.cuh"

namespace mobicuda::kernels::stem_block_detail {

// 80 words: the two rows that are stored at once are in different banks.
inline constexpr int kInputRowBytes = 320;
inline constexpr int kPairBytes = 2 * kInputRowBytes;

inline constexpr int kAhead = 4;
inline constexpr int kRawWords = 7;  // of a lane: 2 columns x 3 channels, and the last column
inline constexpr int kRawBytes = kRawWords * 32 * 4;
inline constexpr int kRawLast = 6 * 32 * 4;

template <InputForm kForm>
class InputWalk {
 public:
  /// The window's first row and column, which may lie outside; no row from `end_row` on is read. `raw`: the lane's
  /// kAhead times kRawBytes.
  __device__ __forceinline__ InputWalk(const Arguments& a, const void* x, std::uint32_t n, int row, int column,
                                       int end_row, std::uint32_t raw)
      : a_(a),
        end_row_(min(a.h, end_row)),
        row_(row + static_cast<int>(lane()) / 16),
        raw_(raw + lane() * kLaneBytes),
        raw_last_(raw + kRawLast + lane() * 4),
        slot_(0) {
    const int p = static_cast<int>(lane() % 16);
    const int first = column + 2 * p;
    const int last = column + kWindow - 1;
    present_[0] = first >= 0 && first < a.w;
    present_[1] = first + 1 >= 0 && first + 1 < a.w;
    last_present_ = p < 3 && last >= 0 && last < a.w;
    const std::int64_t picture = std::int64_t{a.h} * a.w * 3;
    const std::int64_t pixel = std::int64_t{row_} * a.w + first;
    if constexpr (kBytes) {
      from_ = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(n * picture + pixel * 3);
      last_offset_ = p + (last - first) * 3;
    } else {
      from_ = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>((n * picture + pixel) * 4);
      last_offset_ = p * a.plane_bytes + (last - first) * 4;
    }
  }

  /// Begins with the first kAhead pairs of rows.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      load();
      next_slot();
    }
  }

  /// Converts the oldest two rows under way and begins to copy the next two.
  __device__ __forceinline__ void advance(std::uint32_t pair) {
    wait_groups<kAhead - 1>();
    store(pair);
    load();
    next_slot();
  }

 private:
  static constexpr bool kBytes = kForm == InputForm::Bytes;
  static constexpr unsigned kLaneBytes = kBytes ? 4 : 8;

  __device__ __forceinline__ void next_slot() { slot_ = slot_ == (kAhead - 1) * kRawBytes ? 0 : slot_ + kRawBytes; }

  __device__ __forceinline__ void load() {
    const bool row_present = row_ >= 0 && row_ < end_row_;
    const std::uint32_t to = raw_ + slot_;
    if constexpr (kBytes) {
      // The words that hold a byte of the two pixels.
      const std::uint32_t pixels = (present_[0] ? 0x7U : 0U) | (present_[1] ? 0x38U : 0U);
      const std::uint32_t bytes = (row_present ? pixels : 0U) << (from_ % 4);
#pragma unroll
      for (unsigned i = 0; i < 3; ++i) {
        copy_or_zero<4>(to + i * 128, from_ / 4 * 4 + i * 4, (bytes >> (4 * i) & 0xFU) != 0);
      }
      copy_or_zero<4>(raw_last_ + slot_, last_from() / 4 * 4, row_present && last_present_);
    } else {
#pragma unroll
      for (unsigned c = 0; c < 3; ++c) {
        const std::uintptr_t from = from_ + c * static_cast<std::uintptr_t>(a_.plane_bytes);
        if constexpr (kForm == InputForm::FloatPairs) {
          copy_or_zero<8>(to + c * 256, from, row_present && present_[0]);
        } else {
#pragma unroll
          for (unsigned i = 0; i < 2; ++i) {
            copy_or_zero<4>(to + c * 256 + i * 4, from + i * 4, row_present && present_[i]);
          }
        }
      }
      copy_or_zero<4>(raw_last_ + slot_, last_from(), row_present && last_present_);
    }
    close_group();
    from_ += static_cast<std::uintptr_t>(a_.input_step);
    row_ += 2;
  }

  __device__ __forceinline__ void store(std::uint32_t pair) const {
    const std::uint32_t from = raw_ + slot_;
    const std::uint32_t last_word = load_word(raw_last_ + slot_);
    const unsigned p = lane() % 16;
    std::uint32_t words[3];
    float last;
    if constexpr (kBytes) {
      const std::uint32_t raw[3] = {load_word(from), load_word(from + 128), load_word(from + 256)};
      // load() has stepped on kAhead times since.
      const std::uintptr_t at = from_ - static_cast<std::uintptr_t>(a_.input_step) * kAhead;
      const auto shift = static_cast<unsigned>(at % 4) * 8;
      const std::uint32_t bytes[2] = {__funnelshift_r(raw[0], raw[1], shift), __funnelshift_r(raw[1], raw[2], shift)};
      const auto value = [&](int c, int i) {
        const int k = i * 3 + c;
        return scaled(bytes[k / 4], k % 4, a_.scale[c], a_.shift[c]);
      };
      const int row = row_ - 2 * kAhead;
      const bool row_present = row >= 0 && row < end_row_;
      const std::uint32_t first = row_present && present_[0] ? ~0U : 0U;
      const std::uint32_t second = row_present && present_[1] ? ~0U : 0U;
      words[0] = round_two(value(0, 0), value(1, 0)) & first;
      words[1] = round_two(value(2, 0), value(0, 1)) & ((first & 0xFFFFU) | (second & 0xFFFF0000U));
      words[2] = round_two(value(1, 1), value(2, 1)) & second;
      const float last_scale = p == 0 ? a_.scale[0] : p == 1 ? a_.scale[1] : a_.scale[2];
      const float last_shift = p == 0 ? a_.shift[0] : p == 1 ? a_.shift[1] : a_.shift[2];
      const auto last_at = static_cast<unsigned>((at + static_cast<std::uintptr_t>(last_offset_)) % 4) * 8;
      last = row_present && last_present_ ? scaled(last_word >> last_at, 0, last_scale, last_shift) : 0.0F;
    } else {
      float values[3][2];
#pragma unroll
      for (unsigned c = 0; c < 3; ++c) load_two(from + c * 256, values[c]);
      words[0] = round_two(values[0][0], values[1][0]);
      words[1] = round_two(values[2][0], values[0][1]);
      words[2] = round_two(values[1][1], values[2][1]);
      last = __uint_as_float(last_word);
    }
    const std::uint32_t to = pair + lane() / 16 * kInputRowBytes;
#pragma unroll
    for (unsigned i = 0; i < 3; ++i) store_word(to + (3 * p + i) * 4, words[i]);
    if (p < 3) store_half(to + (kWindow - 1) * 6 + p * 2, round_two(last, 0.0F));
  }

  __device__ __forceinline__ std::uintptr_t last_from() const {
    return from_ + static_cast<std::uintptr_t>(last_offset_);
  }

  /// Byte k of a word as float, without the slow conversion: 2^23 + byte is exact.
  __device__ __forceinline__ static float scaled(std::uint32_t bytes, int k, float scale, float shift) {
    constexpr std::uint32_t kTwoTo23 = 0x4B000000;
    const std::uint32_t value = __byte_perm(bytes, kTwoTo23, 0x7440U | static_cast<unsigned>(k));
    return fmaf(__uint_as_float(value) - 8388608.0F, scale, shift);
  }

  const Arguments& a_;
  int end_row_;
  int row_;
  bool present_[2];
  bool last_present_;
  int last_offset_;
  std::uintptr_t from_;
  std::uint32_t raw_, raw_last_;
  std::uint32_t slot_;  // offset of the oldest pair under way
};

}  // namespace mobicuda::kernels::stem_block_detail
