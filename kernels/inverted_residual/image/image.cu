// Inverted residual blocks of 14x14 images, half, channels known at compile time: variants, packing, launch.
// The kernel: kernel.cuh.

#include <cstring>
#include <limits>

#include "kernels/common/spread_blocks.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/image/down.cuh"

namespace mobicuda::kernels {
namespace {

using inverted_host::put_half;
using inverted_image::Arguments;
using inverted_image::Config;
using inverted_image::kBands;
using inverted_image::kSize;
using inverted_image::kThreads;
using inverted_image::kUnit;
using inverted_image::Shape;
using Variant = InvertedResidualVariant;

constexpr int kLanes = 32;

/// Of a block with stride 1 or 2.
bool is_whole_picture(const InvertedResidualParams& p) {
  if (p.h != kSize || p.w != kSize || p.out_h != kSize / p.stride || p.out_w != kSize / p.stride) return false;
  return p.stride == 1 ? p.pad_top == 1 && p.pad_left == 1 : p.pad_top <= 1 && p.pad_left <= 1;
}

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  constexpr int kMostBlocks = std::numeric_limits<std::int32_t>::max();
  return gpu.code >= kOldest && kConfig.blocks <= gpu.cluster_blocks && inverted_host::channels_fit(p, kConfig) &&
         is_whole_picture(p) && Shape<kConfig>::kSharedBytes <= gpu.shared_bytes_per_block &&
         inverted_host::clips_fit(p) && p.n <= kMostBlocks / (kBands * kConfig.blocks);
}

template <class S>
auto device_kernel() {
  if constexpr (S::kConfig.stride == 1) {
    return inverted_image::image_kernel<S>;
  } else {
    return inverted_image::down_kernel<S>;
  }
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  using S = Shape<kConfig>;
  constexpr unsigned kBlocks = kConfig.blocks;
  const Arguments a{
      p.residual,    p.pad_top, p.pad_left, __float2half2_rn(p.expand_clip.hi), __float2half2_rn(p.depthwise_clip.hi),
      p.project_clip};
  const auto kernel = device_kernel<S>();
  const unsigned blocks = static_cast<unsigned>(p.n * kBands) * kBlocks;
  std::size_t bytes = S::kSharedBytes;
  const cudaError_t status = spread_blocks(kernel, blocks, kThreads, kBlocks, bytes);
  if (status != cudaSuccess) return status;
  return launch_clusters(kernel, dim3(blocks), dim3(kThreads), bytes, kBlocks, where, a,
                         static_cast<const unsigned char*>(x), static_cast<const unsigned char*>(packed),
                         static_cast<unsigned char*>(y));
}

void put_biases(unsigned char* to, const float* from, int first) {
  if (from != nullptr) std::memcpy(to, from + first, inverted_image::kGroupBiasBytes);
}

/// (8 channels, 32 of c_in, lane, 8 neighbours) | biases.
void pack_expand(const InvertedResidualParams& p, const InvertedResidualWeights& w, int first, unsigned char* to) {
  for (int group = 0; group < 2; ++group) {
    for (int block = 0; block < p.c_in / 32; ++block) {
      for (int lane = 0; lane < kLanes; ++lane, to += 16) {
        const float* const from = w.expand + (first + group * 8 + lane / 4) * p.c_in + block * 32 + lane % 4 * 8;
        for (int i = 0; i < 8; ++i) put_half(to + i * 2, from[i]);
      }
    }
  }
  for (int group = 0; group < 2; ++group, to += inverted_image::kGroupBiasBytes) {
    put_biases(to, w.expand_bias, first + group * 8);
  }
}

/// Output channels are dealt to the strips so that a lane has 8 neighbours of 32.
int output_channel(int strip, int column) { return strip / 4 * 32 + column / 2 * 8 + strip % 4 * 2 + column % 2; }

/// (two strips of 8 output channels, lane, strip, 4 hidden channels) | of each 8 channels: taps, the last taps, biases.
void pack_project(const InvertedResidualParams& p, const InvertedResidualWeights& w, int first, unsigned char* to) {
  for (int strips = 0; strips < p.c_out / 8; strips += 2) {
    for (int lane = 0; lane < kLanes; ++lane, to += 16) {
      for (int i = 0; i < 8; ++i) {
        const int hidden = i / 2 % 2 * 8 + lane % 4 * 2 + i % 2;
        put_half(to + i * 2, w.project[output_channel(strips + i / 4, lane / 4) * p.c_hidden + first + hidden]);
      }
    }
  }
  for (int group = 0; group < 2; ++group, to += inverted_image::kDepthwiseBytes) {
    for (int c = 0; c < 8; ++c) {
      const float* const from = w.depthwise + (first + group * 8 + c) * 9;
      for (int i = 0; i < 8; ++i) put_half(to + c * 16 + i * 2, from[inverted_image::tap(i)]);
      put_half(to + inverted_image::kTapsBytes + c * 4, from[inverted_image::tap(8)]);
    }
    put_biases(to + inverted_image::kTapsBytes + inverted_image::kLastTapBytes, w.depthwise_bias, first + group * 8);
  }
}

template <Config kConfig>
void pack(const InvertedResidualParams& p, const InvertedResidualWeights& w, void* packed) {
  using S = Shape<kConfig>;
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, S::kPackedBytes);
  if (w.project_bias != nullptr) std::memcpy(to, w.project_bias, static_cast<std::size_t>(p.c_out) * sizeof(float));
  to += p.c_out * 4;
  for (int unit = 0; unit < p.c_hidden; unit += kUnit, to += S::kExpandUnitBytes) pack_expand(p, w, unit, to);
  for (int unit = 0; unit < p.c_hidden; unit += kUnit, to += S::kProjectUnitBytes) pack_project(p, w, unit, to);
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams& /*params*/) {
  return Shape<kConfig>::kPackedBytes;
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{kConfig.stride,
                                     ceil_div(kSize / kConfig.stride, kBands),
                                     kSize / kConfig.stride,
                                     kConfig.chunk,
                                     kConfig.c_out,
                                     kThreads,
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
    //           channels   stride blocks chunk
    entry<Config{64, 384,  64,    1,   1, 64}>(Variant::Image1K64N64, "image1_k64_n64"),
    entry<Config{64, 384,  64,    1,   2, 64}>(Variant::Image2K64N64, "image2_k64_n64"),
    entry<Config{64, 384,  64,    1,   4, 48}>(Variant::Image4K64N64, "image4_k64_n64"),
    entry<Config{64, 384,  64,    1,   8, 48}>(Variant::Image8K64N64, "image8_k64_n64"),
    entry<Config{64, 384,  96,    1,   1, 64}>(Variant::Image1K64N96, "image1_k64_n96"),
    entry<Config{64, 384,  96,    1,   2, 48}>(Variant::Image2K64N96, "image2_k64_n96"),
    entry<Config{64, 384,  96,    1,   4, 48}>(Variant::Image4K64N96, "image4_k64_n96"),
    entry<Config{64, 384,  96,    1,   8, 48}>(Variant::Image8K64N96, "image8_k64_n96"),
    entry<Config{96, 576,  96,    1,   1, 48}>(Variant::Image1K96N96, "image1_k96_n96"),
    entry<Config{96, 576,  96,    1,   2, 48}>(Variant::Image2K96N96, "image2_k96_n96"),
    entry<Config{96, 576,  96,    1,   4, 48}>(Variant::Image4K96N96, "image4_k96_n96"),
    entry<Config{96, 576, 160,    2,   1, 32}>(Variant::Image1K96N160, "image1_k96_n160"),
    entry<Config{96, 576, 160,    2,   2, 32}>(Variant::Image2K96N160, "image2_k96_n160"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_image_entries() { return kEntries; }

}  // namespace mobicuda::kernels
