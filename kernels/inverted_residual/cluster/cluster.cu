// Inverted residual blocks of few images by clusters, half: variants, limits, packing, launch.
// The kernel: kernel.cuh.

#include <algorithm>
#include <cstring>

#include "kernels/inverted_residual/cluster/host.h"
#include "kernels/inverted_residual/cluster/kernel.cuh"
#include "kernels/inverted_residual/cluster_host.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"

namespace mobicuda::kernels {
namespace inverted_cluster {
namespace {

using inverted_host::put_float;
using inverted_host::put_halves;

__half2 both(float value) { return __float2half2_rn(value); }

Arguments arguments(const Config& config, const Sizes& sizes, const InvertedResidualParams& p) {
  Arguments a{};
  set_geometry(a, config, sizes, p);
  a.expand_clip = {both(p.expand_activation.lo), both(p.expand_activation.hi)};
  a.depthwise_clip = {both(p.depthwise_activation.lo), both(p.depthwise_activation.hi)};
  a.project_clip = p.project_clip;
  return a;
}

/// (rows, columns), row-major; zeros outside.
struct Matrix {
  const float* elements;
  int rows, columns;

  float at(int row, int column) const {
    return row < rows && column < columns ? elements[std::int64_t{row} * columns + column] : 0.0F;
  }
};

/// Biases of expand and depthwise, and taps, of up to 16 channels; zeros behind the last.
void pack_depthwise(const Config& config, const InvertedResidualWeights& w, int c0, unsigned char* to) {
  unsigned char* const taps = to + kUnitBiasBytes;
  const Matrix window{w.depthwise, config.c_hidden, 9};
  const int channels = std::min(kUnit, config.c_hidden - c0);
  for (int i = 0; i < channels; ++i) {
    unsigned char* const pair = to + i / 2 * 16 + i % 2 * 4;
    put_float(pair, w.expand_bias, c0 + i);
    put_float(pair + 8, w.depthwise_bias, c0 + i);
  }
  for (int i = 0; i < channels; i += 2) {
    for (int tap = 0; tap < 9; ++tap) {
      put_halves(taps + tap / 3 * 128 + i / 2 * 16 + tap % 3 * 4, window.at(c0 + i, tap), window.at(c0 + i + 1, tap));
    }
  }
}

}  // namespace

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_host::channels_fit(p, config) &&
         (config.hard_swish != 0 ? inverted_host::hard_swishes(p) : inverted_host::clips(p)) &&
         fits(config, sizes_of(config), p, gpu);
}

std::size_t packed_bytes(const Config& config) { return static_cast<std::size_t>(sizes_of(config).packed_bytes); }

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_cluster::", "cluster_kernel", config);
}

void pack(const Config& config, const InvertedResidualWeights& w, void* packed) {
  const Sizes s = sizes_of(config);
  const Matrix expand{w.expand, config.c_hidden, config.c_in};
  const Matrix project{w.project, config.c_out, config.c_hidden};
  const auto put_fragment = [](unsigned char* at, const Matrix& matrix, int row0, int column0, int step) {
    for_each_word(row0, column0, step, [&](int word, int row, int column) {
      put_halves(at + word * 4, matrix.at(row, column), matrix.at(row, column + 1));
    });
  };
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, static_cast<std::size_t>(s.packed_bytes));
  for (int c = 0; c < config.c_out; ++c) put_float(to + c * 4, w.project_bias, c);
  to += s.head_bytes;
  for (int unit = 0; unit < s.units; ++unit) {
    for (int k = 0; k < s.blocks_k * 2; ++k, to += kFragmentBytes) {
      put_fragment(to, expand, unit * kUnit, k / 2 * kDirectBlockK + k % 2 * 4, 8);
    }
    pack_depthwise(config, w, unit * kUnit, to);
    to += kUnitBiasBytes + kUnitTapsBytes;
  }
  for (int fragment = 0; fragment < s.fragments_m; ++fragment) {
    for (int unit = 0; unit < s.units; ++unit, to += kFragmentBytes) {
      put_fragment(to, project, fragment * 16, unit * kUnit, 4);
    }
  }
}

cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& p, const void* x,
                   const void* packed, void* y, const Launch& where) {
  const Sizes s = sizes_of(config);
  return launch_tiles(config, s, kernel, where, arguments(config, s, p), static_cast<const __half*>(x),
                      static_cast<const unsigned char*>(packed), static_cast<__half*>(y));
}

}  // namespace inverted_cluster

namespace {

using inverted_cluster::Config;
using inverted_cluster::Shape;
using Variant = InvertedResidualVariant;

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_cluster::supports(kConfig, p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes_of(const InvertedResidualParams& /*params*/) {
  return inverted_cluster::packed_bytes(kConfig);
}

template <Config kConfig>
void pack(const InvertedResidualParams& /*params*/, const InvertedResidualWeights& weights, void* packed) {
  inverted_cluster::pack(kConfig, weights, packed);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_cluster::launch(kConfig, inverted_cluster::cluster_kernel<Shape<kConfig>>, p, x, packed, y, where);
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
    //    stride c_in hidden c_out columns blocks warps, of which m, k  min_blocks
    entry<Config{1,  64,  384,   64,     4,      4,       6,     4,  1,       2}>(Variant::Cluster4K64N64, "cluster4_k64_n64"),
    entry<Config{1,  64,  384,   96,     4,      4,       6,     6,  1,       2}>(Variant::Cluster4K64N96, "cluster4_k64_n96"),
    entry<Config{1,  64,  384,   96,     4,      2,      12,     6,  2,       1}>(Variant::Cluster2K64N96, "cluster2_k64_n96"),
    entry<Config{1,  96,  576,   96,     4,      6,       6,     6,  1,       2}>(Variant::Cluster6K96N96, "cluster6_k96_n96"),
    entry<Config{2,  96,  576,  160,     4,      4,      10,    10,  1,       1}>(Variant::Cluster4K96N160, "cluster4_k96_n160"),
    entry<Config{2,  96,  576,  160,     4,      6,       6,     5,  1,       2}>(Variant::Cluster6K96N160, "cluster6_k96_n160"),
    entry<Config{1, 160,  960,  160,     4,      6,      10,    10,  1,       1}>(Variant::Cluster6K160N160, "cluster6_k160_n160"),
    entry<Config{1, 160,  960,  320,     4,      8,       8,     8,  1,       1}>(Variant::Cluster8K160N320, "cluster8_k160_n320"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_cluster_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_cluster_family() {
  static constexpr InvertedResidualFamily kFamily = inverted_host::family<Config, inverted_cluster::Kernel>(
      Variant::SpecialisedCluster, "cluster", "kernels/inverted_residual/cluster/kernel.cuh",
      inverted_host::configuration_values<inverted_cluster::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
