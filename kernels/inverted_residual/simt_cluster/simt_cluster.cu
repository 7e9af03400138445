// Inverted residual blocks of few images by clusters, exact float: variants, limits, packing, launch.
// The kernel: kernel.cuh.

#include <algorithm>
#include <limits>

#include "kernels/common/launch_cluster.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/simt_cluster/kernel.cuh"
#include "kernels/inverted_residual/simt_pack.h"

namespace mobicuda::kernels {
namespace {

using inverted_host::bias_at;
using inverted_simt_cluster::Arguments;
using inverted_simt_cluster::Config;
using inverted_simt_cluster::kBlocks;
using inverted_simt_cluster::kLanes;
using inverted_simt_cluster::kTaps;
using inverted_simt_cluster::pack_product;
using inverted_simt_cluster::Shape;
using Variant = InvertedResidualVariant;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

template <Config kConfig>
std::int64_t tiles(const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, kConfig.rows) * ceil_div(p.out_w, kConfig.columns);
}

/// Whether no tile's patch has more columns inside the image than the variant computes.
template <Config kConfig>
bool columns_fit(const InvertedResidualParams& p) {
  constexpr int kPatchW = Shape<kConfig>::kPatchW;
  const int columns = kConfig.patch_columns < kPatchW ? p.out_w : 0;  // that may have too many
  for (int ox = 0; ox < columns; ox += kConfig.columns) {
    const int first = ox * kConfig.stride - p.pad_left;
    if (first >= p.w) break;
    if (std::min(first + kPatchW, p.w) - std::max(first, 0) > kConfig.patch_columns) return false;
  }
  return true;
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  return gpu.code >= kOldest && kBlocks <= gpu.cluster_blocks &&
         Shape<kConfig>::kSharedBytes <= gpu.shared_bytes_per_block &&
         inverted_host::channels_fit(p, kConfig, Elem::F32) && tiles<kConfig>(p) <= kMaxInt / kBlocks &&
         columns_fit<kConfig>(p);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  using S = Shape<kConfig>;
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, kConfig.columns)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, kConfig.rows)));
  a.expand_clip = p.expand_clip;
  a.depthwise_clip = p.depthwise_clip;
  a.project_clip = p.project_clip;
  const dim3 grid(static_cast<unsigned>(tiles<kConfig>(p) * kBlocks));
  return launch_clusters(inverted_simt_cluster::cluster_kernel<S>, grid, dim3(S::kThreads), S::kSharedBytes, kBlocks,
                         where, a, static_cast<const float*>(x), static_cast<const float*>(packed),
                         static_cast<float*>(y));
}

template <Config kConfig>
void pack(const InvertedResidualParams& p, const InvertedResidualWeights& w, void* packed) {
  constexpr int kHidden = Shape<kConfig>::kHidden;
  auto* to = static_cast<float*>(packed);
  for (int c = 0; c < p.c_out; ++c) *to++ = bias_at(w.project_bias, c);
  for (int first = 0; first < p.c_hidden; first += kHidden) {
    to = pack_product(
        kHidden, p.c_in, kLanes, kConfig.expand_channels,
        [&](int row, int k) { return w.expand[(first + row) * p.c_in + k]; },
        [](int lane, int i) { return i / 4 * (4 * kLanes) + lane * 4 + i % 4; }, to);
    for (int tap = 0; tap < kTaps; ++tap) {
      for (int c = 0; c < kHidden; ++c) *to++ = w.depthwise[(first + c) * kTaps + tap];
    }
    for (int c = 0; c < kHidden; ++c) *to++ = bias_at(w.depthwise_bias, first + c);
    for (int c = 0; c < kHidden; ++c) *to++ = bias_at(w.expand_bias, first + c);
    to = pack_product(
        p.c_out, kHidden, kLanes, kConfig.project_channels,
        [&](int row, int k) { return w.project[row * p.c_hidden + first + k]; },
        [](int lane, int i) { return lane + i * kLanes; }, to);
  }
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams& /*params*/) {
  return (static_cast<std::size_t>(kConfig.c_out) + std::size_t{kBlocks} * Shape<kConfig>::kSliceFloats) *
         sizeof(float);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{
    kConfig.stride, kConfig.rows, kConfig.columns, kConfig.c_hidden, kConfig.c_out, Shape<kConfig>::kThreads, true};

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
    //    stride c_in hidden c_out tile, inside threads expand project early min_blocks
    entry<Config{1,  64,  384,   64, 2, 7, 8,     192,   8, 4,   8, 3,  true,  2}>(Variant::SimtCluster8K64N64, "simt_cluster8_k64_n64"),
    entry<Config{1,  64,  384,   96, 2, 7, 8,     192,   8, 4,   8, 2,  true,  2}>(Variant::SimtCluster8K64N96, "simt_cluster8_k64_n96"),
    entry<Config{1,  96,  576,   96, 2, 7, 8,     256,   8, 3,   8, 2,  true,  1}>(Variant::SimtCluster8K96N96, "simt_cluster8_k96_n96"),
    entry<Config{2,  96,  576,  160, 1, 4, 9,     256,   8, 3,   8, 1,  true,  1}>(Variant::SimtCluster8K96N160, "simt_cluster8_k96_n160"),
    entry<Config{1, 160,  960,  160, 1, 7, 7,     320,   4, 1,   4, 1,  false, 1}>(Variant::SimtCluster8K160N160, "simt_cluster8_k160_n160"),
    entry<Config{1, 160,  960,  320, 1, 7, 7,     320,   4, 1,   8, 1,  false, 1}>(Variant::SimtCluster8K160N320, "simt_cluster8_k160_n320"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_simt_cluster_entries() { return kEntries; }

}  // namespace mobicuda::kernels
