// Inverted residual blocks of few images by clusters, exact float: variants, limits, packing, launch.
// The kernel: kernel.cuh.

#include <algorithm>
#include <limits>

#include "kernels/common/launch_cluster.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/simt_cluster/host.h"
#include "kernels/inverted_residual/simt_cluster/kernel.cuh"
#include "kernels/inverted_residual/simt_pack.h"

namespace mobicuda::kernels {
namespace inverted_simt_cluster {
namespace {

using inverted_host::bias_at;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr int kPortableBlocks = limits_of(90).cluster_blocks;

std::int64_t tiles(const Config& config, const InvertedResidualParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, config.rows) * ceil_div(p.out_w, config.columns);
}

/// (rows, columns), row-major; zeros outside.
struct Matrix {
  const float* elements;
  int rows, columns;

  float at(int row, int column) const {
    return row < rows && column < columns ? elements[std::int64_t{row} * columns + column] : 0.0F;
  }
};

}  // namespace

int patch_columns(const InvertedResidualParams& p, int columns) {
  const int patch_w = (columns - 1) * p.stride + 3;
  const int tiles = ceil_div(p.out_w, columns);
  int most = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    constexpr int kAtSides = 3;  // tiles in between are alike
    if (tile == kAtSides) tile = std::max(tile, tiles - kAtSides);
    const int first = tile * columns * p.stride - p.pad_left;
    most = std::max(most, std::min(first + patch_w, p.w) - std::max(first, 0));
  }
  return most;
}

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  return gpu.code >= kOldest && config.blocks <= gpu.large_cluster_blocks && config.stride == p.stride && p.expand &&
         static_cast<std::size_t>(sizes_of(config).shared_bytes) <= gpu.shared_bytes_per_block &&
         inverted_host::channels_fit(p, config, Elem::F32) && tiles(config, p) <= kMaxInt / config.blocks &&
         patch_columns(p, config.columns) <= config.patch_columns;
}

std::size_t packed_bytes(const Config& config) {
  return static_cast<std::size_t>(sizes_of(config).packed_floats) * sizeof(float);
}

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_simt_cluster::", "cluster_kernel", config);
}

void pack(const Config& config, const InvertedResidualWeights& w, void* packed) {
  const Sizes s = sizes_of(config);
  const Matrix expand{w.expand, config.c_hidden, config.c_in};
  const Matrix taps{w.depthwise, config.c_hidden, kTaps};
  const Matrix project{w.project, config.c_out, config.c_hidden};
  const auto bias = [&](const float* from, int c) { return c < config.c_hidden ? bias_at(from, c) : 0.0F; };
  auto* to = static_cast<float*>(packed);
  for (int c = 0; c < config.c_out; ++c) *to++ = bias_at(w.project_bias, c);
  for (int first = 0; first < config.blocks * s.hidden; first += s.hidden) {
    to = pack_product(
        s.hidden, config.c_in, kLanes, config.expand_channels,
        [&](int row, int k) { return expand.at(first + row, k); },
        [&](int lane, int i) { return lane_input(kLanes, s.expand_k, lane, i); }, to);
    for (int tap = 0; tap < kTaps; ++tap) {
      for (int c = 0; c < s.hidden; ++c) *to++ = taps.at(first + c, tap);
    }
    for (int c = 0; c < s.hidden; ++c) *to++ = bias(w.depthwise_bias, first + c);
    for (int c = 0; c < s.hidden; ++c) *to++ = bias(w.expand_bias, first + c);
    to = pack_product(
        config.c_out, s.hidden, kLanes, config.project_channels,
        [&](int row, int k) { return project.at(row, first + k); },
        [&](int lane, int i) { return lane_input(kLanes, s.project_k, lane, i); }, to);
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
  const auto shared_bytes = static_cast<std::size_t>(sizes_of(config).shared_bytes);
  cudaError_t status = allow_shared_memory(kernel, shared_bytes);
  if (status == cudaSuccess && config.blocks > kPortableBlocks) status = allow_large_clusters(kernel);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(tiles(config, p) * config.blocks));
  return launch_clusters(kernel, grid, dim3(static_cast<unsigned>(config.threads)), shared_bytes,
                         static_cast<unsigned>(config.blocks), where, a, static_cast<const float*>(x),
                         static_cast<const float*>(packed), static_cast<float*>(y));
}

}  // namespace inverted_simt_cluster

namespace {

using inverted_simt_cluster::Config;
using inverted_simt_cluster::Shape;
using Variant = InvertedResidualVariant;

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_simt_cluster::supports(kConfig, p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes_of(const InvertedResidualParams& /*params*/) {
  return inverted_simt_cluster::packed_bytes(kConfig);
}

template <Config kConfig>
void pack(const InvertedResidualParams& /*params*/, const InvertedResidualWeights& weights, void* packed) {
  inverted_simt_cluster::pack(kConfig, weights, packed);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_simt_cluster::launch(kConfig, inverted_simt_cluster::cluster_kernel<Shape<kConfig>>, p, x, packed, y,
                                       where);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{kConfig.stride,  kConfig.rows, kConfig.columns, kConfig.c_hidden, kConfig.c_out,
                                     kConfig.threads, true};

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
    //    blocks stride c_in hidden c_out tile, inside threads expand project early min_blocks
    entry<Config{8, 1,  64,  384,   64, 2, 7, 8,     192,   8, 4,   8, 3,  1,  2}>(Variant::SimtCluster8K64N64, "simt_cluster8_k64_n64"),
    entry<Config{8, 1,  64,  384,   96, 2, 7, 8,     192,   8, 4,   8, 2,  1,  2}>(Variant::SimtCluster8K64N96, "simt_cluster8_k64_n96"),
    entry<Config{8, 1,  96,  576,   96, 2, 7, 8,     256,   8, 3,   8, 2,  1,  1}>(Variant::SimtCluster8K96N96, "simt_cluster8_k96_n96"),
    entry<Config{8, 2,  96,  576,  160, 1, 4, 9,     256,   8, 3,   8, 1,  1,  1}>(Variant::SimtCluster8K96N160, "simt_cluster8_k96_n160"),
    entry<Config{8, 1, 160,  960,  160, 1, 7, 7,     320,   4, 1,   4, 1,  0,  1}>(Variant::SimtCluster8K160N160, "simt_cluster8_k160_n160"),
    entry<Config{8, 1, 160,  960,  320, 1, 7, 7,     320,   4, 1,   8, 1,  0,  1}>(Variant::SimtCluster8K160N320, "simt_cluster8_k160_n320"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_simt_cluster_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_simt_cluster_family() {
  static constexpr InvertedResidualFamily kFamily = inverted_host::family<Config, inverted_simt_cluster::Kernel>(
      Variant::SpecialisedSimtCluster, "simt_cluster", "kernels/inverted_residual/simt_cluster/kernel.cuh",
      inverted_host::configuration_values<inverted_simt_cluster::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
