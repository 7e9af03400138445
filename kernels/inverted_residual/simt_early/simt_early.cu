// Early inverted residual blocks of few images, exact float: variants, limits, packing, launch. The kernel:
// kernel.cuh.

#include <algorithm>
#include <limits>

#include "kernels/common/spread_blocks.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/simt_early/host.h"
#include "kernels/inverted_residual/simt_early/kernel.cuh"
#include "kernels/inverted_residual/simt_pack.h"

namespace mobicuda::kernels {
namespace inverted_simt_early {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::int64_t tiles_of(const Config& config, const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, config.rows) * ceil_div(p.out_w, config.columns);
}

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  return gpu.code >= kOldest && config.blocks <= gpu.cluster_blocks && config.stride == p.stride && p.expand &&
         inverted_host::channels_fit(p, config, Elem::F32) &&
         static_cast<std::size_t>(sizes_of(config).shared_bytes) <= gpu.shared_bytes_per_block &&
         tiles_of(config, p) <= kMaxInt / config.blocks;
}

std::size_t packed_bytes(const Config& config) {
  return static_cast<std::size_t>(config.blocks * sizes_of(config).slice_floats) * sizeof(float);
}

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_simt_early::", "early_kernel", config);
}

void pack(const Config& config, const InvertedResidualWeights& w, void* packed) {
  using inverted_host::bias_at;
  const Sizes s = sizes_of(config);
  const int channels = config.expand_channels;
  auto* to = static_cast<float*>(packed);
  for (int first = 0; first < config.blocks * s.hidden; first += s.hidden) {
    // Channels past the last repeat it: what project multiplies by zero is finite where y is.
    const auto hidden = [&](int c) { return std::min(first + c, config.c_hidden - 1); };
    for (int four = 0; four < s.expand_k * channels; four += 4) {
      for (int column = 0; column < s.hidden; column += channels) {
        for (int lane = 0; lane < kExpandLanes; ++lane) {
          for (int i = four; i < four + 4; ++i) {
            const int row = hidden(column + expand_channel(channels, kExpandLanes, lane, i % channels));
            const int k = i / channels;
            *to++ = w.expand[row * config.c_in + k / 4 * (4 * kExpandLanes) + lane * 4 + k % 4];
          }
        }
      }
    }
    for (int c = 0; c < s.hidden; ++c) *to++ = bias_at(w.expand_bias, hidden(c));
    for (int tap = 0; tap < kTaps; ++tap) {
      for (int c = 0; c < s.hidden; ++c) *to++ = w.depthwise[hidden(c) * kTaps + tap];
    }
    for (int c = 0; c < s.hidden; ++c) *to++ = bias_at(w.depthwise_bias, hidden(c));
    for (int c = 0; c < round_up(config.c_out, kQuad); ++c) {
      *to++ = c < config.c_out ? bias_at(w.project_bias, c) : 0.0F;
    }
    to = inverted_simt_cluster::pack_product(
        s.project_columns * config.project_channels, s.hidden, config.project_lanes, config.project_channels,
        [&](int row, int k) {
          const bool present = row < config.c_out && first + k < config.c_hidden;
          return present ? w.project[row * config.c_hidden + first + k] : 0.0F;
        },
        [&](int lane, int i) { return inverted_simt_cluster::lane_input(config.project_lanes, s.project_k, lane, i); },
        to);
  }
}

cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& p, const void* x,
                   const void* packed, void* y, const Launch& where) {
  Arguments a{};
  inverted_host::set_extents(a, p);
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, config.columns)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, config.rows)));
  a.expand_clip = inverted_host::clip_of(p.expand_activation);
  a.depthwise_clip = inverted_host::clip_of(p.depthwise_activation);
  a.project_clip = p.project_clip;
  const auto threads = static_cast<unsigned>(config.threads);
  const auto cluster = static_cast<unsigned>(config.blocks);
  const auto blocks = static_cast<unsigned>(tiles_of(config, p) * config.blocks);
  auto bytes = static_cast<std::size_t>(sizes_of(config).shared_bytes);
  const cudaError_t status = spread_blocks(kernel, blocks, threads, cluster, bytes);
  if (status != cudaSuccess) return status;
  return launch_clusters(kernel, dim3(blocks), dim3(threads), bytes, cluster, where, a, static_cast<const float*>(x),
                         static_cast<const float*>(packed), static_cast<float*>(y));
}

}  // namespace inverted_simt_early

namespace {

using inverted_simt_early::Config;
using inverted_simt_early::Shape;
using Variant = InvertedResidualVariant;

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_simt_early::supports(kConfig, p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes_of(const InvertedResidualParams& /*params*/) {
  return inverted_simt_early::packed_bytes(kConfig);
}

template <Config kConfig>
void pack(const InvertedResidualParams& /*params*/, const InvertedResidualWeights& weights, void* packed) {
  inverted_simt_early::pack(kConfig, weights, packed);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_simt_early::launch(kConfig, inverted_simt_early::early_kernel<Shape<kConfig>>, p, x, packed, y,
                                     where);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{kConfig.stride,  kConfig.rows, kConfig.columns, kConfig.c_hidden, kConfig.c_out,
                                     kConfig.threads, true};

template <Config kConfig>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name, std::string_view packing = {}) {
  return {variant,
          name,
          kTile<kConfig>,
          supports_config<kConfig>,
          packed_bytes_of<kConfig>,
          pack<kConfig>,
          launch_config<kConfig>,
          packing};
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //    blocks stride c_in hidden c_out tile  expand: channels  project: lanes, channels  threads, min_blocks
    entry<Config{2, 1,  24, 144, 24, 7,  7,  4,   8, 4,  256, 2}>(Variant::SimtEarly2S1Tile7x7C144N24, "simt_early2_s1_7x7_c144_n24"),
    entry<Config{2, 1,  24, 144, 24, 7,  7,  8,   8, 8,  256, 1}>(Variant::SimtEarly2S1Tile7x7C144N24Units8, "simt_early2_s1_7x7_c144_n24_units8", "simt_early units8"),
    entry<Config{2, 2,  24, 144, 32, 2,  7,  4,   8, 4,  256, 2}>(Variant::SimtEarly2S2Tile2x7C144N32, "simt_early2_s2_2x7_c144_n32"),
    entry<Config{4, 1,  32, 192, 32, 4,  7,  4,   8, 4,  256, 2}>(Variant::SimtEarly4S1Tile4x7C192N32, "simt_early4_s1_4x7_c192_n32"),
    entry<Config{2, 2,  32, 192, 64, 2,  2,  4,  16, 4,  256, 2}>(Variant::SimtEarly2S2Tile2x2C192N64, "simt_early2_s2_2x2_c192_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_simt_early_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_simt_early_family() {
  static constexpr InvertedResidualFamily kFamily = inverted_host::family<Config, inverted_simt_early::Kernel>(
      Variant::SpecialisedSimtEarly, "simt_early", "kernels/inverted_residual/simt_early/kernel.cuh",
      inverted_host::configuration_values<inverted_simt_early::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
