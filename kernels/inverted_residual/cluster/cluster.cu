// Inverted residual blocks of few pictures by clusters, half: variants, limits, packing, launch.
// The kernel: kernel.cuh.

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/common/launch_cluster.h"
#include "kernels/inverted_residual/cluster/kernel.cuh"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"

namespace mobicuda::kernels {
namespace {

using inverted_cluster::Arguments;
using inverted_cluster::cluster_kernel;
using inverted_cluster::Config;
using inverted_cluster::kFragmentBytes;
using inverted_cluster::kUnit;
using inverted_cluster::Shape;
using inverted_host::put_float;
using inverted_host::put_halves;
using Variant = InvertedResidualVariant;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

template <Config kConfig>
std::int64_t tiles(const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, Shape<kConfig>::kRows) * ceil_div(p.out_w, kConfig.columns);
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  return gpu.code >= kOldest && kConfig.blocks <= gpu.cluster_blocks &&
         Shape<kConfig>::kSharedBytes <= gpu.shared_bytes_per_block && inverted_host::channels_fit(p, kConfig) &&
         tiles<kConfig>(p) <= kMaxInt / 2 - kConfig.blocks &&  // the loop's counter goes one round further
         std::int64_t{p.h} * p.w <= kMaxInt / (2 * p.c_in) && std::int64_t{p.out_h} * p.out_w <= kMaxInt / p.c_out;
}

__half2 both(float value) { return __float2half2_rn(value); }

template <Config kConfig>
Arguments arguments(const InvertedResidualParams& p) {
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.tiles = static_cast<std::uint32_t>(tiles<kConfig>(p));
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, kConfig.columns)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, Shape<kConfig>::kRows)));
  a.expand_clip = {both(p.expand_clip.lo), both(p.expand_clip.hi)};
  a.depthwise_clip = {both(p.depthwise_clip.lo), both(p.depthwise_clip.hi)};
  a.project_clip = p.project_clip;
  return a;
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  const Arguments a = arguments<kConfig>(p);
  using S = Shape<kConfig>;
  const auto kernel = cluster_kernel<S>;
  constexpr unsigned kBlocks = kConfig.blocks;
  const dim3 block(S::kThreads);
  int clusters = 0;
  cudaError_t status = allow_shared_memory(kernel, S::kSharedBytes);
  if (status == cudaSuccess) {
    const ClusterConfig one(dim3(kBlocks), block, S::kSharedBytes, kBlocks, Launch{where.stream});
    status = cudaOccupancyMaxActiveClusters(&clusters, kernel, one.get());
  }
  if (status != cudaSuccess) return status;
  const dim3 grid(kBlocks * std::min(a.tiles, static_cast<std::uint32_t>(std::max(clusters, 1))));
  return launch_clusters(kernel, grid, block, S::kSharedBytes, kBlocks, where, a, static_cast<const __half*>(x),
                         static_cast<const unsigned char*>(packed), static_cast<__half*>(y));
}

/// One fragment: rows 2r and 2r + 1 of `matrix`, (., columns) row-major, are the instruction's r and r + 8; its k, 4 at
/// a time, are `step` neighbouring columns for each thread of a quad.
void pack_fragment(unsigned char* to, const float* matrix, int columns, int row0, int column0, int step) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int word = 0; word < 4; ++word) {
      const int row = row0 + lane / 4 * 2 + word % 2;
      const float* const pair = matrix + std::int64_t{row} * columns + column0 + lane % 4 * step + word / 2 * 2;
      put_halves(to + lane * 16 + word * 4, pair[0], pair[1]);
    }
  }
}

/// Biases of expand and depthwise, and taps, of 16 channels.
void pack_depthwise(const InvertedResidualWeights& w, int c0, unsigned char* to) {
  unsigned char* const taps = to + inverted_cluster::kUnitBiasBytes;
  for (int pair = 0; pair < kUnit / 2; ++pair) {
    const int c = c0 + pair * 2;
    for (int i = 0; i < 2; ++i) {
      put_float(to + pair * 16 + i * 4, w.expand_bias, c + i);
      put_float(to + pair * 16 + 8 + i * 4, w.depthwise_bias, c + i);
    }
    for (int tap = 0; tap < 9; ++tap) {
      put_halves(taps + tap / 3 * 128 + pair * 16 + tap % 3 * 4, w.depthwise[c * 9 + tap],
                 w.depthwise[c * 9 + 9 + tap]);
    }
  }
}

/// Project bias | units: expand fragments, biases, taps | project fragments (16 output channels, unit).
template <Config kConfig>
void pack(const InvertedResidualParams& p, const InvertedResidualWeights& w, void* packed) {
  using S = Shape<kConfig>;
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, S::kPackedBytes);
  for (int c = 0; c < p.c_out; ++c, to += 4) put_float(to, w.project_bias, c);
  for (int unit = 0; unit < S::kUnits; ++unit) {
    for (int k = 0; k < S::kBlocksK * 2; ++k, to += kFragmentBytes) {
      pack_fragment(to, w.expand, p.c_in, unit * kUnit, k / 2 * kDirectBlockK + k % 2 * 4, 8);
    }
    pack_depthwise(w, unit * kUnit, to);
    to += inverted_cluster::kUnitBiasBytes + inverted_cluster::kUnitTapsBytes;
  }
  for (int fragment = 0; fragment < S::kFragmentsM; ++fragment) {
    for (int unit = 0; unit < S::kUnits; ++unit, to += kFragmentBytes) {
      pack_fragment(to, w.project, p.c_hidden, fragment * 16, unit * kUnit, 4);
    }
  }
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams& /*params*/) {
  return Shape<kConfig>::kPackedBytes;
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
          packed_bytes<kConfig>,
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

}  // namespace mobicuda::kernels
