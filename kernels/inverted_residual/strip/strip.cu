// Inverted residual blocks of many images in half, channels known at compile time: variants, packing, launch.
// Order of the stages: kernel.cuh. The stages: stages.cuh. Choosing a configuration: configurations.cpp.
// Offsets within an image are int; images are found by size_t.

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/common/resident_blocks.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/strip/host.h"
#include "kernels/inverted_residual/strip/kernel.cuh"

namespace mobicuda::kernels {
namespace inverted_strip {
namespace {

using inverted_host::put_float;

constexpr int kLanes = 32;

Arguments arguments(const Config& config, const InvertedResidualParams& p) {
  const int strips_x = ceil_div(p.out_w, kColumns);
  const int strips_y = ceil_div(p.out_h, config.rows);
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.strips = static_cast<std::uint32_t>(std::int64_t{p.n} * strips_x * strips_y);
  a.pairs = (a.strips + 1) / 2;
  a.strips_x = FastDivision(static_cast<std::uint32_t>(strips_x));
  a.strips_y = FastDivision(static_cast<std::uint32_t>(strips_y));
  // Infinite hidden values would meet the zeros of the diagonal matrices.
  a.expand_hi = inverted_host::hidden_bound(p);
  a.depthwise_hi = __float2half2_rn(p.depthwise_activation.hi);
  a.project_lo = __float2half2_rn(p.project_clip.lo);
  a.project_hi = __float2half2_rn(p.project_clip.hi);
  return a;
}

void put_half(unsigned char* word, int e, float value) { inverted_host::put_half(word + e * 2, value); }

/// Word `word` of a lane's `words` in an operand.
unsigned char* word_of(unsigned char* to, int words, int word, int lane) {
  const int lane_bytes = word / 4 < words / 4 ? 16 : 8;
  return to + word / 4 * kVector + lane * lane_bytes + word % 4 * 4;
}

void pack_unit(const Config& config, const Sizes& s, const InvertedResidualWeights& w, int first, int lane,
               unsigned char* to) {
  const int column = lane / 4;
  const int pair = lane % 4 * 2;  // of the operands' k, and of results
  for (int group = 0; group < 2; ++group) {
    const int channel = first + group * 8;
    if (channel >= config.c_hidden) continue;
    for (int e = 0; e < 2; ++e) {
      for (int half = 0; half < 2; ++half) {
        unsigned char* const bias = to + group * kRowVector + lane % 4 * 16 + half * 8 + e * 4;
        if (s.expands) put_float(bias, w.expand_bias, channel + pair + e);
        put_float(bias + 2 * kRowVector, w.depthwise_bias, channel + pair + e);
      }
      for (int word = 0; word < s.expand_words / 2; ++word) {
        put_half(word_of(to + kExpandAt, s.expand_words, expand_word(config.c_in, group, word), lane), e,
                 w.expand[(channel + column) * config.c_in + word * 8 + pair + e]);
      }
      for (int result = 0; result < s.results; ++result) {
        const int out = output_channel(config.c_out, result, column);
        put_half(word_of(to + s.project_at, s.project_words, result * 2 + group, lane), e,
                 w.project[out * config.c_hidden + channel + pair + e]);
      }
      for (int tap = 0; tap < kTaps && pair + e == column; ++tap) {
        for (const bool beside : {false, true}) {
          if (!has_tap(config.stride, tap % 3, beside)) continue;
          const int word = tap_word(config.stride, group, tap / 3, tap % 3, beside);
          put_half(to + s.taps_at + word / 4 * kDiagonalVector + column * 16 + word % 4 * 4, e,
                   w.depthwise[(channel + column) * kTaps + tap]);
        }
      }
    }
  }
}

}  // namespace

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
  const Sizes s = sizes_of(config);
  const std::int64_t strips_x = (std::int64_t{p.out_w} + kColumns - 1) / kColumns;
  const std::int64_t strips_y = (std::int64_t{p.out_h} + config.rows - 1) / config.rows;
  // Offsets are of bytes, up to a patch beyond the image; strips, by a grid's step beyond the last one.
  const std::int64_t margin = s.patch_h + s.patch_w;
  return gpu.code >= kOldest && static_cast<std::size_t>(s.shared_bytes) <= gpu.shared_bytes_per_block &&
         p.stride == config.stride && p.expand == s.expands && inverted_host::channels_fit(p, config) &&
         inverted_host::activations_fit(p, config) && (p.h + margin) * (p.w + margin) <= kMaxInt / (2 * p.c_in) &&
         (p.out_h + margin) * (p.out_w + margin) <= kMaxInt / (2 * p.c_out) &&
         strips_x * strips_y <= kMaxInt / 2 / std::max(p.n, 1);
}

std::size_t packed_bytes(const Config& config) { return static_cast<std::size_t>(sizes_of(config).packed_bytes); }

void pack(const Config& config, const InvertedResidualWeights& weights, void* packed) {
  const Sizes s = sizes_of(config);
  auto* const head = static_cast<unsigned char*>(packed);
  std::memset(head, 0, packed_bytes(config));
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 2 * s.results; ++i) {
      put_float(head + i / 4 * kRowVector + lane % 4 * 16 + i % 4 * 4, weights.project_bias,
                output_channel(config.c_out, i / 2, lane % 4 * 2 + i % 2));
    }
    unsigned char* to = head + s.units_at;
    for (int first = 0; first < config.c_hidden; first += kUnit, to += s.unit_bytes) {
      pack_unit(config, s, weights, first, lane, to);
    }
  }
}

cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& p, const void* x,
                   const void* packed, void* y, const Launch& where) {
  const Sizes s = sizes_of(config);
  const auto shared_bytes = static_cast<std::size_t>(s.shared_bytes);
  int multiprocessors = 0;
  cudaError_t status = count_multiprocessors(multiprocessors);
  if (status == cudaSuccess) status = allow_shared_memory(kernel, shared_bytes);
  if (status != cudaSuccess) return status;
  const Arguments a = arguments(config, p);
  const dim3 grid(std::min(a.pairs, static_cast<std::uint32_t>(multiprocessors * config.blocks)));
  return kernels::launch(kernel, grid, dim3(static_cast<unsigned>(s.threads)), shared_bytes, where, a,
                         static_cast<const unsigned char*>(x), static_cast<const unsigned char*>(packed),
                         static_cast<unsigned char*>(y));
}

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_strip::", "strip_kernel", config);
}

}  // namespace inverted_strip

namespace {

using inverted_strip::Config;
using inverted_strip::Shape;
using Variant = InvertedResidualVariant;

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_strip::supports(kConfig, p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams& /*params*/) {
  return inverted_strip::packed_bytes(kConfig);
}

template <Config kConfig>
void pack(const InvertedResidualParams& /*params*/, const InvertedResidualWeights& weights, void* packed) {
  inverted_strip::pack(kConfig, weights, packed);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_strip::launch(kConfig, inverted_strip::strip_kernel<Shape<kConfig>>, p, x, packed, y, where);
}

template <Config kConfig>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  constexpr inverted_strip::Sizes kSizes = inverted_strip::sizes_of(kConfig);
  constexpr InvertedResidualTile kTile{kConfig.stride,        kConfig.rows,  inverted_strip::kColumns,
                                       inverted_strip::kUnit, kConfig.c_out, kSizes.threads,
                                       kSizes.expands};
  return {variant, name, kTile, supports_config<kConfig>, packed_bytes<kConfig>, pack<kConfig>, launch_config<kConfig>};
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //           channels     stride rows warps blocks
    entry<Config{16,  16, 16,  1,     2,   4,    4}>(Variant::StripPlainRows2C16N16, "strip_plain_rows2_c16_n16"),
    entry<Config{16,  16, 16,  1,     7,   4,    2}>(Variant::StripPlainRows7C16N16, "strip_plain_rows7_c16_n16"),
    entry<Config{16,  64, 24,  2,     2,   4,    2}>(Variant::StripS2Rows2C64N24, "strip_s2_rows2_c64_n24"),
    entry<Config{16,  96, 24,  2,     2,   4,    2}>(Variant::StripS2Rows2C96N24, "strip_s2_rows2_c96_n24"),
    entry<Config{16,  96, 24,  2,     2,   8,    1}>(Variant::StripS2Rows2C96N24Warps8, "strip_s2_rows2_c96_n24_warps8"),
    entry<Config{24,  72, 24,  1,     2,   8,    1}>(Variant::StripS1Rows2C72N24, "strip_s1_rows2_c72_n24"),
    entry<Config{24, 144, 24,  1,     2,   8,    1}>(Variant::StripS1Rows2C144N24, "strip_s1_rows2_c144_n24"),
    entry<Config{24, 144, 24,  1,     3,   8,    1}>(Variant::StripS1Rows3C144N24, "strip_s1_rows3_c144_n24"),
    entry<Config{24, 144, 24,  1,     4,   8,    1}>(Variant::StripS1Rows4C144N24, "strip_s1_rows4_c144_n24"),
    entry<Config{24, 144, 32,  2,     2,   8,    1}>(Variant::StripS2Rows2C144N32, "strip_s2_rows2_c144_n32"),
    entry<Config{32, 192, 32,  1,     2,   8,    1}>(Variant::StripS1Rows2C192N32, "strip_s1_rows2_c192_n32"),
    entry<Config{32, 192, 64,  2,     1,   8,    1}>(Variant::StripS2Rows1C192N64, "strip_s2_rows1_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_strip_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_strip_family() {
  static constexpr InvertedResidualFamily kFamily =
      inverted_host::family<inverted_strip::Config, inverted_strip::Kernel>(
          InvertedResidualVariant::SpecialisedStrip, "strip", "kernels/inverted_residual/strip/kernel.cuh",
          inverted_host::configuration_values<inverted_strip::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
