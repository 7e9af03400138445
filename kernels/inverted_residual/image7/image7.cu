// Inverted residual blocks of small images in large batches, half: variants, limits, packing, launch, and what is
// expected of a configuration. The kernel: kernel.cuh. It exists as sm_90a code only: where that is built,
// CMakeLists.txt defines MOBICUDA_HAS_SM90A.

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "kernels/common/launch_cluster.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/image7/host.h"
#include "kernels/inverted_residual/image7/kernel.cuh"

namespace mobicuda::kernels {
namespace inverted_image7 {
namespace {

using inverted_host::put_float;
using inverted_host::put_half;

constexpr int kTaps = 9;

std::int64_t clusters(const Config& config, const Sizes& sizes, int n) {
  const std::int64_t images = std::int64_t{config.tiles} * sizes.images;
  return (n + images - 1) / images;
}

/// The operand of a product with `columns` columns: steps of 16 of k, of 8 columns each 8 of k, a column in 16 bytes.
/// weight(column, k) is what a matrix has there.
template <class Weight>
void pack_operand(unsigned char* to, int columns, int k_extent, const Weight& weight) {
  for (int k = 0; k < k_extent; ++k) {
    for (int column = 0; column < columns; ++column) {
      put_half(to + k / 16 * (columns * 32) + column / 8 * 256 + k % 16 / 8 * 128 + column % 8 * 16 + k % 8 * 2,
               weight(column, k));
    }
  }
}

/// The channel that is the k-th of an operand: a thread of a quad has 8 neighbours of every 32, of the rest 4, two at a
/// time in an operand.
int dealt_channel(const Deal& deal, int k) {
  const int share = k / 32 < deal.blocks ? 8 : 4;
  return k / 32 * 32 + k % 8 / 2 * share + k % 32 / 8 * 2 + k % 2;
}

/// (rows, columns), row-major; zeros outside.
struct Matrix {
  const float* elements;
  int rows, columns;

  float at(int row, int column) const {
    return row < rows && column < columns ? elements[std::int64_t{row} * columns + column] : 0.0F;
  }
};

void pack_chunk(const Config& config, const Sizes& sizes, const InvertedResidualWeights& w, int first,
                unsigned char* to) {
  // The upper and lower row of the window in pairs, then the row between.
  constexpr int kTapOrder[kTaps] = {0, 6, 1, 7, 2, 8, 3, 4, 5};
  const Matrix expand{w.expand, config.c_hidden, config.c_in};
  const Matrix project{w.project, config.c_out, config.c_hidden};
  pack_operand(to, kChunk, sizes.in.padded,
               [&](int column, int k) { return expand.at(first + column, dealt_channel(sizes.in, k)); });
  const int channels = std::min(kChunk, config.c_hidden - first);
  for (int c = 0; c < channels; ++c) {
    const float* const taps = w.depthwise + std::ptrdiff_t{first + c} * kTaps;
    for (int i = 0; i < kTaps - 1; ++i) put_half(to + sizes.taps + c * 16 + i * 2, taps[kTapOrder[i]]);
    put_half(to + sizes.last_tap + c * 4, taps[kTapOrder[kTaps - 1]]);
    put_float(to + sizes.expand_bias + c * 4, w.expand_bias, first + c);
    put_float(to + sizes.depthwise_bias + c * 4, w.depthwise_bias, first + c);
  }
  to += sizes.project;
  for (int cut = 0; cut < config.cuts; ++cut) {
    for (int product = 0; product < sizes.products; ++product, to += sizes.product_bytes) {
      pack_operand(to, sizes.product_columns, kChunk, [&](int column, int k) {
        const int channel = dealt_channel(sizes.out, product * sizes.product_columns + column);
        return channel < sizes.cut_out ? project.at(cut * sizes.cut_out + channel, first + k) : 0.0F;
      });
    }
  }
}

}  // namespace

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return gpu.wgmma_code && config.blocks <= gpu.cluster_blocks && p.expand && p.stride == 1 &&
         inverted_host::channels_fit(p, config) && p.h <= config.side && p.w <= config.side && p.out_h == p.h &&
         p.out_w == p.w && p.pad_top == 1 && p.pad_left == 1 && inverted_host::activations_fit(p, config) &&
         clusters(config, sizes_of(config), p.n) <= std::numeric_limits<std::int32_t>::max() / config.blocks;
}

std::size_t packed_bytes(const Config& config) {
  const Sizes s = sizes_of(config);
  return static_cast<std::size_t>(config.cuts * s.bias_bytes) +
         static_cast<std::size_t>(s.chunks) * static_cast<std::size_t>(s.chunk_bytes);
}

/// Project's biases | chunks.
void pack(const Config& config, const InvertedResidualWeights& w, void* packed) {
  const Sizes s = sizes_of(config);
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, packed_bytes(config));
  for (int c = 0; c < config.c_out; ++c) {
    put_float(to + c / s.cut_out * s.bias_bytes + c % s.cut_out * 4, w.project_bias, c);
  }
  to += config.cuts * s.bias_bytes;
  for (int chunk = 0; chunk < s.chunks; ++chunk, to += s.chunk_bytes) pack_chunk(config, s, w, chunk * kChunk, to);
}

cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& p, const void* x,
                   const void* packed, void* y, const Launch& where) {
  const Sizes s = sizes_of(config);
  const Arguments a{
      p.n,           p.h, p.w, p.residual, inverted_host::hidden_bound(p), __float2half2_rn(p.depthwise_activation.hi),
      p.project_clip};
  const auto shared_bytes = static_cast<std::size_t>(s.shared_bytes);
  const cudaError_t status = allow_shared_memory(kernel, shared_bytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(clusters(config, s, p.n) * config.blocks), static_cast<unsigned>(config.cuts));
  return launch_clusters(kernel, grid, dim3(static_cast<unsigned>(s.threads)), shared_bytes,
                         static_cast<unsigned>(config.blocks), where, a, static_cast<const unsigned char*>(x),
                         static_cast<const unsigned char*>(packed), static_cast<unsigned char*>(y));
}

std::string kernel_expression(const Config& config) {
  return inverted_host::expression("mobicuda::kernels::inverted_image7::", "image7_kernel", config);
}

namespace {

// The model of README.md, in us: fitted to the times measured there.
constexpr double kLaunch = 2.4;
constexpr double kChunkTime = 0.28;          // depthwise, stores, barriers
constexpr double kStepTime = 0.0103;         // 16 input channels of expand
constexpr double kColumnTime = 0.00106;      // an output channel of project
constexpr double kNeighbourShare = 0.5;      // of a chunk's time, for each warpgroup beside on the SM
constexpr double kExchangeTime = 1.1 / 160;  // an output channel whose sums a warpgroup sends
// Percent of the SMs that clusters of 1 to 8 blocks find.
constexpr int kReachedPercent[] = {100, 97, 86, 85, 80, 75, 74, 73};
constexpr int kBesideSumsAndPixels = 127;  // registers

int blocks_of_multiprocessor(const Sizes& s, const DeviceTraits& gpu) {
  constexpr int kRegisters = 65536;
  const int pixels = s.shared_pixels ? 0 : s.in.padded / 4;
  const int registers = std::min(registers_of(s.threads), s.sums + pixels + kBesideSumsAndPixels);
  const std::size_t by_memory =
      gpu.shared_bytes_per_multiprocessor / (static_cast<std::size_t>(s.shared_bytes) + gpu.reserved_shared_bytes);
  return std::max(1, std::min(static_cast<int>(by_memory), kRegisters / (registers * s.threads)));
}

double expected_time(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kPercent = 100;
  const Sizes s = sizes_of(config);
  const std::int64_t all = clusters(config, s, p.n) * config.cuts;
  const std::int64_t at_once =
      std::max(1, gpu.multiprocessors * kReachedPercent[config.blocks - 1] / (kPercent * config.blocks));
  const std::int64_t layers = (all + at_once - 1) / at_once;  // of clusters, each as many as SMs hold one block of
  const std::int64_t beside = std::min<std::int64_t>(layers, blocks_of_multiprocessor(s, gpu));
  const std::int64_t rounds = (layers + beside - 1) / beside;
  const int warpgroups = s.threads / kWarpgroup;
  const int columns = s.products * s.product_columns;
  const int steps = s.in.padded / 16;  // of the product's depth
  const double chunk = (kChunkTime + steps * kStepTime + columns * kColumnTime) *
                       (1 + kNeighbourShare * static_cast<double>(warpgroups * beside - 1));
  const double exchange = s.senders > 1 ? warpgroups * columns * kExchangeTime : 0;
  return static_cast<double>(rounds) * (kLaunch + ceil_div(s.chunks, s.senders) * chunk + exchange);
}

/// Of so many warpgroups and blocks, with the most stages that find room; not valid where there is none.
Config with_stages(Config config) {
  constexpr int kMost = 6;
  constexpr int kLeast = 3;
  for (config.stages = kMost; config.stages > kLeast && !is_valid(config);) --config.stages;
  return config;
}

}  // namespace

std::vector<Config> configurations(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr std::size_t kMost = 6;
  constexpr int kMostWarpgroups = 4;
  constexpr int kMostParts = 2;
  constexpr int kMostCuts = 4;
  std::vector<std::pair<double, Config>> found;
  for (int cuts = 1; cuts <= kMostCuts; ++cuts) {
    for (int blocks = 1; blocks <= gpu.cluster_blocks; ++blocks) {
      for (int parts = 1; parts <= kMostParts; ++parts) {
        for (int tiles = 1; tiles <= kMostWarpgroups; ++tiles) {
          const Config config =
              with_stages({std::max(p.h, p.w), p.c_in, p.c_hidden, p.c_out, tiles, parts, blocks, 0, cuts});
          if (!is_valid(config) || !supports(config, p, gpu)) continue;
          found.emplace_back(expected_time(config, p, gpu), config);
        }
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Config> best;
  for (std::size_t i = 0; i < std::min(kMost, found.size()); ++i) best.push_back(found[i].second);
  return best;
}

}  // namespace inverted_image7

namespace {

using inverted_image7::Config;
using inverted_image7::Shape;
using Variant = InvertedResidualVariant;

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_image7::supports(kConfig, p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams& /*params*/) {
  return inverted_image7::packed_bytes(kConfig);
}

template <Config kConfig>
void pack(const InvertedResidualParams& /*params*/, const InvertedResidualWeights& weights, void* packed) {
  inverted_image7::pack(kConfig, weights, packed);
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_image7::launch(kConfig, inverted_image7::image7_kernel<Shape<kConfig>>, p, x, packed, y, where);
}

template <Config kConfig>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  constexpr InvertedResidualTile kTile{
      1, kConfig.side, kConfig.side, inverted_image7::kChunk, kConfig.c_out, Shape<kConfig>::kThreads, true};
  return {variant, name, kTile, supports_config<kConfig>, packed_bytes<kConfig>, pack<kConfig>, launch_config<kConfig>};
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //           side  channels        tiles parts blocks stages
    entry<Config{   7, 160, 960, 160,    1,       1,    8,     4}>(Variant::Image7P1Cluster8N160, "image7_p1_cluster8_n160"),
    entry<Config{   7, 160, 960, 160,    1,       1,    6,     5}>(Variant::Image7P1Cluster6N160, "image7_p1_cluster6_n160"),
    entry<Config{   7, 160, 960, 160,    1,       1,    4,     6}>(Variant::Image7P1Cluster4N160, "image7_p1_cluster4_n160"),
    entry<Config{   7, 160, 960, 160,    1,       2,    3,     3}>(Variant::Image7P1HalvesCluster3N160, "image7_p1_halves_cluster3_n160"),
    entry<Config{   7, 160, 960, 160,    1,       2,    2,     3}>(Variant::Image7P1HalvesCluster2N160, "image7_p1_halves_cluster2_n160"),
    entry<Config{   7, 160, 960, 160,    2,       1,    2,     5}>(Variant::Image7P2Cluster2N160, "image7_p2_cluster2_n160"),
    entry<Config{   7, 160, 960, 160,    2,       1,    1,     6}>(Variant::Image7P2Cluster1N160, "image7_p2_cluster1_n160"),
    entry<Config{   7, 160, 960, 320,    1,       1,    8,     4}>(Variant::Image7P1Cluster8N320, "image7_p1_cluster8_n320"),
    entry<Config{   7, 160, 960, 320,    1,       1,    5,     3}>(Variant::Image7P1Cluster5N320, "image7_p1_cluster5_n320"),
    entry<Config{   7, 160, 960, 320,    1,       1,    4,     4}>(Variant::Image7P1Cluster4N320, "image7_p1_cluster4_n320"),
    entry<Config{   7, 160, 960, 320,    1,       1,    3,     3}>(Variant::Image7P1Cluster3N320, "image7_p1_cluster3_n320"),
    entry<Config{   7, 160, 960, 320,    1,       1,    2,     3}>(Variant::Image7P1Cluster2N320, "image7_p1_cluster2_n320"),
    entry<Config{   7, 160, 960, 320,    1,       1,    1,     4}>(Variant::Image7P1Cluster1N320, "image7_p1_cluster1_n320"),
    entry<Config{   7, 160, 960, 320,    2,       1,    1,     3}>(Variant::Image7P2Cluster1N320, "image7_p2_cluster1_n320"),
    entry<Config{   7, 160, 960, 320,    1,       1,    6,     6,  2}>(Variant::Image7P1Cluster6Cut2N320, "image7_p1_cluster6_cut2_n320"),
    entry<Config{   7, 160, 960, 320,    1,       2,    2,     3,  2}>(Variant::Image7P1HalvesCluster2Cut2N320, "image7_p1_halves_cluster2_cut2_n320"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_image7_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_image7_family() {
  static constexpr InvertedResidualFamily kFamily =
      inverted_host::family<inverted_image7::Config, inverted_image7::Kernel>(
          InvertedResidualVariant::SpecialisedImage7, "image7", "kernels/inverted_residual/image7/kernel.cuh",
          inverted_host::configuration_values<inverted_image7::configurations>, true);
  return kFamily;
}

}  // namespace mobicuda::kernels
