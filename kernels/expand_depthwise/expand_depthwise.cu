// Pointwise expansion and depthwise convolution in one launch: variants, limits, launch.
// Kernel: mma.cuh.
// Offsets within an image are 32 bits of bytes; a launch takes any number of images.

#include "kernels/expand_depthwise/expand_depthwise.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/common/resident_blocks.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/mma.cuh"
#include "kernels/gemm/gemm.h"

namespace mobicuda::kernels {
namespace {

using expand_depthwise_detail::Arguments;
using expand_depthwise_detail::Config;
using expand_depthwise_detail::kBlockCounts;
using expand_depthwise_detail::kBlockK;
using expand_depthwise_detail::kMostBlocksK;
using Variant = ExpandDepthwiseVariant;

constexpr int kOldest = 80;  // mma.sync m16n8k16, cp.async
constexpr int kStripRows = 7;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kSharedLimit = least_shared_bytes_from(kOldest);  // so that the tiles are the same on every GPU

/// A variant's tile.
struct Shape {
  int slice;
  int rows;  ///< of a depthwise thread; see thread_rows()
  int bands;
};

struct Entry {
  Variant variant;
  std::string_view name;
  Shape shape;
};

constexpr Entry kEntries[] = {
    {Variant::Slice8Bands1, "slice8_bands1", {8, 1, 1}},
    {Variant::Slice8Bands2, "slice8_bands2", {8, 1, 2}},
    {Variant::Slice8Bands4, "slice8_bands4", {8, 1, 4}},
    {Variant::Slice16Bands1, "slice16_bands1", {16, 1, 1}},
    {Variant::Slice16Bands2, "slice16_bands2", {16, 1, 2}},
    {Variant::Slice16Bands4, "slice16_bands4", {16, 1, 4}},
    {Variant::Slice16Bands8, "slice16_bands8", {16, 1, 8}},
    {Variant::Slice16Bands16, "slice16_bands16", {16, 1, 16}},
    {Variant::Slice16Strip7Bands1, "slice16_strip7_bands1", {16, kStripRows, 1}},
    {Variant::Slice16Strip7Bands2, "slice16_strip7_bands2", {16, kStripRows, 2}},
    {Variant::Slice16Strip7Bands4, "slice16_strip7_bands4", {16, kStripRows, 4}},
    {Variant::Slice16Strip7Bands8, "slice16_strip7_bands8", {16, kStripRows, 8}},
    {Variant::Slice32Bands1, "slice32_bands1", {32, 1, 1}},
    {Variant::Slice32Bands2, "slice32_bands2", {32, 1, 2}},
    {Variant::Slice32Bands4, "slice32_bands4", {32, 1, 4}},
    {Variant::Slice32Bands8, "slice32_bands8", {32, 1, 8}},
    {Variant::Slice32Strip7Bands1, "slice32_strip7_bands1", {32, kStripRows, 1}},
    {Variant::Slice32Strip7Bands2, "slice32_strip7_bands2", {32, kStripRows, 2}},
    {Variant::Slice32Strip7Bands4, "slice32_strip7_bands4", {32, kStripRows, 4}},
};

constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

const Entry& entry_of(Variant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

int band_rows(const ExpandDepthwiseParams& p, const Shape& shape) { return ceil_div(p.out_h, shape.bands); }

/// Output rows of a depthwise thread. Two share most of what a 5x5 window reads; slices of 8 are for maps of so few
/// pixels that they would leave warps idle.
int thread_rows(const ExpandDepthwiseParams& p, const Shape& shape) {
  return p.kernel == 5 && p.stride == 1 && shape.slice == 16 && shape.rows == 1 ? 2 : shape.rows;
}

// Of a hidden tile: whole strips, and the rows and columns that their windows reach.
std::int64_t tile_rows(const ExpandDepthwiseParams& p, const Shape& shape) {
  return std::int64_t{round_up(band_rows(p, shape), thread_rows(p, shape)) - 1} * p.stride + p.kernel;
}
std::int64_t tile_columns(const ExpandDepthwiseParams& p) { return std::int64_t{p.out_w - 1} * p.stride + p.kernel; }

int blocks_k(int c_in) { return *std::ranges::lower_bound(kBlockCounts, ceil_div(c_in, kBlockK)); }

std::int64_t shared_bytes(const ExpandDepthwiseParams& p, const Shape& shape, int buffers) {
  using Slice = Config<1, 8, 1, 1>;  // of one tap and one block of k
  const int slices = shape.slice / Slice::kSlice;
  const int constant_bytes = slices * (Slice::kExpandBytes * blocks_k(p.c_in) +
                                       Slice::kDepthwiseBytes * p.kernel * p.kernel + 2 * Slice::kBiasBytes);
  return constant_bytes + buffers * tile_rows(p, shape) * tile_columns(p) * shape.slice * 2;
}

Arguments arguments(const ExpandDepthwiseParams& p, const Shape& shape) {
  Arguments a{};
  a.n = p.n;
  a.h = p.h;
  a.w = p.w;
  a.c_in = p.c_in;
  a.c = p.c;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.stride = p.stride;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.band_rows = band_rows(p, shape);
  a.tile_rows = static_cast<int>(tile_rows(p, shape));
  a.tile_columns = static_cast<int>(tile_columns(p));
  a.columns = std::clamp(a.tile_columns - p.pad_left, 0, p.w);
  a.by_columns = FastDivision(static_cast<std::uint32_t>(std::max(a.columns, 1)));
  a.by_out_w = FastDivision(static_cast<std::uint32_t>(p.out_w));
  a.expand_activation = p.expand_activation;
  a.depthwise_activation = p.depthwise_activation;
  return a;
}

struct Buffers {
  const void* x;
  const void* expand;
  const float* expand_bias;
  const void* depthwise;
  const float* depthwise_bias;
  void* y;
};

/// Of the rows that a band's windows reach, the most that lie inside the image.
template <class C>
int rows_inside(const Arguments& a) {
  int most = 0;
  for (int oy = 0; oy < a.out_h; oy += a.band_rows) {
    const int top = oy * a.stride - a.pad_top;
    const int end = top + (std::min(a.band_rows, a.out_h - oy) - 1) * a.stride + C::kKernel;
    most = std::max(most, std::min(end, a.h) - std::max(top, 0));
  }
  return most;
}

/// Enough warps for all pixels at once, or for all strips, as far as a block may have them.
template <class C>
int threads_of(const Arguments& a) {
  const std::int64_t fragments = ceil_div(std::int64_t{rows_inside<C>(a)} * a.columns, std::int64_t{16});
  const std::int64_t strips = std::int64_t{ceil_div(a.band_rows, C::kRows)} * a.out_w * C::kVectors;
  const std::int64_t warps = std::max({fragments, ceil_div(strips, std::int64_t{32}), std::int64_t{1}});
  constexpr std::int64_t kMost = expand_depthwise_detail::kMaxThreads / 32;
  const std::int64_t rounds = ceil_div(warps, kMost);
  return static_cast<int>(ceil_div(warps, rounds)) * 32;
}

template <class C>
cudaError_t launch_config(const ExpandDepthwiseParams& p, const Shape& shape, const Buffers& buffers,
                          const Launch& where) {
  const auto kernel = expand_depthwise_detail::expand_depthwise_kernel<C>;
  Arguments a = arguments(p, shape);
  const int threads = threads_of<C>(a);
  const auto bytes = static_cast<std::size_t>(shared_bytes(p, shape, 2));
  int resident = 0;
  const cudaError_t status = resident_blocks(kernel, threads, bytes, static_cast<std::size_t>(kSharedLimit), resident);
  if (status != cudaSuccess) return status;

  const int slices = p.c / C::kSlice;
  const int bands = ceil_div(p.out_h, a.band_rows);
  const std::int64_t most = std::clamp<std::int64_t>(resident / (std::int64_t{slices} * bands), 1, kMaxGridYz);
  const int rounds = static_cast<int>(ceil_div(std::int64_t{p.n}, most));
  const int groups = ceil_div(p.n, rounds);
  a.buffers = rounds > 1 ? 2 : 1;
  const dim3 grid(static_cast<unsigned>(slices), static_cast<unsigned>(bands), static_cast<unsigned>(groups));
  return launch(kernel, grid, dim3(static_cast<unsigned>(threads)),
                static_cast<std::size_t>(shared_bytes(p, shape, a.buffers)), where, a,
                static_cast<const __half*>(buffers.x), static_cast<const __half*>(buffers.expand), buffers.expand_bias,
                static_cast<const __half*>(buffers.depthwise), buffers.depthwise_bias, static_cast<__half*>(buffers.y));
}

template <int kKernel, int kSlice, int kRows, std::size_t kCount = 0>
cudaError_t launch_shape(const ExpandDepthwiseParams& p, const Shape& shape, const Buffers& buffers,
                         const Launch& where) {
  constexpr int kBlocksK = kBlockCounts[kCount];
  if constexpr (kBlocksK < kMostBlocksK) {
    if (blocks_k(p.c_in) > kBlocksK) {
      return launch_shape<kKernel, kSlice, kRows, kCount + 1>(p, shape, buffers, where);
    }
  }
  return is_clip(p.expand_activation)
             ? launch_config<Config<kKernel, kSlice, kRows, kBlocksK>>(p, shape, buffers, where)
             : launch_config<Config<kKernel, kSlice, kRows, kBlocksK, true>>(p, shape, buffers, where);
}

template <int kKernel>
cudaError_t launch_kernel(const ExpandDepthwiseParams& p, const Shape& shape, const Buffers& buffers,
                          const Launch& where) {
  const int rows = thread_rows(p, shape);
  switch (shape.slice) {
    case 8:
      return launch_shape<kKernel, 8, 1>(p, shape, buffers, where);
    case 16:
      if (rows == kStripRows) return launch_shape<kKernel, 16, kStripRows>(p, shape, buffers, where);
      if constexpr (kKernel == 5) {
        if (rows == 2) return launch_shape<kKernel, 16, 2>(p, shape, buffers, where);
      }
      return launch_shape<kKernel, 16, 1>(p, shape, buffers, where);
    default:
      return rows == 1 ? launch_shape<kKernel, 32, 1>(p, shape, buffers, where)
                       : launch_shape<kKernel, 32, kStripRows>(p, shape, buffers, where);
  }
}

}  // namespace

std::span<const ExpandDepthwiseVariant> expand_depthwise_variants() { return kVariants; }

std::string_view name(ExpandDepthwiseVariant variant) { return entry_of(variant).name; }

ExpandDepthwiseTile tile(ExpandDepthwiseVariant variant) {
  const Shape& shape = entry_of(variant).shape;
  return {shape.slice, shape.bands};
}

bool supports(ExpandDepthwiseVariant variant, const ExpandDepthwiseParams& p, const DeviceTraits& gpu) {
  if (static_cast<std::size_t>(variant) >= kVariants.size() || gpu.code < kOldest) return false;
  if (p.elem != Elem::F16 || p.n < 0 || p.h < 1 || p.w < 1 || p.c_in < 1 || p.c < 1 || p.out_h < 1 || p.out_w < 1) {
    return false;
  }
  const Shape& shape = entry_of(variant).shape;
  if (p.c_in % 8 != 0 || p.c_in > kMostBlocksK * kBlockK || p.c % shape.slice != 0) return false;
  if (p.kernel != 3 && p.kernel != 5) return false;
  if (!(is_clip(p.expand_activation) && is_clip(p.depthwise_activation)) &&
      !(is_swish(p.expand_activation) && is_swish(p.depthwise_activation))) {
    return false;
  }
  if (p.stride != 1 && (p.stride != 2 || shape.rows > 1)) return false;
  // Where a window begins is an int, and so are the bytes of an image.
  constexpr std::int64_t kLargest = 1 << 29;
  if (p.h > kLargest || p.w > kLargest || p.out_h > kLargest / 2 || p.out_w > kLargest / 2) return false;
  if (p.pad_top < 0 || p.pad_top > kLargest || p.pad_left < 0 || p.pad_left > kLargest) return false;
  if (std::int64_t{p.h} * p.w > kMaxInt / 2 / p.c_in || std::int64_t{p.out_h} * p.out_w > kMaxInt / 2 / p.c) {
    return false;
  }
  if (std::int64_t{p.out_h} > std::int64_t{kSharedLimit} * shape.bands) return false;
  const std::int64_t bytes = shared_bytes(p, shape, 2);
  return bytes <= kSharedLimit && kSharedLimit <= static_cast<std::int64_t>(gpu.shared_bytes_per_block);
}

cudaError_t expand_depthwise(ExpandDepthwiseVariant variant, const ExpandDepthwiseParams& params, const void* x,
                             const void* packed_expand, const float* expand_bias, const void* packed_depthwise,
                             const float* depthwise_bias, void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  if ((params.expand_bias && expand_bias == nullptr) || (params.depthwise_bias && depthwise_bias == nullptr)) {
    return cudaErrorInvalidValue;
  }
  if (params.n == 0) return cudaSuccess;
  const Buffers buffers{x,
                        packed_expand,
                        params.expand_bias ? expand_bias : nullptr,
                        packed_depthwise,
                        params.depthwise_bias ? depthwise_bias : nullptr,
                        y};
  const Shape& shape = entry_of(variant).shape;
  return params.kernel == 3 ? launch_kernel<3>(params, shape, buffers, where)
                            : launch_kernel<5>(params, shape, buffers, where);
}

// The kernel's table.
namespace {

OperandBytes operands(ExpandDepthwiseVariant, const ExpandDepthwiseParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.h, p.w, p.c_in);
  bytes.weights[0] = table::as_bytes(gemm_packed_bytes(p.elem, p.c, p.c_in));
  bytes.weights[1] = table::bias_bytes(p.c);
  bytes.weights[2] = table::as_bytes(depthwise_conv_packed_bytes(p.elem, p.c, p.kernel, p.kernel));
  bytes.weights[3] = table::bias_bytes(p.c);
  bytes.y = table::bytes(p.elem, p.n, p.out_h, p.out_w, p.c);
  return bytes;
}

cudaError_t launch_on(ExpandDepthwiseVariant variant, const ExpandDepthwiseParams& p, const Operands& at,
                      const Launch& where) {
  return expand_depthwise(variant, p, at.x, at.weights[0], table::bias(p.expand_bias, at.weights[1]), at.weights[2],
                          table::bias(p.depthwise_bias, at.weights[3]), at.y, where);
}

std::string shape(const ExpandDepthwiseParams& p) {
  table::ShapeText text("expand_depthwise");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c_in", p.c_in).with("c", p.c);
  text.with("out_h", p.out_h).with("out_w", p.out_w).with("kernel", p.kernel).with("stride", p.stride);
  text.with("pad_top", p.pad_top).with("pad_left", p.pad_left);
  text.with("expand_bias", p.expand_bias).with("depthwise_bias", p.depthwise_bias);
  return text.with("expand_activation", p.expand_activation)
      .with("depthwise_activation", p.depthwise_activation)
      .take();
}

}  // namespace

const KernelTable<ExpandDepthwiseParams, ExpandDepthwiseVariant>& kernel_of(const ExpandDepthwiseParams&) {
  static const KernelTable<ExpandDepthwiseParams, ExpandDepthwiseVariant> kTable{
      .name = "expand_depthwise",
      .variants = expand_depthwise_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<ExpandDepthwiseParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
