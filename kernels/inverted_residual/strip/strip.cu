// Inverted residual blocks of many images in half, channels known at compile time: variants, packing, launch.
// Order of the stages: kernel.cuh. The stages: stages.cuh.
// Offsets within an image are int; images are found by size_t.

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/common/resident_blocks.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/strip/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using inverted_host::put_float;
using inverted_strip::Arguments;
using inverted_strip::Config;
using inverted_strip::kColumns;
using inverted_strip::kDiagonalVector;
using inverted_strip::kRowVector;
using inverted_strip::kTaps;
using inverted_strip::kUnit;
using inverted_strip::kVector;
using inverted_strip::Shape;
using Variant = InvertedResidualVariant;

constexpr int kLanes = 32;

template <Config kConfig>
Arguments arguments(const InvertedResidualParams& p) {
  const int strips_x = ceil_div(p.out_w, kColumns);
  const int strips_y = ceil_div(p.out_h, kConfig.rows);
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.strips = static_cast<std::uint32_t>(std::int64_t{p.n} * strips_x * strips_y);
  a.pairs = (a.strips + 1) / 2;
  a.strips_x = FastDivision(static_cast<std::uint32_t>(strips_x));
  a.strips_y = FastDivision(static_cast<std::uint32_t>(strips_y));
  // Infinite hidden values would meet the zeros of the diagonal matrices.
  a.expand_hi = __float2half2_rn(std::min(p.expand_clip.hi, inverted_host::kLargestHalf));
  a.depthwise_hi = __float2half2_rn(p.depthwise_clip.hi);
  a.project_lo = __float2half2_rn(p.project_clip.lo);
  a.project_hi = __float2half2_rn(p.project_clip.hi);
  return a;
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  using S = Shape<kConfig>;
  const auto kernel = inverted_strip::strip_kernel<S>;
  int multiprocessors = 0;
  cudaError_t status = count_multiprocessors(multiprocessors);
  if (status == cudaSuccess) status = allow_shared_memory(kernel, S::kSharedBytes);
  if (status != cudaSuccess) return status;
  const Arguments a = arguments<kConfig>(p);
  const std::uint32_t grid = std::min(a.pairs, static_cast<std::uint32_t>(multiprocessors * S::kBlocks));
  return launch(kernel, dim3(grid), dim3(S::kThreads), S::kSharedBytes, where, a, static_cast<const unsigned char*>(x),
                static_cast<const unsigned char*>(packed), static_cast<unsigned char*>(y));
}

void put_half(unsigned char* word, int e, float value) { inverted_host::put_half(word + e * 2, value); }

/// Word `word` of a lane's `words` in an operand.
unsigned char* word_of(unsigned char* to, int words, int word, int lane) {
  const int lane_bytes = word / 4 < words / 4 ? 16 : 8;
  return to + word / 4 * kVector + lane * lane_bytes + word % 4 * 4;
}

template <class S>
void pack_unit(const InvertedResidualParams& p, const InvertedResidualWeights& w, int first, int lane,
               unsigned char* to) {
  const int column = lane / 4;
  const int pair = lane % 4 * 2;  // of the operands' k, and of results
  for (int group = 0; group < 2; ++group) {
    const int channel = first + group * 8;
    if (channel >= p.c_hidden) continue;
    for (int e = 0; e < 2; ++e) {
      for (int half = 0; half < 2; ++half) {
        unsigned char* const bias = to + group * kRowVector + lane % 4 * 16 + half * 8 + e * 4;
        if (S::kExpands) put_float(bias, w.expand_bias, channel + pair + e);
        put_float(bias + 2 * kRowVector, w.depthwise_bias, channel + pair + e);
      }
      for (int word = 0; word < S::kExpandWords / 2; ++word) {
        put_half(word_of(to + S::kExpandAt, S::kExpandWords, S::expand_word(group, word), lane), e,
                 w.expand[(channel + column) * p.c_in + word * 8 + pair + e]);
      }
      for (int result = 0; result < S::kResults; ++result) {
        const int out = inverted_strip::output_channel(S::kCOut, result, column);
        put_half(word_of(to + S::kProjectAt, S::kProjectWords, result * 2 + group, lane), e,
                 w.project[out * p.c_hidden + channel + pair + e]);
      }
      for (int tap = 0; tap < kTaps && pair + e == column; ++tap) {
        for (const bool beside : {false, true}) {
          if (!S::has_tap(tap % 3, beside)) continue;
          const int word = S::tap_word(group, tap / 3, tap % 3, beside);
          put_half(to + S::kTapsAt + word / 4 * kDiagonalVector + column * 16 + word % 4 * 4, e,
                   w.depthwise[(channel + column) * kTaps + tap]);
        }
      }
    }
  }
}

template <Config kConfig>
void pack(const InvertedResidualParams& p, const InvertedResidualWeights& weights, void* packed) {
  using S = Shape<kConfig>;
  auto* const head = static_cast<unsigned char*>(packed);
  std::memset(head, 0, S::kPackedBytes);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 2 * S::kResults; ++i) {
      put_float(head + i / 4 * kRowVector + lane % 4 * 16 + i % 4 * 4, weights.project_bias,
                inverted_strip::output_channel(S::kCOut, i / 2, lane % 4 * 2 + i % 2));
    }
    unsigned char* to = head + S::kUnitsAt;
    for (int first = 0; first < p.c_hidden; first += kUnit, to += S::kUnitBytes) {
      pack_unit<S>(p, weights, first, lane, to);
    }
  }
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams&) {
  return Shape<kConfig>::kPackedBytes;
}

/// ReLU6, ReLU and the like.
bool clips_from_zero(const InvertedResidualParams& p) {
  const auto fits = [](Clip clip) { return clip.lo == 0.0F && clip.hi >= 0.0F; };
  return (!p.expand || fits(p.expand_clip)) && fits(p.depthwise_clip);
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
  const std::int64_t strips_x = (std::int64_t{p.out_w} + kColumns - 1) / kColumns;
  const std::int64_t strips_y = (std::int64_t{p.out_h} + kConfig.rows - 1) / kConfig.rows;
  // Offsets are of bytes, up to a patch beyond the image; strips, by a grid's step beyond the last one.
  const std::int64_t margin = Shape<kConfig>::kPatchH + Shape<kConfig>::kPatchW;
  return gpu.code >= kOldest && Shape<kConfig>::kSharedBytes <= gpu.shared_bytes_per_block &&
         inverted_host::channels_fit(p, kConfig) && clips_from_zero(p) &&
         (p.h + margin) * (p.w + margin) <= kMaxInt / (2 * p.c_in) &&
         (p.out_h + margin) * (p.out_w + margin) <= kMaxInt / (2 * p.c_out) &&
         strips_x * strips_y <= kMaxInt / 2 / std::max(p.n, 1);
}

template <Config kConfig>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  constexpr InvertedResidualTile kTile{
      kConfig.stride, kConfig.rows, kColumns, kUnit, kConfig.c_out, Shape<kConfig>::kThreads, Shape<kConfig>::kExpands};
  return {variant, name, kTile, supports_config<kConfig>, packed_bytes<kConfig>, pack<kConfig>, launch_config<kConfig>};
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //           channels     stride rows warps blocks
    entry<Config{16,  16, 16,  1,     2,   4,    4}>(Variant::StripPlainRows2C16N16, "strip_plain_rows2_c16_n16"),
    entry<Config{16,  16, 16,  1,     7,   4,    2}>(Variant::StripPlainRows7C16N16, "strip_plain_rows7_c16_n16"),
    entry<Config{16,  64, 24,  2,     2,   4,    2}>(Variant::StripS2Rows2C64N24, "strip_s2_rows2_c64_n24"),
    entry<Config{16,  96, 24,  2,     2,   4,    2}>(Variant::StripS2Rows2C96N24, "strip_s2_rows2_c96_n24"),
    entry<Config{24,  72, 24,  1,     2,   8,    1}>(Variant::StripS1Rows2C72N24, "strip_s1_rows2_c72_n24"),
    entry<Config{24, 144, 24,  1,     2,   8,    1}>(Variant::StripS1Rows2C144N24, "strip_s1_rows2_c144_n24"),
    entry<Config{24, 144, 24,  1,     4,   8,    1}>(Variant::StripS1Rows4C144N24, "strip_s1_rows4_c144_n24"),
    entry<Config{24, 144, 32,  2,     2,   8,    1}>(Variant::StripS2Rows2C144N32, "strip_s2_rows2_c144_n32"),
    entry<Config{32, 192, 32,  1,     2,   8,    1}>(Variant::StripS1Rows2C192N32, "strip_s1_rows2_c192_n32"),
    entry<Config{32, 192, 64,  2,     1,   8,    1}>(Variant::StripS2Rows1C192N64, "strip_s2_rows1_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_strip_entries() { return kEntries; }

}  // namespace mobicuda::kernels
