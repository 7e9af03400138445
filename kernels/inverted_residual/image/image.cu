// Inverted residual blocks of small images, half, channels and sizes known at compile time: variants, packing, launch.
// The kernels: kernel.cuh, down.cuh. Which configuration for which block: configurations.cpp.

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/common/spread_blocks.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"
#include "kernels/inverted_residual/image/down.cuh"
#include "kernels/inverted_residual/image/host.h"

namespace mobicuda::kernels {
namespace inverted_image {
namespace {

using inverted_host::put_float;
using inverted_host::put_half;

constexpr int kLanes = 32;

/// (rows, columns), row-major; zeros outside.
struct Matrix {
  const float* elements;
  int rows, columns;

  float at(int row, int column) const {
    return row < rows && column < columns ? elements[std::int64_t{row} * columns + column] : 0.0F;
  }
};

/// Whether h and w are the configuration's, and windows reach one pixel past the image at most.
bool extents_fit(const Config& config, const InvertedResidualParams& p) {
  if (p.stride != config.stride || p.h != config.h || p.w != config.w) return false;
  if (p.stride == 1) return p.out_h == p.h && p.out_w == p.w && p.pad_top == 1 && p.pad_left == 1;
  return p.pad_top <= 1 && p.pad_left <= 1 && p.out_h == (p.h + p.pad_top) / 2 && p.out_w == (p.w + p.pad_left) / 2;
}

/// `count` of the biases of 8 hidden channels.
void put_biases(unsigned char* to, const float* from, int first, int count) {
  for (int i = 0; i < std::min(count - first, 8); ++i) put_float(to + i * 4, from, first + i);
}

/// 16 hidden channels: (8 of them, 32 of c_in, lane, 8 neighbours), then of the last 16 of c_in, if they are half a
/// block, (lane, 8 hidden channels, 4 neighbours) | biases.
void pack_expand(const Config& config, const InvertedResidualWeights& w, int first, unsigned char* to) {
  const Matrix expand{w.expand, config.c_hidden, config.c_in};
  const int steps = sizes_of(config).in_steps;
  for (int group = 0; group < 2; ++group) {
    for (int block = 0; block < steps / 2; ++block) {
      for (int lane = 0; lane < kLanes; ++lane, to += 16) {
        for (int i = 0; i < 8; ++i) {
          put_half(to + i * 2, expand.at(first + group * 8 + lane / 4, block * 32 + lane % 4 * 8 + i));
        }
      }
    }
  }
  for (int lane = 0; steps % 2 == 1 && lane < kLanes; ++lane, to += 16) {
    for (int i = 0; i < 8; ++i) {
      put_half(to + i * 2, expand.at(first + i / 4 * 8 + lane / 4, steps / 2 * 32 + lane % 4 * 4 + i % 4));
    }
  }
  for (int group = 0; group < 2; ++group, to += kGroupBiasBytes) {
    put_biases(to, w.expand_bias, first + group * 8, config.c_hidden);
  }
}

/// Output channels are dealt to the strips so that a lane has 8 neighbours of 32, or 4 of the last 16.
int output_channel(int strips, int strip, int column) {
  const int of_lane = strip / 4 < strips / 4 ? 8 : 4;
  return strip / 4 * 32 + column / 2 * of_lane + strip % 4 * 2 + column % 2;
}

/// 16 hidden channels: (two strips of 8 output channels, lane, strip, 4 hidden channels) | of each 8 channels: taps,
/// the last taps, biases.
void pack_project(const Config& config, const InvertedResidualWeights& w, int first, unsigned char* to) {
  const Matrix project{w.project, config.c_out, config.c_hidden};
  const Matrix window{w.depthwise, config.c_hidden, 9};
  const int strips = sizes_of(config).out_strips;
  for (int pair = 0; pair < strips; pair += 2) {
    for (int lane = 0; lane < kLanes; ++lane, to += 16) {
      for (int i = 0; i < 8; ++i) {
        const int hidden = i / 2 % 2 * 8 + lane % 4 * 2 + i % 2;
        put_half(to + i * 2, project.at(output_channel(strips, pair + i / 4, lane / 4), first + hidden));
      }
    }
  }
  for (int group = 0; group < 2; ++group, to += kDepthwiseBytes) {
    const int channel = first + group * 8;
    for (int c = 0; c < 8; ++c) {
      for (int i = 0; i < 8; ++i) put_half(to + c * 16 + i * 2, window.at(channel + c, tap(i)));
      put_half(to + kTapsBytes + c * 4, window.at(channel + c, tap(8)));
    }
    put_biases(to + kTapsBytes + kLastTapBytes, w.depthwise_bias, channel, config.c_hidden);
  }
}

}  // namespace

std::int64_t blocks_of(const Config& config, int images) {
  const Sizes s = sizes_of(config);
  const std::int64_t columns = (std::int64_t{images} * s.column_tiles + s.neighbours - 1) / s.neighbours;
  return columns * s.row_tiles * config.blocks;
}

bool supports(const Config& config, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;
  constexpr int kMostBlocks = std::numeric_limits<std::int32_t>::max();
  return gpu.code >= kOldest && config.blocks <= gpu.cluster_blocks && p.expand &&
         inverted_host::channels_fit(p, config) && extents_fit(config, p) &&
         static_cast<std::size_t>(sizes_of(config).shared_bytes) <= gpu.shared_bytes_per_block &&
         inverted_host::activations_fit(p, config) && blocks_of(config, p.n) <= kMostBlocks;
}

std::size_t packed_bytes(const Config& config) { return static_cast<std::size_t>(sizes_of(config).packed_bytes); }

void pack(const Config& config, const InvertedResidualWeights& w, void* packed) {
  const Sizes s = sizes_of(config);
  const int units = config.blocks * s.chunks * s.units;
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, packed_bytes(config));
  for (int c = 0; c < config.c_out; ++c) put_float(to + c * 4, w.project_bias, c);
  to += s.packed_expand_at;
  for (int unit = 0; unit < units; ++unit, to += s.expand_unit_bytes) pack_expand(config, w, unit * kUnit, to);
  for (int unit = 0; unit < units; ++unit, to += s.project_unit_bytes) pack_project(config, w, unit * kUnit, to);
}

cudaError_t launch(const Config& config, Kernel kernel, const InvertedResidualParams& p, const void* x,
                   const void* packed, void* y, const Launch& where) {
  const Arguments a{p.residual,
                    p.pad_top,
                    p.pad_left,
                    inverted_host::hidden_bound(p),
                    __float2half2_rn(p.depthwise_activation.hi),
                    p.project_clip,
                    p.n};
  const Sizes s = sizes_of(config);
  const auto blocks = static_cast<unsigned>(blocks_of(config, p.n));
  const auto threads = static_cast<unsigned>(s.threads);
  const auto cluster = static_cast<unsigned>(config.blocks);
  auto bytes = static_cast<std::size_t>(s.shared_bytes);
  const cudaError_t status = spread_blocks(kernel, blocks, threads, cluster, bytes);
  if (status != cudaSuccess) return status;
  return launch_clusters(kernel, dim3(blocks), dim3(threads), bytes, cluster, where, a,
                         static_cast<const unsigned char*>(x), static_cast<const unsigned char*>(packed),
                         static_cast<unsigned char*>(y));
}

}  // namespace inverted_image

namespace {

using inverted_image::Config;
using inverted_image::Shape;
using inverted_image::sizes_of;
using Variant = InvertedResidualVariant;

template <Config kConfig>
bool supports_config(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  return inverted_image::supports(kConfig, p, gpu);
}

template <Config kConfig>
std::size_t packed_bytes(const InvertedResidualParams& /*params*/) {
  return inverted_image::packed_bytes(kConfig);
}

template <Config kConfig>
void pack(const InvertedResidualParams& /*params*/, const InvertedResidualWeights& weights, void* packed) {
  inverted_image::pack(kConfig, weights, packed);
}

template <class S>
constexpr inverted_image::Kernel device_kernel() {
  if constexpr (S::kConfig.stride == 1) {
    return inverted_image::image_kernel<S>;
  } else {
    return inverted_image::down_kernel<S>;
  }
}

template <Config kConfig>
cudaError_t launch_config(const InvertedResidualParams& p, const void* x, const void* packed, void* y,
                          const Launch& where) {
  return inverted_image::launch(kConfig, device_kernel<Shape<kConfig>>(), p, x, packed, y, where);
}

template <Config kConfig>
constexpr InvertedResidualTile kTile{
    kConfig.stride,
    ceil_div(kConfig.h / kConfig.stride, sizes_of(kConfig).row_tiles),
    kConfig.w / kConfig.stride,
    kConfig.chunk,
    kConfig.c_out,
    sizes_of(kConfig).threads,
    true,
};

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
    //           channels   stride blocks chunk side  warps
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
    entry<Config{64, 384,  64,    1,   4, 48, 14, 14, 3, 16, 1}>(Variant::Image4Rows6K64N64, "image4_rows6_k64_n64"),
    entry<Config{64, 384,  96,    1,   4, 48, 14, 14, 3, 16, 1}>(Variant::Image4Rows6K64N96, "image4_rows6_k64_n96"),
    entry<Config{96, 576,  96,    1,   4, 48, 14, 14, 3, 16, 1}>(Variant::Image4Rows6K96N96, "image4_rows6_k96_n96"),
    entry<Config{96, 576, 160,    2,   2, 32, 14, 14, 2, 16, 1}>(Variant::Image2Warps2K96N160, "image2_warps2_k96_n160"),
    entry<Config{24, 144,  24,    1,   1, 48, 56, 56, 8, 16, 1}>(Variant::Image1Side56K24N24, "image1_side56_k24_n24"),
    entry<Config{32, 192,  32,    1,   2, 48, 28, 28, 4, 16, 2}>(Variant::Image2Side28Rows8K32N32, "image2_side28_rows8_k32_n32"),
    entry<Config{32, 192,  32,    1,   2, 48, 28, 28, 8, 16, 1}>(Variant::Image2Side28K32N32, "image2_side28_k32_n32"),
    entry<Config{32, 192,  32,    1,   1, 64, 28, 28, 8, 16, 1}>(Variant::Image1Side28K32N32, "image1_side28_k32_n32"),
    entry<Config{32, 192,  64,    2,   1, 64, 28, 28, 8, 16, 1}>(Variant::Image1Side28K32N64, "image1_side28_k32_n64"),
};
// clang-format on

}  // namespace

std::span<const InvertedResidualEntry> inverted_residual_image_entries() { return kEntries; }

const InvertedResidualFamily& inverted_residual_image_family() {
  static constexpr InvertedResidualFamily kFamily =
      inverted_host::family<inverted_image::Config, inverted_image::Kernel>(
          InvertedResidualVariant::SpecialisedImage, "image", "kernels/inverted_residual/image/down.cuh",
          inverted_host::configuration_values<inverted_image::configurations>);
  return kFamily;
}

}  // namespace mobicuda::kernels
