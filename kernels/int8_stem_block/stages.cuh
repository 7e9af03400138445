// The stages of the int8 stem block. kernel.cuh has their order.
#pragma once

#include "kernels/int8_stem_block/shape.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/int8.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/rounded.cuh"

namespace mobicuda::kernels::int8_stem {

using namespace ptx::as_int;

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int row_of_lane() { return lane() / 4; }
__device__ __forceinline__ int quarter() { return lane() % 4; }

/// A tile of the output, and where its patches of s and of the image begin, which may be outside.
struct Place {
  int n, oy, ox;
  int sy, sx;
  int iy, ix;
};

template <class S>
__device__ __forceinline__ Place locate(const Arguments& a, std::uint32_t tile) {
  std::uint32_t row;
  std::uint32_t column;
  Place place{};
  place.n = static_cast<int>(a.tiles_y.divide(a.tiles_x.divide(tile, column), row));
  place.oy = static_cast<int>(row) * S::kTileH;
  place.ox = static_cast<int>(column) * S::kTileW;
  place.sy = place.oy - a.stem_top;
  place.sx = place.ox - a.stem_left;
  place.iy = 2 * place.oy - a.input_top;
  place.ix = 2 * place.ox - a.input_left;
  return place;
}

/// Begins to copy all weights.
template <class S>
__device__ __forceinline__ void copy_weights(const unsigned char* packed, unsigned char* shared) {
  const std::uint32_t to = ptx::shared_address(shared);
#pragma unroll 1
  for (int i = thread() * 16; i < S::kLayout.bytes; i += S::kThreads * 16) {
    ptx::copy_async_cg(to + static_cast<std::uint32_t>(i), packed + i);
  }
}

/// Where the patch of s leaves it, pixels are the padding. The stem writes those inside.
template <class S>
__device__ __forceinline__ void fill_hidden(const Arguments& a, const Place& place, unsigned char* shared) {
  const bool inside = place.sy >= 0 && place.sx >= 0 && place.sy + S::kSizes.hidden_h <= a.stem_h &&
                      place.sx + S::kSizes.hidden_w <= a.stem_w;
  if (inside) return;
  const uint4 words{a.padding, a.padding, a.padding, a.padding};
#pragma unroll 1
  for (int i = thread() * 16; i < S::kSizes.hidden_bytes; i += S::kThreads * 16) {
    *reinterpret_cast<uint4*>(shared + S::kSizes.hidden_at + i) = words;
  }
}

template <class T>
__device__ __forceinline__ T at(const unsigned char* from) {
  return *reinterpret_cast<const T*>(from);
}

/// Rounded values of a pixel's channels, less q's zero point, in the lower bits.
template <bool kDivides>
__device__ __forceinline__ std::uint32_t rounded_input(const Arguments& a, const Quantizer& q, std::uint32_t bits) {
  const float x = __uint_as_float(bits);
  float value;
  if constexpr (!kDivides) {  // NaN becomes the least
    const float clipped = fminf(fmaxf(x, q.least), q.most);
    value = ptx::fused_rounded(clipped, q.factor, ptx::multiply_rounded(clipped, q.rest));
  } else {
    value = fminf(fmaxf(ptx::divide_rounded(x, q.scale), a.input_low), a.input_high);
  }
  return __float_as_uint(ptx::add_rounded(value, kRoundToWhole));
}

/// The bytes of three channels; the fourth is any, and meets zeros.
template <bool kDivides>
__device__ __forceinline__ std::uint32_t pixel_of(const Arguments& a, const Quantizer& q, std::uint32_t first,
                                                  std::uint32_t second, std::uint32_t third) {
  return rounded_input<kDivides>(a, q, first) + (rounded_input<kDivides>(a, q, second) << 8U) +
         (rounded_input<kDivides>(a, q, third) << 16U) + a.input_offset;
}

/// Two neighbouring pixels of the image as they come. FloatPairs: both at once.
template <InputForm kForm>
struct InputPair {
  static constexpr int kChannels = 3;
  uint2 channels[kForm == InputForm::Words ? 1 : kChannels];

  /// `image`: its first byte. `row`, `first`, `second`: offsets of a row and of two columns in it, in bytes.
  __device__ __forceinline__ void load(const Arguments& a, const unsigned char* image, std::uint32_t row,
                                       std::uint32_t first, std::uint32_t second) {
    if constexpr (kForm == InputForm::Words) {
      channels[0] = {ptx::load_global<std::uint32_t>(image + (row + first)),
                     ptx::load_global<std::uint32_t>(image + (row + second))};
    } else {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        const unsigned char* const plane = image + std::size_t{a.plane_bytes} * static_cast<unsigned>(c);
        if constexpr (kForm == InputForm::FloatPairs) {
          channels[c] = ptx::load_global<uint2>(plane + (row + first));
        } else {
          channels[c] = {ptx::load_global<std::uint32_t>(plane + (row + first)),
                         ptx::load_global<std::uint32_t>(plane + (row + second))};
        }
      }
    }
  }

  template <bool kDivides>
  __device__ __forceinline__ uint2 bytes(const Arguments& a, const Quantizer& q) const {
    if constexpr (kForm == InputForm::Words) {
      return {channels[0].x ^ kSignsOfBytes, channels[0].y ^ kSignsOfBytes};
    } else {
      return {pixel_of<kDivides>(a, q, channels[0].x, channels[1].x, channels[2].x),
              pixel_of<kDivides>(a, q, channels[0].y, channels[1].y, channels[2].y)};
    }
  }
};

/// The patch of the image as bytes, twice, pixels outside as the zero point: what is read instead of them is the
/// nearest inside. A lane has a pair of columns, a warp every kWarps-th row.
template <class S, InputForm kForm, bool kDivides>
__device__ __forceinline__ void read_patch(const Arguments& a, const Place& place, const Quantizer& q,
                                           const unsigned char* x, unsigned char* shared) {
  constexpr int kPairs = S::kSizes.patch_pairs;
  constexpr int kTogether = S::kSizes.rows_together;
  const std::size_t image_bytes = std::size_t{a.plane_bytes} * (kForm == InputForm::Words ? 1 : 3);
  const unsigned char* const image = x + static_cast<std::size_t>(place.n) * image_bytes;
  const int column = place.ix + 2 * lane();
  // Of FloatPairs, columns and a.w are even.
  const int last = kForm == InputForm::FloatPairs ? a.w - 2 : a.w - 1;
  const auto first = static_cast<std::uint32_t>(min(max(column, 0), last)) * 4U;
  const auto second = static_cast<std::uint32_t>(min(max(column + 1, 0), last)) * 4U;
  const bool first_inside = static_cast<unsigned>(column) < static_cast<unsigned>(a.w);
  const bool second_inside = static_cast<unsigned>(column + 1) < static_cast<unsigned>(a.w);
  unsigned char* const to = shared + S::kSizes.patch_at + lane() * 2 * kPixelBytes;
#pragma unroll 1
  for (int begin = warp(); begin < S::kSizes.patch_rows; begin += kTogether * S::kWarps) {
    InputPair<kForm> pairs[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int row = min(max(place.iy + begin + i * S::kWarps, 0), a.h - 1);
      pairs[i].load(a, image, static_cast<std::uint32_t>(row) * a.row_bytes, first, second);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int row = begin + i * S::kWarps;
      const bool row_inside = static_cast<unsigned>(place.iy + row) < static_cast<unsigned>(a.h);
      uint2 bytes = pairs[i].template bytes<kDivides>(a, q);
      if (!row_inside || !first_inside) bytes.x = a.input_padding;
      if (!row_inside || !second_inside) bytes.y = a.input_padding;
      if (lane() < kPairs) {
        *reinterpret_cast<uint2*>(to + row * S::kPatchPitch) = bytes;
        *reinterpret_cast<uint2*>(to + row * S::kPatchPitch + S::kSizes.patch_shifted) = bytes;
      }
    }
  }
}

/// A rounded value of s or d. Fast: their sums are small, and their ranges begin at the zero point.
template <bool kFast>
__device__ __forceinline__ std::uint32_t rounded_hidden(std::int32_t sum, float scale, float offset) {
  return kFast ? rounded_clipped_sum(sum, scale, offset) : rounded_any_sum(sum, scale);
}
template <bool kFast>
__device__ __forceinline__ std::uint32_t rounded_output(std::int32_t sum, float scale) {
  return kFast ? rounded_small_sum(sum, scale) : rounded_any_sum(sum, scale);
}

/// A lane's 8 neighbouring channels.
struct EightChannels {
  float of[8];

  __device__ __forceinline__ explicit EightChannels(const unsigned char* from) {
    const auto low = at<float4>(from + quarter() * 32);
    const auto high = at<float4>(from + quarter() * 32 + 16);
    const float words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) of[i] = words[i];
  }
};

/// What the sums of an mma begin at. Two channels lie there twice: so the compiler, which does not know that, keeps
/// them in the four registers that an mma reads.
__device__ __forceinline__ void load_begin(const unsigned char* from, std::int32_t (&begin)[4]) {
  const auto words = at<int4>(from);
  begin[0] = words.x;
  begin[1] = words.y;
  begin[2] = words.z;
  begin[3] = words.w;
}

/// s, for 32 of its channels. An mma has 16 neighbouring pixels of a row. k are four neighbouring pixels of four bytes,
/// of which the fourth meets zeros, of the first and the second row of the window; in a product of half the depth those
/// of the third row.
template <class S, bool kFast>
__device__ __forceinline__ void stem(const Arguments& a, const Place& place, int slice, unsigned char* shared) {
  const unsigned char* const weights = shared + S::kLayout.slices + slice * S::kLayout.slice_bytes;
  const auto low = at<uint4>(weights + lane() * 16);
  const auto high = at<uint4>(weights + 512 + lane() * 16);
  const auto last = at<uint4>(weights + S::kLayout.stem_last + lane() * 16);
  const std::uint32_t two_words[4][2] = {{low.x, low.y}, {low.z, low.w}, {high.x, high.y}, {high.z, high.w}};
  const std::uint32_t last_word[4] = {last.x, last.y, last.z, last.w};
  const EightChannels scale(weights + S::kLayout.stem_scale);
  const EightChannels offset(weights + S::kLayout.stem_offset);

  std::int32_t begin[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) load_begin(weights + S::kLayout.stem_begin + (quarter() * 4 + i) * 16, begin[i]);

  const int first_column = warp() % S::kRowTiles * kTile + row_of_lane();
  bool present[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    present[half] = static_cast<unsigned>(place.sx + first_column + half * 8) < static_cast<unsigned>(a.stem_w);
  }
  int row = warp() / S::kRowTiles;
  constexpr int kRowStep = S::kWarps / S::kRowTiles;
  // The lane's row of ldmatrix: pixel lane % 16, of lanes from 16 on in the second row of the window.
  const int pixel = warp() % S::kRowTiles * kTile + lane() % kTile;
  std::uint32_t from = ptx::shared_address(shared + S::kSizes.patch_at) +
                       static_cast<std::uint32_t>(pixel / 2 * 16 + pixel % 2 * (S::kSizes.patch_shifted + 8) +
                                                  (row * 2 + lane() / kTile) * S::kPatchPitch);
  unsigned char* to = shared + S::kSizes.hidden_at + (slice * 4 + quarter()) * S::kPlaneBytes +
                      (row * S::kSizes.row_pitch + first_column) * kGroup;
#pragma unroll 1
  for (; row < S::kSizes.hidden_h;
       row += kRowStep, from += kRowStep * 2 * S::kPatchPitch, to += kRowStep * S::kSizes.row_pitch * kGroup) {
    if (static_cast<unsigned>(place.sy + row) >= static_cast<unsigned>(a.stem_h)) continue;
    std::uint32_t pixels[4];
    std::uint32_t third[2];
    ptx::ldmatrix_x4(pixels, from);
    ptx::ldmatrix_x2(third, from + 2 * S::kPatchPitch);
    std::int32_t sums[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ptx::mma_u8s8_16x8x32(sums[i], pixels, two_words[i][0], two_words[i][1], begin[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) ptx::mma_u8s8_16x8x16(sums[i], third, last_word[i]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t two[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        two[i] = clipped_pair(a.hidden, rounded_hidden<kFast>(sums[i][half * 2], scale.of[2 * i], offset.of[2 * i]),
                              rounded_hidden<kFast>(sums[i][half * 2 + 1], scale.of[2 * i + 1], offset.of[2 * i + 1]));
      }
      const uint2 bytes{join_pairs(two[0], two[1]), join_pairs(two[2], two[3])};
      if (present[half]) *reinterpret_cast<uint2*>(to + half * 8 * kGroup) = bytes;
    }
  }
}

/// Depthwise and projection of the warp's outputs. An mma's rows are 16 pairs of neighbouring pixels. The windows of
/// both pixels of a pair lie in the same four columns, so that both multiply the same operand, by weights that are one
/// column apart.
template <class S, bool kFast>
class Filter {
 public:
  __device__ __forceinline__ Filter() {
#pragma unroll
    for (int tile = 0; tile < S::kMyPairTiles; ++tile) {
      const int pair = first_pair(tile) + lane() % kTile;
      const int slot = pair < kPairs ? pair / kRowPairs * S::kSizes.row_pitch + pair % kRowPairs * 2 : 0;
      from_[tile] = slot * kGroup + lane() / kTile * 16;
    }
    // A column of the diagonal: the channel's byte in its place of the word that has it. Words are of two pixels each.
    const int channel = row_of_lane();
    const bool mine = channel / 4 == quarter() % 2;
    constexpr unsigned kZero = 4;  // a byte of the other operand of __byte_perm
    constexpr unsigned kZeros = 0x4444U;
    const unsigned shift = static_cast<unsigned>(channel % 4) * 4;
#pragma unroll
    for (int parity = 0; parity < 2; ++parity) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int tap = 2 * i + quarter() / 2 - parity;
        const unsigned byte = tap >= 0 && tap < kWindow ? static_cast<unsigned>(tap) : kZero;
        diagonal_[parity][i] = mine ? (kZeros & ~(0xFU << shift)) | byte << shift : kZeros;
      }
    }
  }

  /// Adds 32 channels of s.
  __device__ __forceinline__ void run(const Arguments& a, int slice, const unsigned char* shared) {
    const unsigned char* const weights = shared + S::kLayout.slices + slice * S::kLayout.slice_bytes;
    const std::uint32_t hidden = ptx::shared_address(shared + S::kSizes.hidden_at) +
                                 static_cast<std::uint32_t>(slice * (kSlice / kGroup) * S::kPlaneBytes);
    std::uint32_t filtered[S::kMyPairTiles][2][4];
#pragma unroll
    for (int group = 0; group < kSlice / kGroup; ++group) {
      const auto words = at<uint4>(weights + S::kLayout.taps + (group * kGroup + row_of_lane()) * kTapsPitch);
      const std::uint32_t rows[kWindow] = {words.x, words.y, words.z};
      std::uint32_t taps[2][kWindow][2];
#pragma unroll
      for (int parity = 0; parity < 2; ++parity) {
#pragma unroll
        for (int row = 0; row < kWindow; ++row) {
          taps[parity][row][0] = __byte_perm(rows[row], 0, diagonal_[parity][0]);
          taps[parity][row][1] = __byte_perm(rows[row], 0, diagonal_[parity][1]);
        }
      }
      const int channels = group * 4 + quarter();
      const auto scale = at<float4>(weights + S::kLayout.depthwise_scale + channels * 16);
      std::int32_t begin[4];
      load_begin(weights + S::kLayout.depthwise_begin + channels * 16, begin);
#pragma unroll
      for (int tile = 0; tile < S::kMyPairTiles; ++tile) {
        if (!is_there(tile)) continue;
        std::int32_t sums[2][4];
#pragma unroll
        for (int row = 0; row < kWindow; ++row) {
          std::uint32_t pixels[4];
          ptx::ldmatrix_x4(pixels, hidden + static_cast<std::uint32_t>(from_[tile] + group * S::kPlaneBytes +
                                                                       row * S::kSizes.row_pitch * kGroup));
#pragma unroll
          for (int parity = 0; parity < 2; ++parity) {
            if (row == 0) {
              ptx::mma_u8s8_16x8x32(sums[parity], pixels, taps[parity][row][0], taps[parity][row][1], begin);
            } else {
              ptx::mma_u8s8_16x8x32(sums[parity], pixels, taps[parity][row][0], taps[parity][row][1]);
            }
          }
        }
#pragma unroll
        for (int parity = 0; parity < 2; ++parity) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const std::uint32_t two =
                clipped_pair(a.filtered, rounded_hidden<kFast>(sums[parity][half * 2], scale.x, scale.z),
                             rounded_hidden<kFast>(sums[parity][half * 2 + 1], scale.y, scale.w));
            std::uint32_t& word = filtered[tile][parity][group / 2 * 2 + half];
            word = group % 2 == 0 ? two : join_pairs(word, two);
          }
        }
      }
    }
    project(weights, shared, slice == 0, filtered);
  }

  __device__ __forceinline__ void store(const Arguments& a, const Place& place, const unsigned char* shared,
                                        unsigned char* y) const {
    unsigned char* const image = y + static_cast<std::size_t>(place.n) * a.out_h * a.out_w * S::kConfig.c_out;
    float scale[S::kRun];
#pragma unroll
    for (int i = 0; i < S::kRun; ++i) {
      scale[i] = at<float>(shared + S::kLayout.project_scale + (quarter() * S::kRun + i) * 4);
    }
#pragma unroll
    for (int tile = 0; tile < S::kMyPairTiles; ++tile) {
      if (!is_there(tile)) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int pair = first_pair(tile) + half * 8 + row_of_lane();
        const int oy = place.oy + pair / kRowPairs;
        const int ox = place.ox + pair % kRowPairs * 2;
        const bool is_row = pair < kPairs && oy < a.out_h;
        const auto pixel = static_cast<std::uint32_t>(oy * a.out_w + ox);
        unsigned char* const to = image + (pixel * S::kConfig.c_out + static_cast<unsigned>(quarter() * S::kRun));
#pragma unroll
        for (int parity = 0; parity < 2; ++parity) {
          std::uint32_t words[S::kRun / 4];
#pragma unroll
          for (int i = 0; i < S::kRun / 4; ++i) {
            std::uint32_t two[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              const int n = i * 2 + j;
              const auto& sums = sums_[tile][parity][n];
              two[j] = clipped_pair(a.output, rounded_output<kFast>(sums[half * 2], scale[n * 2]),
                                    rounded_output<kFast>(sums[half * 2 + 1], scale[n * 2 + 1])) +
                       a.output_low;
            }
            words[i] = join_pairs(two[0], two[1]);
          }
          ptx::store_global_if(is_row && ox + parity < a.out_w, to + parity * S::kConfig.c_out, words);
        }
      }
    }
  }

 private:
  static constexpr int kRowPairs = S::kTileW / 2;
  static constexpr int kPairs = S::kTileH * kRowPairs;

  /// Of the tile of outputs.
  __device__ __forceinline__ static int first_pair(int tile) { return (warp() + tile * S::kWarps) * kTile; }

  /// Whether the warp has so many tiles of pairs; known at compile time of all but the last.
  __device__ __forceinline__ static bool is_there(int tile) {
    return (tile + 1) * S::kWarps * kTile <= kPairs || first_pair(tile) < kPairs;
  }

  __device__ __forceinline__ void project(const unsigned char* weights, const unsigned char* shared, bool is_first,
                                          const std::uint32_t (&filtered)[S::kMyPairTiles][2][4]) {
#pragma unroll
    for (int n = 0; n < S::kOutTiles; ++n) {
      const auto words = at<uint2>(weights + S::kLayout.project + (n / 2 * 32 + lane()) * 16 + n % 2 * 8);
      std::int32_t begin[4];
      load_begin(shared + S::kLayout.project_begin + (quarter() * S::kOutTiles + n) * 16, begin);
#pragma unroll
      for (int tile = 0; tile < S::kMyPairTiles; ++tile) {
        if (!is_there(tile)) continue;
#pragma unroll
        for (int parity = 0; parity < 2; ++parity) {
          if (is_first) {
            ptx::mma_u8s8_16x8x32(sums_[tile][parity][n], filtered[tile][parity], words.x, words.y, begin);
          } else {
            ptx::mma_u8s8_16x8x32(sums_[tile][parity][n], filtered[tile][parity], words.x, words.y);
          }
        }
      }
    }
  }

  std::int32_t sums_[S::kMyPairTiles][2][S::kOutTiles][4];  ///< of the projection
  int from_[S::kMyPairTiles];                               ///< the lane's rows of ldmatrix, within a plane of s
  unsigned diagonal_[2][2];  ///< of a __byte_perm, for the even and the odd pixel of a pair
};

}  // namespace mobicuda::kernels::int8_stem
