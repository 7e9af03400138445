// Depthwise convolution of bytes, NHWC: variants, limits, packing, launch.
// Direct: direct.cuh. Strips: strip.cuh.
// No shared memory. Items (threads) of a launch stay below 2^31; a larger batch takes several launches.

#include "kernels/int8_depthwise_conv/int8_depthwise_conv.h"

#include <algorithm>

#include "kernels/common/conv_chunks.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/int8_depthwise_conv/direct.cuh"
#include "kernels/int8_depthwise_conv/strip.cuh"

namespace mobicuda::kernels {
namespace {

using int8_depthwise::Arguments;
using int8_depthwise::kWord;
using int8_depthwise::Strip;
using Params = Int8DepthwiseConvParams;
using Variant = Int8DepthwiseConvVariant;

constexpr int kOldest = 75;
constexpr int kLargestExtent = 1 << 30;
// A GPU of this generation has about as many multiprocessors: below it, smaller blocks reach more of them.
constexpr std::int64_t kFewBlocks = 132;

int x_pitch_of(const Params& p) { return p.x_pitch == 0 ? round_up(p.c, kChannelStep) : p.x_pitch; }
int y_pitch_of(const Params& p) { return p.y_pitch == 0 ? round_up(p.c, kChannelStep) : p.y_pitch; }

bool has_extents(const Params& p) {
  const bool positive = p.h > 0 && p.w > 0 && p.c > 0 && p.out_h > 0 && p.out_w > 0 && p.kernel_h > 0 &&
                        p.kernel_w > 0 && p.stride_h > 0 && p.stride_w > 0 && p.dilation_h > 0 && p.dilation_w > 0;
  if (!positive || p.n < 0 || p.pad_top < 0 || p.pad_left < 0 || p.x_pitch < 0 || p.y_pitch < 0) return false;
  constexpr std::int64_t kMost = kLargestExtent;
  const std::int64_t bottom = std::int64_t{p.out_h} * p.stride_h + std::int64_t{p.kernel_h} * p.dilation_h;
  const std::int64_t right = std::int64_t{p.out_w} * p.stride_w + std::int64_t{p.kernel_w} * p.dilation_w;
  if (std::max({bottom, right, std::int64_t{p.pad_top}, std::int64_t{p.pad_left}}) > kMost) return false;
  if (std::max({p.c, p.x_pitch, p.y_pitch, p.h, p.w}) > kLargestExtent / kChannelStep) return false;
  return std::int64_t{p.out_h} * p.out_w <= kMaxItems / round_up(p.c, kChannelStep);
}

bool has_pitch(int pitch, int channels) { return pitch % kChannelStep == 0 && pitch >= channels; }

Arguments arguments(const Params& p) {
  Arguments a{};
  a.h = p.h;
  a.w_extent = p.w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.channels = round_up(p.c, kChannelStep);
  a.x_pitch = x_pitch_of(p);
  a.y_pitch = y_pitch_of(p);
  a.kernel_h = p.kernel_h;
  a.kernel_w = p.kernel_w;
  a.stride_h = p.stride_h;
  a.stride_w = p.stride_w;
  a.dilation_h = p.dilation_h;
  a.dilation_w = p.dilation_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.x_zero = four_bytes(p.x_zero);
  a.result = requantize_to(p.result);
  return a;
}

struct Buffers {
  const std::int8_t* x;
  const Int8DepthwiseConvWeights& weights;
  std::int8_t* y;
};

template <class Kernel>
cudaError_t launch_kernel(Kernel* kernel, int threads, const Params& p, Int8DepthwiseConvTile t, const Buffers& buffers,
                          const Launch& where) {
  Arguments a = arguments(p);
  a.w = static_cast<const std::uint32_t*>(buffers.weights.packed);
  a.bias = buffers.weights.bias;
  a.multiplier = buffers.weights.multiplier;
  const std::int64_t x_image = std::int64_t{p.h} * p.w * a.x_pitch;
  const std::int64_t y_image = std::int64_t{p.out_h} * p.out_w * a.y_pitch;
  const auto launch_chunk = [&](const ItemGrid& items, std::int64_t first) {
    a.grid = items;
    a.x = buffers.x + first * x_image;
    a.y = buffers.y + first * y_image;
    const bool few = items.items <= kFewBlocks * threads;
    const auto block = static_cast<unsigned>(few ? threads / 2 : threads);
    return launch(kernel, dim3((items.items + block - 1) / block), dim3(block), 0, where, a);
  };
  return for_each_chunk(p.n, ceil_div(p.out_h, t.rows), ceil_div(p.out_w, t.columns), a.channels / kWord, launch_chunk);
}

cudaError_t launch_direct(const Params& p, const Buffers& buffers, const Launch& where) {
  return launch_kernel(int8_depthwise::direct_kernel<kMaxItemThreads>, kMaxItemThreads, p, {}, buffers, where);
}

template <class S>
cudaError_t launch_strip(const Params& p, const Buffers& buffers, const Launch& where) {
  const auto kernel = p.stride_h == 1 ? int8_depthwise::strip_kernel<S, 1> : int8_depthwise::strip_kernel<S, 2>;
  return launch_kernel(kernel, int8_depthwise::kStripThreads, p, {S::kRows, S::kColumns}, buffers, where);
}

struct Entry {
  Variant variant;
  std::string_view name;
  int window;  ///< height and width, 0 where any will do
  Int8DepthwiseConvTile tile;
  cudaError_t (*launch)(const Params& p, const Buffers& buffers, const Launch& where);
};

template <class S>
constexpr Entry strip(Variant variant, std::string_view name) {
  return {variant, name, S::kWindow, {S::kRows, S::kColumns}, launch_strip<S>};
}

constexpr Entry kEntries[] = {
    {Variant::Direct, "direct", 0, {}, launch_direct},
    //    window, rows, columns, blocks
    strip<Strip<3, 1, 2, 6>>(Variant::Strip1x2, "strip3x3_1x2"),
    strip<Strip<3, 2, 2, 6>>(Variant::Strip2x2, "strip3x3_2x2"),
    strip<Strip<3, 4, 2, 4>>(Variant::Strip4x2, "strip3x3_4x2"),
    strip<Strip<3, 7, 2, 5>>(Variant::Strip7x2, "strip3x3_7x2"),
    strip<Strip<5, 1, 2, 4>>(Variant::Window5Strip1x2, "strip5x5_1x2"),
    strip<Strip<5, 2, 2, 3>>(Variant::Window5Strip2x2, "strip5x5_2x2"),
    strip<Strip<5, 4, 2, 3>>(Variant::Window5Strip4x2, "strip5x5_4x2"),
};

constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

const Entry& entry_of(Variant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

}  // namespace

std::span<const Int8DepthwiseConvVariant> int8_depthwise_conv_variants() { return kVariants; }

std::string_view name(Int8DepthwiseConvVariant variant) { return entry_of(variant).name; }

Int8DepthwiseConvTile tile(Int8DepthwiseConvVariant variant) { return entry_of(variant).tile; }

bool supports(Int8DepthwiseConvVariant variant, const Int8DepthwiseConvParams& p, const DeviceTraits& gpu) {
  if (static_cast<std::size_t>(variant) >= kVariants.size() || gpu.code < kOldest) return false;
  if (!has_extents(p) || !has_pitch(x_pitch_of(p), p.c) || !has_pitch(y_pitch_of(p), p.c)) return false;
  if (!is_byte(p.x_zero) || !is_valid(p.result)) return false;
  const int window = entry_of(variant).window;
  return window == 0 || (p.kernel_h == window && p.kernel_w == window && p.dilation_h == 1 && p.dilation_w == 1 &&
                         p.stride_h == p.stride_w && p.stride_h <= 2);
}

std::size_t int8_depthwise_conv_packed_channels(const Int8DepthwiseConvParams& p) {
  return static_cast<std::size_t>(round_up(p.c, kChannelStep));
}

std::size_t int8_depthwise_conv_packed_bytes(const Int8DepthwiseConvParams& p) {
  return int8_depthwise_conv_packed_channels(p) * static_cast<std::size_t>(p.kernel_h) *
         static_cast<std::size_t>(round_up(p.kernel_w, 4));
}

void int8_depthwise_conv_pack(const Int8DepthwiseConvParams& p, const std::int8_t* weight, const std::int32_t* bias,
                              const float* multiplier, std::int8_t* packed, std::int32_t* packed_bias,
                              float* packed_multiplier) {
  const std::size_t channels = int8_depthwise_conv_packed_channels(p);
  const auto rows = static_cast<std::size_t>(p.kernel_h);
  const auto columns = static_cast<std::size_t>(p.kernel_w);
  const std::size_t words = (columns + 3) / 4;
  std::fill_n(packed, int8_depthwise_conv_packed_bytes(p), std::int8_t{0});
  std::fill_n(packed_bias, channels, 0);
  std::fill_n(packed_multiplier, channels, 0.0F);
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(p.c); ++channel) {
    std::uint32_t weights = 0;  // their sum, modulo 2^32
    for (std::size_t ky = 0; ky < rows; ++ky) {
      for (std::size_t kx = 0; kx < columns; ++kx) {
        const std::int8_t value = weight[(channel * rows + ky) * columns + kx];
        packed[((ky * words + kx / 4) * channels + channel) * 4 + kx % 4] = value;
        weights += static_cast<std::uint32_t>(value);
      }
    }
    const std::uint32_t offset = bias == nullptr ? 0 : static_cast<std::uint32_t>(bias[channel]);
    packed_bias[channel] = static_cast<std::int32_t>(offset - static_cast<std::uint32_t>(p.x_zero) * weights);
    packed_multiplier[channel] = multiplier[channel];
  }
}

cudaError_t int8_depthwise_conv(Int8DepthwiseConvVariant variant, const Int8DepthwiseConvParams& params, const void* x,
                                const Int8DepthwiseConvWeights& weights, void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  const Buffers buffers{static_cast<const std::int8_t*>(x), weights, static_cast<std::int8_t*>(y)};
  return entry_of(variant).launch(params, buffers, where);
}

// The kernel's table.
namespace {

OperandBytes operands(Int8DepthwiseConvVariant, const Params& p) {
  OperandBytes bytes;
  const auto channels = table::as_bytes(int8_depthwise_conv_packed_channels(p));
  bytes.x = table::bytes(sizeof(std::int8_t), p.n, p.h, p.w, x_pitch_of(p));
  bytes.weights[0] = table::as_bytes(int8_depthwise_conv_packed_bytes(p));
  bytes.weights[1] = table::bytes(sizeof(std::int32_t), channels);
  bytes.weights[2] = table::bytes(sizeof(float), channels);
  bytes.y = table::bytes(sizeof(std::int8_t), p.n, p.out_h, p.out_w, y_pitch_of(p));
  return bytes;
}

cudaError_t launch_on(Int8DepthwiseConvVariant variant, const Params& p, const Operands& at, const Launch& where) {
  const Int8DepthwiseConvWeights weights{at.weights[0], static_cast<const std::int32_t*>(at.weights[1]),
                                         static_cast<const float*>(at.weights[2])};
  return int8_depthwise_conv(variant, p, at.x, weights, at.y, where);
}

std::string shape(const Params& p) {
  table::ShapeText text("int8_depthwise_conv");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c", p.c).with("out_h", p.out_h).with("out_w", p.out_w);
  return text.with_window(p).with("x_pitch", p.x_pitch).with("y_pitch", p.y_pitch).take();
}

}  // namespace

const KernelTable<Int8DepthwiseConvParams, Int8DepthwiseConvVariant>& kernel_of(const Int8DepthwiseConvParams&) {
  static const KernelTable<Int8DepthwiseConvParams, Int8DepthwiseConvVariant> kTable{
      .name = "int8_depthwise_conv",
      .variants = int8_depthwise_conv_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<Int8DepthwiseConvParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
