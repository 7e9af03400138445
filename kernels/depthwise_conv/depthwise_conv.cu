// Depthwise convolution, NHWC: variants, limits, packing, launch.
// Direct: direct.cuh. Strips: strip.cuh. Tiles: tile.cuh. Rings: ring.cuh.
// Shared memory: of tiles and rings. Items (threads) of a launch stay below 2^31; a larger batch takes several
// launches.

#include "kernels/depthwise_conv/depthwise_conv.h"

#include <algorithm>
#include <limits>

#include <cuda_fp16.h>

#include "kernels/common/conv_chunks.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/depthwise_conv/direct.cuh"
#include "kernels/depthwise_conv/ring.cuh"
#include "kernels/depthwise_conv/strip.cuh"
#include "kernels/depthwise_conv/tile.cuh"

namespace mobicuda::kernels {
namespace {

using depthwise::Arguments;
using depthwise::Ring;
using depthwise::Strip;
using depthwise::Tile;
using Variant = DepthwiseConvVariant;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
// A GPU of this generation has about as many multiprocessors: below it, smaller blocks reach more of them.
constexpr std::int64_t kFewBlocks = 132;

/// Whether coordinates, rounded up to whole strips, and elements of one image are ints.
bool fits_int(const DepthwiseConvParams& p) {
  constexpr std::int64_t kMaxCoordinate = kMaxInt / 2;
  const std::int64_t bottom = std::int64_t{p.out_h} * p.stride_h + std::int64_t{p.kernel_h} * p.dilation_h;
  const std::int64_t right = std::int64_t{p.out_w} * p.stride_w + std::int64_t{p.kernel_w} * p.dilation_w;
  return bottom <= kMaxCoordinate && right <= kMaxCoordinate && std::int64_t{p.out_h} * p.out_w <= kMaxItems / p.c &&
         std::int64_t{p.h} * p.w <= kMaxItems / p.c;
}

Arguments arguments(const DepthwiseConvParams& p) {
  Arguments a{};
  a.h = p.h;
  a.w = p.w;
  a.c = p.c;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.kernel_h = p.kernel_h;
  a.kernel_w = p.kernel_w;
  a.stride_h = p.stride_h;
  a.stride_w = p.stride_w;
  a.dilation_h = p.dilation_h;
  a.dilation_w = p.dilation_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.activation = p.activation;
  return a;
}

struct Buffers {
  const void* x;
  const void* packed;
  const float* bias;
  void* y;
};

template <class T, class Kernel>
cudaError_t launch_kernel(Kernel* kernel, int threads, const DepthwiseConvParams& p, const DepthwiseConvTile& t,
                          const Buffers& buffers, const Launch& where) {
  Arguments a = arguments(p);
  const std::int64_t x_picture = std::int64_t{p.h} * p.w * p.c;
  const std::int64_t y_picture = std::int64_t{p.out_h} * p.out_w * p.c;
  const auto launch_chunk = [&](const ItemGrid& items, std::int64_t first) {
    a.grid = items;
    const bool few = items.items <= kFewBlocks * threads;
    const auto block = static_cast<unsigned>(few ? threads / 2 : threads);
    const dim3 grid((items.items + block - 1) / block);
    return launch(kernel, grid, dim3(block), 0, where, a, static_cast<const T*>(buffers.x) + first * x_picture,
                  static_cast<const T*>(buffers.packed), buffers.bias, static_cast<T*>(buffers.y) + first * y_picture);
  };
  return for_each_chunk(p.n, ceil_div(p.out_h, t.rows), ceil_div(p.out_w, t.columns), ceil_div(p.c, t.channels),
                        launch_chunk);
}

template <class S>
constexpr DepthwiseConvTile tile_of(Elem elem) {
  return {S::kRows, S::kColumns, S::kVectorBytes / static_cast<int>(size_of(elem))};
}

template <class T>
cudaError_t launch_direct(const DepthwiseConvParams& p, const Buffers& buffers, const Launch& where) {
  return launch_kernel<T>(depthwise::direct_kernel<T>, kMaxItemThreads, p, {}, buffers, where);
}

template <class T, class S>
cudaError_t launch_strip(const DepthwiseConvParams& p, const Buffers& buffers, const Launch& where) {
  const auto kernel = p.stride_h == 1 ? depthwise::strip_kernel<T, S, 1> : depthwise::strip_kernel<T, S, 2>;
  return launch_kernel<T>(kernel, depthwise::kStripMaxThreads, p, tile_of<S>(p.elem), buffers, where);
}

/// Tiles and rings: their lanes have pairs of channels, counted over all images, a block 32 of them.
template <class S, class Shape, class Kernel>
cudaError_t launch_lanes(Kernel* kernel, const DepthwiseConvParams& p, const Buffers& buffers, const Launch& where) {
  constexpr int kPair = 2;
  constexpr std::int64_t kLanes = 32;
  if (const cudaError_t status = allow_shared_memory(kernel, Shape::kSharedBytes); status != cudaSuccess) return status;
  Arguments a = arguments(p);
  const std::int64_t x_picture = std::int64_t{p.h} * p.w * p.c;
  const std::int64_t y_picture = std::int64_t{p.out_h} * p.out_w * p.c;
  const int tile_rows = ceil_div(p.out_h, S::kBlockRows);
  const int tile_columns = ceil_div(p.out_w, S::kBlockColumns);
  const auto launch_chunk = [&](const ItemGrid& items, std::int64_t first) {
    a.grid = items;
    const std::int64_t tiles = std::int64_t{tile_rows} * tile_columns;
    const auto lanes = static_cast<std::uint32_t>(items.items / tiles);
    const dim3 grid(static_cast<unsigned>(ceil_div(std::int64_t{lanes}, kLanes) * tiles));
    return launch(kernel, grid, dim3(S::kThreads), Shape::kSharedBytes, where, a, lanes,
                  static_cast<const __half*>(buffers.x) + first * x_picture, static_cast<const __half*>(buffers.packed),
                  buffers.bias, static_cast<__half*>(buffers.y) + first * y_picture);
  };
  return for_each_chunk(p.n, tile_rows, tile_columns, p.c / kPair, launch_chunk);
}

template <class S>
cudaError_t launch_tile(const DepthwiseConvParams& p, const Buffers& buffers, const Launch& where) {
  using namespace depthwise;
  if (p.stride_h == 1) return launch_lanes<S, TileShape<S, 1>>(tile_kernel<S, 1>, p, buffers, where);
  return launch_lanes<S, TileShape<S, 2>>(tile_kernel<S, 2>, p, buffers, where);
}

template <class S>
cudaError_t launch_ring(const DepthwiseConvParams& p, const Buffers& buffers, const Launch& where) {
  using namespace depthwise;
  if (p.stride_h == 1) return launch_lanes<S, RingShape<S, 1>>(ring_kernel<S, 1>, p, buffers, where);
  return launch_lanes<S, RingShape<S, 2>>(ring_kernel<S, 2>, p, buffers, where);
}

using LaunchFunction = cudaError_t (*)(const DepthwiseConvParams& p, const Buffers& buffers, const Launch& where);

struct Entry {
  Variant variant;
  std::string_view name;
  int window;                          ///< height and width, 0 where any will do
  DepthwiseConvTile tile[kElemCount];  ///< by Elem
  LaunchFunction launch[kElemCount];
  int channels = 1;                      ///< that those of an image are a multiple of
  std::size_t shared_bytes[2] = {0, 0};  ///< with stride 1 and 2
};

template <class S, bool kBuilt = true>
constexpr Entry strip(Variant variant, std::string_view name) {
  Entry entry{variant, name, S::kWindow, {tile_of<S>(Elem::F32), tile_of<S>(Elem::F16), {}}, {}};
  if constexpr (kBuilt && S::kVectorBytes > 4) {  // of float, two channels at least
    entry.launch[static_cast<std::size_t>(Elem::F32)] = launch_strip<float, S>;
  }
  if constexpr (kBuilt) {
    entry.launch[static_cast<std::size_t>(Elem::F16)] = launch_strip<__half, S>;
  }
  if constexpr (kBuilt && S::kVectorBytes == 16) {  // of double, two channels at least
    entry.tile[static_cast<std::size_t>(Elem::F64)] = tile_of<S>(Elem::F64);
    entry.launch[static_cast<std::size_t>(Elem::F64)] = launch_strip<double, S>;
  }
  return entry;
}

/// A tile or a ring.
template <class S, template <class, int> class Shape>
constexpr Entry of_half(Variant variant, std::string_view name, LaunchFunction launch) {
  Entry entry{variant, name, S::kWindow, {{}, tile_of<S>(Elem::F16), {}}, {nullptr, launch, nullptr}};
  entry.channels = depthwise::kCopiedChannels;
  entry.shared_bytes[0] = Shape<S, 1>::kSharedBytes;
  entry.shared_bytes[1] = Shape<S, 2>::kSharedBytes;
  return entry;
}

template <class S>
constexpr Entry tile(Variant variant, std::string_view name) {
  return of_half<S, depthwise::TileShape>(variant, name, launch_tile<S>);
}

template <class S>
constexpr Entry ring(Variant variant, std::string_view name) {
  return of_half<S, depthwise::RingShape>(variant, name, launch_ring<S>);
}

// Strips of one or two rows load all or nearly all their input at once: they exist for the shortest time to a result.
// clang-format off
constexpr Entry kEntries[] = {
    {Variant::Direct, "direct", 0, {}, {launch_direct<float>, launch_direct<__half>, launch_direct<double>}},
    //    window rows columns bytes rows ahead blocks
    strip<Strip<3, 1, 1,  8, 3, 4>>(Variant::Strip1x1B8, "strip3x3_1x1_b8"),
    strip<Strip<3, 1, 1, 16, 3, 4>, kAllVariants>(Variant::Strip1x1B16, "strip3x3_1x1_b16"),
    strip<Strip<3, 2, 2,  8, 3, 4>>(Variant::Strip2x2B8, "strip3x3_2x2_b8"),
    strip<Strip<3, 2, 2, 16, 3, 2>>(Variant::Strip2x2B16, "strip3x3_2x2_b16"),
    strip<Strip<3, 4, 2, 16, 1, 3>>(Variant::Strip4x2B16, "strip3x3_4x2_b16"),
    strip<Strip<3, 4, 4,  8, 1, 3>>(Variant::Strip4x4B8, "strip3x3_4x4_b8"),
    strip<Strip<3, 7, 1, 16, 1, 3>, kAllVariants>(Variant::Strip7x1B16, "strip3x3_7x1_b16"),
    strip<Strip<3, 7, 2,  8, 3, 4>>(Variant::Strip7x2B8, "strip3x3_7x2_b8"),
    strip<Strip<3, 7, 2, 16, 1, 2>>(Variant::Strip7x2B16, "strip3x3_7x2_b16"),
    strip<Strip<5, 1, 1,  8, 5, 4>>(Variant::Window5Strip1x1B8, "strip5x5_1x1_b8"),
    strip<Strip<5, 2, 2,  8, 2, 3>>(Variant::Window5Strip2x2B8, "strip5x5_2x2_b8"),
    strip<Strip<5, 2, 2, 16, 1, 2>, kAllVariants>(Variant::Window5Strip2x2B16, "strip5x5_2x2_b16"),
    strip<Strip<5, 4, 2,  8, 1, 3>>(Variant::Window5Strip4x2B8, "strip5x5_4x2_b8"),
    strip<Strip<5, 4, 2, 16, 1, 2>, kAllVariants>(Variant::Window5Strip4x2B16, "strip5x5_4x2_b16"),
    strip<Strip<5, 4, 4,  8, 1, 2>, kAllVariants>(Variant::Window5Strip4x4B8, "strip5x5_4x4_b8"),
    strip<Strip<5, 7, 2,  8, 1, 3>>(Variant::Window5Strip7x2B8, "strip5x5_7x2_b8"),
    strip<Strip<5, 7, 4,  8, 1, 2>, kAllVariants>(Variant::Window5Strip7x4B8, "strip5x5_7x4_b8"),
    strip<Strip<5, 4, 2,  4, 2, 4>, kAllVariants>(Variant::Window5Strip4x2B4, "strip5x5_4x2_b4"),
    strip<Strip<5, 4, 4,  4, 1, 4>>(Variant::Window5Strip4x4B4, "strip5x5_4x4_b4"),
    strip<Strip<5, 7, 2,  4, 2, 4>>(Variant::Window5Strip7x2B4, "strip5x5_7x2_b4"),
    strip<Strip<5, 7, 4,  4, 1, 3>, kAllVariants>(Variant::Window5Strip7x4B4, "strip5x5_7x4_b4"),
    //  rows columns of warps, down and across, blocks
    tile<Tile<7, 7, 1, 1, 12>>(Variant::Window5Tile7x7, "tile5x5_7x7"),
    tile<Tile<7, 7, 2, 2,  3>>(Variant::Window5Tile7x7W4, "tile5x5_7x7_w4"),
    tile<Tile<4, 7, 1, 1, 12>>(Variant::Window5Tile4x7, "tile5x5_4x7"),
    //  rows columns blocks
    ring<Ring<14, 7, 12>>(Variant::Window5Ring14x7, "ring5x5_14x7"),
};
// clang-format on

constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

const Entry& entry_of(Variant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

}  // namespace

std::span<const DepthwiseConvVariant> depthwise_conv_variants() { return kVariants; }

std::string_view name(DepthwiseConvVariant variant) { return entry_of(variant).name; }

DepthwiseConvTile tile(DepthwiseConvVariant variant, Elem elem) {
  return entry_of(variant).tile[static_cast<std::size_t>(elem)];
}

bool supports(DepthwiseConvVariant variant, const DepthwiseConvParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 75;
  const bool positive = p.h > 0 && p.w > 0 && p.c > 0 && p.out_h > 0 && p.out_w > 0 && p.kernel_h > 0 &&
                        p.kernel_w > 0 && p.stride_h > 0 && p.stride_w > 0 && p.dilation_h > 0 && p.dilation_w > 0;
  if (gpu.code < kOldest || p.n < 0 || !positive || p.pad_top < 0 || p.pad_left < 0 || !fits_int(p)) {
    return false;
  }
  if (static_cast<std::size_t>(variant) >= kVariants.size()) return false;
  const Entry& entry = entry_of(variant);
  if (entry.launch[static_cast<std::size_t>(p.elem)] == nullptr) return false;
  const int window = entry.window;
  if (window == 0) return true;
  const auto pixel_bytes = static_cast<std::int64_t>(size_of(p.elem)) * p.c;
  if (std::max(std::int64_t{p.h} * p.w, std::int64_t{p.out_h} * p.out_w) > kMaxInt / pixel_bytes) return false;
  // Rows of a tile, of which the first may be above the image, are bytes apart that are counted in 32 bits.
  constexpr int kMostTileRows = 32;
  if (entry.shared_bytes[0] != 0 && p.w > kMaxInt / kMostTileRows / pixel_bytes) return false;
  return p.kernel_h == window && p.kernel_w == window && p.dilation_h == 1 && p.dilation_w == 1 &&
         p.stride_h == p.stride_w && p.stride_h <= 2 && p.c % tile(variant, p.elem).channels == 0 &&
         p.c % entry.channels == 0 && entry.shared_bytes[p.stride_h - 1] <= gpu.shared_bytes_per_block;
}

std::size_t depthwise_conv_packed_bytes(Elem elem, int c, int kernel_h, int kernel_w) {
  return size_of(elem) * static_cast<std::size_t>(c) * static_cast<std::size_t>(kernel_h) *
         static_cast<std::size_t>(kernel_w);
}

void depthwise_conv_pack(Elem elem, int c, int kernel_h, int kernel_w, const float* weight, void* packed) {
  const auto channels = static_cast<std::size_t>(c);
  const auto taps = static_cast<std::size_t>(kernel_h) * static_cast<std::size_t>(kernel_w);
  for (std::size_t tap = 0; tap < taps; ++tap) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const float value = weight[channel * taps + tap];
      const std::size_t at = tap * channels + channel;
      if (elem == Elem::F32) {
        static_cast<float*>(packed)[at] = value;
      } else if (elem == Elem::F64) {
        static_cast<double*>(packed)[at] = value;
      } else {
        static_cast<__half*>(packed)[at] = __float2half_rn(value);
      }
    }
  }
}

cudaError_t depthwise_conv(DepthwiseConvVariant variant, const DepthwiseConvParams& params, const void* x,
                           const void* packed, const float* bias, void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  const Buffers buffers{x, packed, params.bias ? bias : nullptr, y};
  return entry_of(variant).launch[static_cast<std::size_t>(params.elem)](params, buffers, where);
}

// The kernel's table.
namespace {

OperandBytes operands(DepthwiseConvVariant, const DepthwiseConvParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.h, p.w, p.c);
  bytes.weights[0] = table::as_bytes(depthwise_conv_packed_bytes(p.elem, p.c, p.kernel_h, p.kernel_w));
  bytes.weights[1] = table::bias_bytes(p.c);
  bytes.y = table::bytes(p.elem, p.n, p.out_h, p.out_w, p.c);
  return bytes;
}

cudaError_t launch_on(DepthwiseConvVariant variant, const DepthwiseConvParams& p, const Operands& at,
                      const Launch& where) {
  return depthwise_conv(variant, p, at.x, at.weights[0], table::bias(p.bias, at.weights[1]), at.y, where);
}

std::string shape(const DepthwiseConvParams& p) {
  table::ShapeText text("depthwise_conv");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c", p.c).with("out_h", p.out_h).with("out_w", p.out_w);
  return text.with_window(p).with("bias", p.bias).with("activation", p.activation).take();
}

}  // namespace

const KernelTable<DepthwiseConvParams, DepthwiseConvVariant>& kernel_of(const DepthwiseConvParams&) {
  static const KernelTable<DepthwiseConvParams, DepthwiseConvVariant> kTable{
      .name = "depthwise_conv",
      .variants = depthwise_conv_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<DepthwiseConvParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
