// Early inverted residual blocks of few images, exact float: variants, limits, packing, launch. The kernel:
// kernel.cuh.

#include <limits>

#include "kernels/common/spread_blocks.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/simt_early/kernel.cuh"
#include "kernels/inverted_residual/simt_pack.h"

namespace mobicuda::kernels {
namespace {

using inverted_host::bias_at;
using inverted_simt_cluster::pack_product;
using inverted_simt_early::Arguments;
using inverted_simt_early::Config;
using inverted_simt_early::expand_channel;
using inverted_simt_early::kTaps;
using inverted_simt_early::kThreads;
using inverted_simt_early::project_input;
using inverted_simt_early::Shape;
using Variant = InvertedResidualVariant;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

template <Config kConfig>
std::int64_t tiles(const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, kConfig.rows) * ceil_div(p.out_w, kConfig.columns);
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  return gpu.code >= kOldest && kConfig.blocks <= gpu.cluster_blocks &&
         Shape<kConfig>::kSharedBytes <= gpu.shared_bytes_per_block &&
         inverted_host::channels_fit(p, kConfig, Elem::F32) && tiles<kConfig>(p) <= kMaxInt / kConfig.blocks;
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
  const auto kernel = inverted_simt_early::early_kernel<S>;
  const auto blocks = static_cast<unsigned>(tiles<kConfig>(p) * kConfig.blocks);
  std::size_t bytes = S::kSharedBytes;
  const cudaError_t status = spread_blocks(kernel, blocks, kThreads, kConfig.blocks, bytes);
  if (status != cudaSuccess) return status;
  return launch_clusters(kernel, dim3(blocks), dim3(kThreads), bytes, kConfig.blocks, where, a,
                         static_cast<const float*>(x), static_cast<const float*>(packed), static_cast<float*>(y));
}

template <Config kConfig>
void pack(const InvertedResidualParams& p, const InvertedResidualWeights& w, void* packed) {
  using S = Shape<kConfig>;
  constexpr int kChannels = kConfig.expand_channels;
  auto* to = static_cast<float*>(packed);
  for (int first = 0; first < p.c_hidden; first += S::kHidden) {
    for (int four = 0; four < S::kExpandK * kChannels; four += 4) {
      for (int column = 0; column < S::kHidden; column += kChannels) {
        for (int lane = 0; lane < S::kExpandLanes; ++lane) {
          for (int i = four; i < four + 4; ++i) {
            const int row = first + column + expand_channel(kChannels, S::kExpandLanes, lane, i % kChannels);
            const int k = i / kChannels;
            *to++ = w.expand[row * p.c_in + k / 4 * (4 * S::kExpandLanes) + lane * 4 + k % 4];
          }
        }
      }
    }
    for (int c = 0; c < S::kHidden; ++c) *to++ = bias_at(w.expand_bias, first + c);
    for (int tap = 0; tap < kTaps; ++tap) {
      for (int c = 0; c < S::kHidden; ++c) *to++ = w.depthwise[(first + c) * kTaps + tap];
    }
    for (int c = 0; c < S::kHidden; ++c) *to++ = bias_at(w.depthwise_bias, first + c);
    for (int c = 0; c < p.c_out; ++c) *to++ = bias_at(w.project_bias, c);
    to = pack_product(
        p.c_out, S::kHidden, kConfig.project_lanes, kConfig.project_channels,
        [&](int row, int k) { return w.project[row * p.c_hidden + first + k]; },
        [](int lane, int i) { return project_input(kConfig.project_lanes, S::kProjectK, lane, i); }, to);
  }
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams& /*params*/) {
  return static_cast<std::size_t>(kConfig.blocks * Shape<kConfig>::kSliceFloats) * sizeof(float);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{kConfig.stride, kConfig.rows, kConfig.columns, kConfig.c_hidden, kConfig.c_out,
                                     kThreads,       true};

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
    //    blocks stride c_in hidden c_out tile  expand: channels  project: lanes, channels
    entry<Config{2, 1,  24, 144, 24, 7,  7,  4,   8, 4}>(Variant::SimtEarly2S1Tile7x7C144N24, "simt_early2_s1_7x7_c144_n24"),
    entry<Config{2, 2,  24, 144, 32, 2,  7,  4,   8, 4}>(Variant::SimtEarly2S2Tile2x7C144N32, "simt_early2_s2_2x7_c144_n32"),
    entry<Config{4, 1,  32, 192, 32, 4,  7,  4,   8, 4}>(Variant::SimtEarly4S1Tile4x7C192N32, "simt_early4_s1_4x7_c192_n32"),
    entry<Config{2, 2,  32, 192, 64, 2,  2,  4,  16, 4}>(Variant::SimtEarly2S2Tile2x2C192N64, "simt_early2_s2_2x2_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_simt_early_entries() { return kEntries; }

}  // namespace mobicuda::kernels
