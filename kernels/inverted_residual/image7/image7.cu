// Inverted residual blocks of images of at most 7x7 pixels in large batches, half: variants, limits, packing, launch.
// The kernel: kernel.cuh. It exists as sm_90a code only: where that is built, CMakeLists.txt
// defines MOBICUDA_HAS_SM90A.

#include <cstring>
#include <limits>

#include "kernels/common/launch_cluster.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/image7/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using inverted_host::put_float;
using inverted_host::put_half;
using inverted_image7::Arguments;
using inverted_image7::ChunkLayout;
using inverted_image7::Config;
using inverted_image7::image7_kernel;
using inverted_image7::kChunk;
using inverted_image7::kColumns;
using inverted_image7::kSide;
using inverted_image7::Shape;
using Variant = InvertedResidualVariant;

constexpr int kTaps = 9;

template <Config kConfig>
std::int64_t blocks(const InvertedResidualParams& p) {
  const std::int64_t pictures = kConfig.pictures;
  return (std::int64_t{p.n} + pictures - 1) / pictures * kConfig.blocks;
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return gpu.wgmma_code && inverted_host::channels_fit(p, kConfig) && p.h <= kSide && p.w <= kSide && p.out_h == p.h &&
         p.out_w == p.w && p.pad_top == 1 && p.pad_left == 1 && inverted_host::clips_fit(p) &&
         blocks<kConfig>(p) <= std::numeric_limits<std::int32_t>::max();
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  using S = Shape<kConfig>;
  const Arguments a{
      p.n,           p.h, p.w, p.residual, __float2half2_rn(p.expand_clip.hi), __float2half2_rn(p.depthwise_clip.hi),
      p.project_clip};
  const auto kernel = image7_kernel<S>;
  const cudaError_t status = allow_shared_memory(kernel, S::kSharedBytes);
  if (status != cudaSuccess) return status;
  return launch_clusters(kernel, dim3(static_cast<unsigned>(blocks<kConfig>(p))), dim3(S::kThreads), S::kSharedBytes,
                         kConfig.blocks, where, a, static_cast<const unsigned char*>(x),
                         static_cast<const unsigned char*>(packed), static_cast<unsigned char*>(y));
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

/// A thread of a quad has 8 neighbouring channels of every 32 of a pixel, two at a time in an operand.
int input_channel(int k) { return k / 32 * 32 + k % 8 / 2 * 8 + k % 32 / 8 * 2 + k % 2; }

void pack_chunk(const InvertedResidualParams& p, const InvertedResidualWeights& w, const ChunkLayout& layout, int first,
                unsigned char* to) {
  // The upper and lower row of the window in pairs, then the row between.
  constexpr int kTapOrder[kTaps] = {0, 6, 1, 7, 2, 8, 3, 4, 5};
  pack_operand(to, kChunk, p.c_in,
               [&](int column, int k) { return w.expand[(first + column) * p.c_in + input_channel(k)]; });
  for (int c = 0; c < kChunk; ++c) {
    const float* const taps = w.depthwise + (first + c) * kTaps;
    for (int i = 0; i < kTaps - 1; ++i) put_half(to + layout.taps + c * 16 + i * 2, taps[kTapOrder[i]]);
    put_half(to + layout.last_tap + c * 4, taps[kTapOrder[kTaps - 1]]);
    put_float(to + layout.expand_bias + c * 4, w.expand_bias, first + c);
    put_float(to + layout.depthwise_bias + c * 4, w.depthwise_bias, first + c);
  }
  for (int channel = 0; channel < p.c_out; channel += kColumns) {
    pack_operand(
        to + layout.project + channel / kColumns * layout.product_bytes, kColumns, kChunk,
        [&](int column, int k) { return w.project[(channel + input_channel(column)) * p.c_hidden + first + k]; });
  }
}

std::size_t packed_bytes(const InvertedResidualParams& p) {
  return static_cast<std::size_t>(p.c_out) * sizeof(float) +
         static_cast<std::size_t>(p.c_hidden / kChunk) *
             static_cast<std::size_t>(inverted_image7::chunk_layout(p.c_in, p.c_out).bytes);
}

/// Project's biases | chunks.
void pack(const InvertedResidualParams& p, const InvertedResidualWeights& w, void* packed) {
  const ChunkLayout layout = inverted_image7::chunk_layout(p.c_in, p.c_out);
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, packed_bytes(p));
  for (int c = 0; c < p.c_out; ++c, to += 4) put_float(to, w.project_bias, c);
  for (int first = 0; first < p.c_hidden; first += kChunk, to += layout.bytes) pack_chunk(p, w, layout, first, to);
}

template <Config kConfig>
constexpr InvertedResidualEntry entry(Variant variant, std::string_view name) {
  constexpr InvertedResidualTile kTile{1, kSide, kSide, kChunk, kConfig.c_out, Shape<kConfig>::kThreads, true};
  return {variant, name, kTile, supports_config<kConfig>, packed_bytes, pack, launch_config<kConfig>};
}

// clang-format off
constexpr InvertedResidualEntry kEntries[] = {
    //           channels       images parts blocks stages
    entry<Config{160, 960, 160,    1,       1,    8,     4}>(Variant::Image7P1Cluster8N160, "image7_p1_cluster8_n160"),
    entry<Config{160, 960, 160,    1,       1,    6,     5}>(Variant::Image7P1Cluster6N160, "image7_p1_cluster6_n160"),
    entry<Config{160, 960, 160,    1,       1,    4,     6}>(Variant::Image7P1Cluster4N160, "image7_p1_cluster4_n160"),
    entry<Config{160, 960, 160,    1,       2,    3,     3}>(Variant::Image7P1HalvesCluster3N160, "image7_p1_halves_cluster3_n160"),
    entry<Config{160, 960, 160,    1,       2,    2,     3}>(Variant::Image7P1HalvesCluster2N160, "image7_p1_halves_cluster2_n160"),
    entry<Config{160, 960, 160,    2,       1,    2,     5}>(Variant::Image7P2Cluster2N160, "image7_p2_cluster2_n160"),
    entry<Config{160, 960, 160,    2,       1,    1,     6}>(Variant::Image7P2Cluster1N160, "image7_p2_cluster1_n160"),
    entry<Config{160, 960, 320,    1,       1,    8,     4}>(Variant::Image7P1Cluster8N320, "image7_p1_cluster8_n320"),
    entry<Config{160, 960, 320,    1,       1,    5,     3}>(Variant::Image7P1Cluster5N320, "image7_p1_cluster5_n320"),
    entry<Config{160, 960, 320,    1,       1,    4,     4}>(Variant::Image7P1Cluster4N320, "image7_p1_cluster4_n320"),
    entry<Config{160, 960, 320,    1,       1,    3,     3}>(Variant::Image7P1Cluster3N320, "image7_p1_cluster3_n320"),
    entry<Config{160, 960, 320,    1,       1,    2,     3}>(Variant::Image7P1Cluster2N320, "image7_p1_cluster2_n320"),
    entry<Config{160, 960, 320,    1,       1,    1,     4}>(Variant::Image7P1Cluster1N320, "image7_p1_cluster1_n320"),
    entry<Config{160, 960, 320,    2,       1,    1,     3}>(Variant::Image7P2Cluster1N320, "image7_p2_cluster1_n320"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_image7_entries() { return kEntries; }

}  // namespace mobicuda::kernels
