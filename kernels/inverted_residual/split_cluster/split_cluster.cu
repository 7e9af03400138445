// Inverted residual blocks of few images by clusters, whose 1x1 convolutions are split products: variants, limits,
// packing, launch. The kernel: kernel.cuh.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/common/split_exponent.h"
#include "kernels/inverted_residual/cluster_host.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/split_cluster/host.h"
#include "kernels/inverted_residual/split_cluster/kernel.cuh"
#include "kernels/inverted_residual/split_rows.h"

namespace mobicuda::kernels {
namespace inverted_split_cluster {
namespace {

using inverted_cluster::kUnitBiasBytes;
using inverted_host::bias_at;
using inverted_host::SplitRows;

void put(unsigned char* to, float value) { std::memcpy(to, &value, sizeof value); }

/// A fragment's upper halves, then the lower ones. Returns what follows.
unsigned char* put_fragment(unsigned char* to, const SplitRows& weights, int row0, int column0, int step) {
  inverted_cluster::for_each_word(row0, column0, step, [&](int word, int row, int column) {
    for (int i = 0; i < 2; ++i) {
      const SplitRows::Element element = weights.at(row, column + i);
      unsigned char* const at = to + word * 4 + i * 2;
      std::memcpy(at, &element.upper, sizeof element.upper);
      std::memcpy(at + kFragmentBytes, &element.lower, sizeof element.lower);
    }
  });
  return to + kHalves * kFragmentBytes;
}

struct Exponents {
  int x, filtered;  ///< of the powers of two of their factors
};

/// Biases, what undoes the factors of expand, and taps, of up to 16 channels; zeros behind the last.
void put_depthwise(const Config& config, const InvertedResidualWeights& w, const SplitRows& expand, Exponents exponents,
                   int c0, unsigned char* to) {
  constexpr int kTaps = 9;
  unsigned char* const scales = to + kUnitBiasBytes;
  unsigned char* const taps = scales + kUnitScaleBytes;
  const int channels = std::min(kUnit, config.c_hidden - c0);
  for (int i = 0; i < channels; ++i) {
    const int c = c0 + i;
    unsigned char* const pair = to + i / 2 * 16 + i % 2 * 4;
    put(pair, bias_at(w.expand_bias, c));
    put(pair + 8, std::ldexp(bias_at(w.depthwise_bias, c), exponents.filtered));
    put(scales + i * 4, std::ldexp(1.0F, -expand.exponent(c) - exponents.x));
    for (int tap = 0; tap < kTaps; ++tap) {
      put(taps + (tap / 3 * 8 + i / 2) * 32 + tap % 3 * 8 + i % 2 * 4,
          std::ldexp(w.depthwise[c * kTaps + tap], exponents.filtered));
    }
  }
}

}  // namespace

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return p.split && inverted_host::channels_fit(p, config, Elem::F32) && inverted_host::clips(p) &&
         inverted_cluster::fits(config, sizes_of(config), p, gpu);
}

std::size_t packed_bytes(const Config& config) { return static_cast<std::size_t>(sizes_of(config).packed_bytes); }

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_split_cluster::", "split_cluster_kernel", config);
}

void pack(const Config& config, const InvertedResidualWeights& w, void* packed) {
  const Sizes s = sizes_of(config);
  const SplitRows expand(w.expand, config.c_hidden, config.c_in);
  const SplitRows project(w.project, config.c_out, config.c_hidden);
  const Exponents exponents{split_exponent(w.x_bound), split_exponent(w.filtered_bound)};
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, static_cast<std::size_t>(s.packed_bytes));
  put(to + kXFactorAt, std::ldexp(1.0F, exponents.x));
  put(to + kFilteredFactorAt, std::ldexp(1.0F, exponents.filtered));
  unsigned char* const biases = to + kFactorBytes;
  unsigned char* const scales = biases + s.fragments_m * 16 * 4;
  for (int c = 0; c < config.c_out; ++c) {
    put(biases + c * 4, bias_at(w.project_bias, c));
    put(scales + c * 4, std::ldexp(1.0F, -project.exponent(c) - exponents.filtered));
  }
  to += s.head_bytes;
  for (int unit = 0; unit < s.units; ++unit) {
    for (int k = 0; k < s.blocks_k * 2; ++k) {
      to = put_fragment(to, expand, unit * kUnit, k / 2 * kDirectBlockK + k % 2 * 4, 8);
    }
    put_depthwise(config, w, expand, exponents, unit * kUnit, to);
    to += kUnitBiasBytes + kUnitScaleBytes + kUnitTapsBytes;
  }
  for (int fragment = 0; fragment < s.fragments_m; ++fragment) {
    for (int unit = 0; unit < s.units; ++unit) to = put_fragment(to, project, fragment * 16, unit * kUnit, 4);
  }
}

cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& p, const void* x,
                   const void* packed, void* y, const Launch& where) {
  const Sizes s = sizes_of(config);
  Arguments a{};
  inverted_cluster::set_geometry(a, config, s, p);
  a.expand_clip = inverted_host::clip_of(p.expand_activation);
  a.depthwise_clip = inverted_host::clip_of(p.depthwise_activation);
  a.project_clip = p.project_clip;
  return inverted_cluster::launch_tiles(config, s, kernel, where, a, static_cast<const float*>(x),
                                        static_cast<const unsigned char*>(packed), static_cast<float*>(y));
}

}  // namespace inverted_split_cluster

namespace {

using inverted_split_cluster::Config;
using inverted_split_cluster::Shape;
using Variant = InvertedResidualVariant;

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_split_cluster::supports(kConfig, p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes_of(const InvertedResidualParams& /*params*/) {
  return inverted_split_cluster::packed_bytes(kConfig);
}

template <Config kConfig>
void pack(const InvertedResidualParams& /*params*/, const InvertedResidualWeights& weights, void* packed) {
  inverted_split_cluster::pack(kConfig, weights, packed);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_split_cluster::launch(kConfig, inverted_split_cluster::split_cluster_kernel<Shape<kConfig>>, p, x,
                                        packed, y, where);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{kConfig.stride,
                                     Shape<kConfig>::kRows,
                                     kConfig.columns,
                                     kConfig.c_hidden,
                                     kConfig.c_out,
                                     Shape<kConfig>::kThreads,
                                     true};

template <Config kConfig>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  return {variant,
          name,
          kTile<kConfig>,
          supports_config<kConfig>,
          packed_bytes_of<kConfig>,
          pack<kConfig>,
          launch_config<kConfig>};
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //    stride c_in hidden c_out columns blocks warps, of which m, k  min_blocks staged
    entry<Config{2,  24,  144,   32,     4,      2,       6,     2,  3,       2,    0}>(Variant::SplitCluster2K24N32, "split_cluster2_k24_n32"),
    entry<Config{1,  32,  192,   32,     4,      2,       6,     2,  2,       2,    0}>(Variant::SplitCluster2K32N32, "split_cluster2_k32_n32"),
    entry<Config{2,  32,  192,   64,     4,      2,       6,     4,  1,       2,    0}>(Variant::SplitCluster2K32N64, "split_cluster2_k32_n64"),
    entry<Config{1,  64,  384,   64,     4,      3,       8,     4,  1,       1,    0}>(Variant::SplitCluster3K64N64, "split_cluster3_k64_n64"),
    entry<Config{1,  64,  384,   96,     4,      3,       8,     2,  2,       1,    0}>(Variant::SplitCluster3K64N96, "split_cluster3_k64_n96"),
    entry<Config{1,  96,  576,   96,     4,      3,      12,     6,  2,       1,    0}>(Variant::SplitCluster3K96N96, "split_cluster3_k96_n96"),
    entry<Config{1,  96,  576,   96,     4,      6,       6,     6,  1,       1,    0}>(Variant::SplitCluster6K96N96, "split_cluster6_k96_n96"),
    entry<Config{2,  96,  576,  160,     4,      4,       9,     4,  2,       1,    1}>(Variant::SplitCluster4K96N160, "split_cluster4_k96_n160"),
    entry<Config{2,  96,  576,  160,     4,      5,       8,     2,  2,       1,    1}>(Variant::SplitCluster5K96N160, "split_cluster5_k96_n160"),
    entry<Config{1, 160,  960,  160,     4,      8,       8,     4,  2,       1,    1}>(Variant::SplitCluster8K160N160, "split_cluster8_k160_n160"),
    entry<Config{1, 160,  960,  320,     4,     15,       8,     8,  1,       1,    1}>(Variant::SplitCluster15K160N320, "split_cluster15_k160_n320"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_split_cluster_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_split_cluster_family() {
  static constexpr InvertedResidualFamily kFamily = inverted_host::family<Config, inverted_split_cluster::Kernel>(
      Variant::SpecialisedSplitCluster, "split_cluster", "kernels/inverted_residual/split_cluster/kernel.cuh",
      inverted_host::configuration_values<inverted_split_cluster::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
