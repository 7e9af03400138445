// Convolution to NHWC: variants, limits, packing, launch.
// Direct: direct.cuh (any shape). Stem3x3: stem.cuh (a network's first layer). Others:
// families.h.
// Items of a launch stay below 2^31; a larger batch takes several launches.

#include "kernels/conv2d/conv2d.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

#include <cuda_fp16.h>

#include "kernels/common/conv_chunks.h"
#include "kernels/common/table_parts.h"
#include "kernels/conv2d/direct.cuh"
#include "kernels/conv2d/families.h"
#include "kernels/conv2d/host.h"
#include "kernels/conv2d/stem.cuh"
#include "kernels/conv2d/window_line.h"

namespace mobicuda::kernels {
namespace {

using convolution::Arguments;
using convolution::arguments;
using convolution::kDirectThreads;
using convolution::kOutMultiple;
using convolution::picture;
using convolution::Stem;
using Input = Conv2dParams::Input;
using Variant = Conv2dVariant;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

constexpr Variant kOwnVariants[] = {Variant::Direct, Variant::Direct4x4, Variant::Stem3x3P2C4, Variant::Stem3x3P8C8};

/// All variants in the order of Conv2dVariant, and the entries of those behind kOwnVariants.
struct Table {
  std::vector<Variant> variants{std::begin(kOwnVariants), std::end(kOwnVariants)};
  std::vector<Conv2dEntry> entries;
};

const Table& entry_table() {
  static const Table all = [] {
    Table joined;
    for (const auto family : {conv2d_simt_entries(), conv2d_mma_entries(), conv2d_wgmma_entries(),
                              conv2d_grouped_entries(), conv2d_first_entries(), conv2d_split_entries()}) {
      for (const Conv2dEntry& entry : family) {
        joined.variants.push_back(entry.variant);
        joined.entries.push_back(entry);
      }
    }
    return joined;
  }();
  return all;
}

/// Null where the variant is one of kOwnVariants, or none.
const Conv2dEntry* entry_of(Variant variant) {
  const std::size_t index = static_cast<std::size_t>(variant) - std::size(kOwnVariants);
  return index < entry_table().entries.size() ? &entry_table().entries[index] : nullptr;
}

// Small tiles reach all multiprocessors with one image; large ones read less input twice and use more of each load
// from shared memory.
using SmallStem = Stem<2, 4, 8, 8>;
using LargeStem = Stem<8, 8, 16, 16>;

bool fits_int(const Conv2dParams& p) {
  constexpr std::int64_t kMaxCoordinate = kMaxInt / 2;
  const std::int64_t bottom = std::int64_t{p.out_h} * p.stride_h + std::int64_t{p.kernel_h} * p.dilation_h;
  const std::int64_t right = std::int64_t{p.out_w} * p.stride_w + std::int64_t{p.kernel_w} * p.dilation_w;
  return bottom <= kMaxCoordinate && right <= kMaxCoordinate && std::int64_t{p.kernel_h} * p.kernel_w <= kMaxInt &&
         std::int64_t{p.out_h} * p.out_w <= kMaxItems / p.c_out && std::int64_t{p.h} * p.w <= kMaxItems / p.c_in &&
         p.c_out <= kMaxInt - kOutMultiple;
}

template <class X, class T, int kPixels, int kChannels>
cudaError_t launch_direct(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  Arguments a = arguments(p);
  const std::int64_t x_picture = std::int64_t{p.h} * p.w * p.c_in;
  const std::int64_t y_picture = std::int64_t{p.out_h} * p.out_w * p.c_out;
  const auto launch_chunk = [&](const ItemGrid& items, std::int64_t first) {
    a.grid = items;
    const dim3 grid((items.items + kDirectThreads - 1) / kDirectThreads);
    return launch(convolution::direct_kernel<X, T, kPixels, kChannels>, grid, dim3(kDirectThreads), 0, where, a,
                  picture<X>(buffers.x, first, x_picture), static_cast<const T*>(buffers.packed), buffers.bias,
                  picture<T>(buffers.residual, first, y_picture), static_cast<T*>(buffers.y) + first * y_picture);
  };
  return for_each_chunk(p.n, p.out_h, ceil_div(p.out_w, kPixels), p.c_out / kChannels, launch_chunk);
}

template <class X, class T, class S, int kStride>
auto stem_kernel_of(const Activation& activation) {
  return activation.kind == ActivationKind::Clip ? convolution::stem_kernel<X, T, S, kStride, true>
                                                 : convolution::stem_kernel<X, T, S, kStride, false>;
}

template <class X, class T, class S>
cudaError_t launch_stem(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  const auto kernel =
      p.stride_h == 1 ? stem_kernel_of<X, T, S, 1>(p.activation) : stem_kernel_of<X, T, S, 2>(p.activation);
  const std::size_t shared_bytes = p.stride_h == 1 ? convolution::StemShape<S, 1>::shared_bytes(p.c_in)
                                                   : convolution::StemShape<S, 2>::shared_bytes(p.c_in);
  const dim3 block(static_cast<unsigned>(S::kGroups * p.c_out / S::kChannels));
  Arguments a = arguments(p);
  const std::int64_t x_picture = std::int64_t{p.h} * p.w * p.c_in;
  const std::int64_t y_picture = std::int64_t{p.out_h} * p.out_w * p.c_out;
  const auto launch_chunk = [&](const ItemGrid& items, std::int64_t first) {
    a.grid = items;
    return launch(kernel, dim3(items.items), block, shared_bytes, where, a, picture<X>(buffers.x, first, x_picture),
                  static_cast<const T*>(buffers.packed), buffers.bias, static_cast<T*>(buffers.y) + first * y_picture);
  };
  return for_each_chunk(p.n, ceil_div(p.out_h, S::kTileRows), ceil_div(p.out_w, S::kTileColumns), 1, launch_chunk);
}

template <class X>
constexpr bool kBytes = std::is_same_v<X, std::uint8_t>;
template <class T>
constexpr bool kDouble = std::is_same_v<T, double>;

template <class X, class T>
cudaError_t dispatch(Variant variant, const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  switch (variant) {
    case Variant::Direct:
      if constexpr (!kBytes<X>) return launch_direct<X, T, 1, 1>(p, buffers, where);
      break;
    case Variant::Direct4x4:
      if constexpr (!kBytes<X>) return launch_direct<X, T, 4, 4>(p, buffers, where);
      break;
    case Variant::Stem3x3P2C4:
      if constexpr (!kDouble<T>) return launch_stem<X, T, SmallStem>(p, buffers, where);
      break;
    case Variant::Stem3x3P8C8:
      if constexpr (!kDouble<T>) return launch_stem<X, T, LargeStem>(p, buffers, where);
      break;
    default:
      break;
  }
  return cudaErrorInvalidValue;
}

/// Pixels that lie apart are written 16 bytes at a time.
bool pitch_fits(Variant variant, const Conv2dParams& p) {
  return p.elem == Elem::F16 && on_tensor_cores(variant) && p.c_out % kOutMultiple == 0 &&
         p.y_pitch % kOutMultiple == 0 && p.y_pitch >= p.c_out &&
         std::int64_t{p.out_h} * p.out_w <= kMaxItems / p.y_pitch;
}

/// Whether the two convolutions have the same pixels of y.
bool second_fits(const Conv2dParams& p) {
  const Conv2dParams::Second& second = p.second;
  if (second.c_in < 0 || second.h <= 0 || second.w <= 0 || second.stride_h <= 0 || second.stride_w <= 0) return false;
  const bool pointwise = p.kernel_h == 1 && p.kernel_w == 1 && p.stride_h == 1 && p.stride_w == 1 && p.pad_top == 0 &&
                         p.pad_left == 0 && p.groups == 1 && p.out_h == p.h && p.out_w == p.w;
  return pointwise && p.elem == Elem::F16 && p.input == Input::NhwcElem && !p.residual && !p.max_pool &&
         (second.h - 1) / second.stride_h + 1 == p.out_h && (second.w - 1) / second.stride_w + 1 == p.out_w &&
         std::int64_t{second.h} * second.w <= kMaxItems / second.c_in && p.n <= kMaxInt / second.h;
}

bool supports_stem(const Conv2dParams& p) {
  return p.kernel_h == 3 && p.kernel_w == 3 && p.dilation_h == 1 && p.dilation_w == 1 && p.stride_h == p.stride_w &&
         p.stride_h <= 2 && p.groups == 1 && p.c_in <= convolution::kStemMaxIn && p.c_out % kOutMultiple == 0 &&
         p.c_out <= convolution::kStemMaxOut && !p.residual && p.elem != Elem::F64;
}

}  // namespace

std::span<const Conv2dVariant> conv2d_variants() { return entry_table().variants; }

Conv2dTile conv2d_tile(Conv2dVariant variant) {
  const Conv2dEntry* const entry = entry_of(variant);
  return entry == nullptr ? Conv2dTile{} : entry->tile;
}

bool on_tensor_cores(Conv2dVariant variant) {
  const Conv2dEntry* const entry = entry_of(variant);
  return entry != nullptr && entry->on_tensor_cores;
}

Conv2dWork conv2d_work(Conv2dVariant variant, const Conv2dParams& p) {
  const Conv2dTile tile = conv2d_tile(variant);
  if (tile.bk == 0) return {};
  const std::int64_t taps = std::int64_t{p.kernel_h} * p.kernel_w;
  const std::int64_t group_in = p.c_in / p.groups;
  const std::int64_t bk = tile.bk;
  const std::int64_t second_in = p.second.c_in;
  const std::int64_t slices = tile.whole_taps ? taps * ceil_div(group_in, bk) + ceil_div(second_in, bk)
                                              : ceil_div(taps * group_in + second_in, bk);
  std::int64_t block_slices = ceil_div(slices, std::int64_t{tile.split_k});
  std::int64_t pixels = std::int64_t{p.n} * p.out_h * p.out_w;
  double slice_pixels = static_cast<double>(tile.bm) / tile.pair;
  if (tile.window) {
    const conv_wgmma::WindowLine line = conv_wgmma::window_line(p);
    block_slices = taps * ceil_div(ceil_div(group_in, bk), std::int64_t{tile.split_k});
    pixels = conv_wgmma::line_rows(p, p.n);
    const double planes = line.stride * line.stride;
    slice_pixels = planes * (tile.bm + static_cast<double>(line.taps_h) * line.columns) / static_cast<double>(taps);
  }
  std::int64_t m_tiles = ceil_div(pixels, std::int64_t{tile.bm});
  if (tile.patch_rows > 0) {
    const auto covered = [&](int extent) { return p.max_pool ? extent / 2 * 2 : extent; };
    m_tiles = std::int64_t{p.n} * ceil_div(covered(p.out_h), tile.patch_rows) *
              ceil_div(covered(p.out_w), tile.patch_columns);
    slice_pixels = static_cast<double>(tile.patch_rows - 1 + p.kernel_h) * (tile.patch_columns - 1 + p.kernel_w) /
                   static_cast<double>(taps);
  }
  const std::int64_t n_tiles = std::int64_t{ceil_div(p.c_out / p.groups, tile.bn)} * p.groups;
  return {m_tiles * n_tiles * tile.split_k, block_slices, slice_pixels};
}

std::string_view name(Conv2dVariant variant) {
  switch (variant) {
    case Variant::Direct:
      return "direct";
    case Variant::Direct4x4:
      return "direct_4x4";
    case Variant::Stem3x3P2C4:
      return "stem3x3_2x4";
    case Variant::Stem3x3P8C8:
      return "stem3x3_8x8";
    default:
      break;
  }
  const Conv2dEntry* const entry = entry_of(variant);
  return entry == nullptr ? "unknown" : entry->name;
}

bool supports(Conv2dVariant variant, const Conv2dParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 75;
  const bool positive = p.h > 0 && p.w > 0 && p.c_in > 0 && p.c_out > 0 && p.out_h > 0 && p.out_w > 0 &&
                        p.kernel_h > 0 && p.kernel_w > 0 && p.stride_h > 0 && p.stride_w > 0 && p.dilation_h > 0 &&
                        p.dilation_w > 0 && p.groups > 0;
  if (gpu.code < kOldest || p.n < 0 || !positive || p.pad_top < 0 || p.pad_left < 0) return false;
  if (p.c_in % p.groups != 0 || p.c_out % p.groups != 0 || !fits_int(p)) return false;
  if (p.y_pitch != 0 && !pitch_fits(variant, p)) return false;
  const Conv2dEntry* const entry = entry_of(variant);
  if (p.max_pool != (entry != nullptr && entry->pools)) return false;
  if (p.second.c_in != 0 && (entry == nullptr || !entry->takes_second || !second_fits(p))) return false;
  switch (variant) {
    case Variant::Direct:
      return p.input != Input::NhwcUint8;
    case Variant::Direct4x4:
      return p.input != Input::NhwcUint8 && p.c_out / p.groups % 4 == 0;
    case Variant::Stem3x3P2C4:
    case Variant::Stem3x3P8C8:
      return supports_stem(p);
    default:
      break;
  }
  // Without the function it is left out of the build: kAllVariants.
  return entry != nullptr && entry->supports != nullptr && entry->supports(p, gpu);
}

Conv2dParams second_alone(const Conv2dParams& params) {
  Conv2dParams alone = params;
  alone.second = {};
  alone.h = params.second.h;
  alone.w = params.second.w;
  alone.c_in = params.second.c_in;
  alone.stride_h = params.second.stride_h;
  alone.stride_w = params.second.stride_w;
  alone.bias = false;
  alone.y_pitch = 0;
  alone.activation = {};
  return alone;
}

std::size_t conv2d_packed_bytes(const Conv2dParams& p) {
  const auto row = size_of(p.elem) * static_cast<std::size_t>(round_up(p.c_out, kOutMultiple));
  const auto rows = static_cast<std::size_t>(p.kernel_h) * static_cast<std::size_t>(p.kernel_w) *
                        static_cast<std::size_t>(p.c_in / p.groups) +
                    static_cast<std::size_t>(p.second.c_in);
  return rows * row;
}

void conv2d_pack(const Conv2dParams& p, const float* weight, void* packed) {
  const auto taps = static_cast<std::size_t>(p.kernel_h) * static_cast<std::size_t>(p.kernel_w);
  const auto group_in = static_cast<std::size_t>(p.c_in / p.groups);
  const auto c_out = static_cast<std::size_t>(p.c_out);
  const auto pitch = static_cast<std::size_t>(round_up(p.c_out, kOutMultiple));
  std::memset(packed, 0, taps * group_in * pitch * size_of(p.elem));
  for (std::size_t co = 0; co < c_out; ++co) {
    for (std::size_t ci = 0; ci < group_in; ++ci) {
      for (std::size_t tap = 0; tap < taps; ++tap) {
        const float value = weight[(co * group_in + ci) * taps + tap];
        const std::size_t at = (tap * group_in + ci) * pitch + co;
        if (p.elem == Elem::F32) {
          static_cast<float*>(packed)[at] = value;
        } else if (p.elem == Elem::F64) {
          static_cast<double*>(packed)[at] = value;
        } else {
          static_cast<__half*>(packed)[at] = __float2half_rn(value);
        }
      }
    }
  }
}

cudaError_t conv2d(Conv2dVariant variant, const Conv2dParams& params, const void* x, const void* packed,
                   const float* bias, const void* residual, void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  const bool has_second = params.second.c_in != 0;
  if ((params.bias && bias == nullptr) || ((params.residual || has_second) && residual == nullptr)) {
    return cudaErrorInvalidValue;
  }
  const Conv2dBuffers buffers{
      x, packed, params.bias ? bias : nullptr, params.residual ? residual : nullptr, has_second ? residual : nullptr,
      y};
  if (const Conv2dEntry* const entry = entry_of(variant); entry != nullptr) {
    return entry->launch(params, buffers, where);
  }
  if (params.input == Input::NhwcUint8) {
    return params.elem == Elem::F32 ? dispatch<std::uint8_t, float>(variant, params, buffers, where)
                                    : dispatch<std::uint8_t, __half>(variant, params, buffers, where);
  }
  if (params.elem == Elem::F32) return dispatch<float, float>(variant, params, buffers, where);
  if (params.elem == Elem::F64) {
    return params.input == Input::NhwcElem ? dispatch<double, double>(variant, params, buffers, where)
                                           : dispatch<float, double>(variant, params, buffers, where);
  }
  if (params.input == Input::NhwcElem) return dispatch<__half, __half>(variant, params, buffers, where);
  return dispatch<float, __half>(variant, params, buffers, where);
}

// The kernel's table.
namespace {

std::size_t input_element(const Conv2dParams& p) {
  if (p.input == Conv2dParams::Input::NhwcElem) return size_of(p.elem);
  return p.input == Conv2dParams::Input::NhwcUint8 ? 1 : sizeof(float);
}

OperandBytes operands(Conv2dVariant, const Conv2dParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(input_element(p), p.n, p.h, p.w, p.c_in);
  bytes.weights[0] = table::as_bytes(conv2d_packed_bytes(p));
  bytes.weights[1] = table::bias_bytes(p.c_out);
  const int pool = p.max_pool ? 2 : 1;
  bytes.y = table::bytes(p.elem, p.n, p.out_h / pool, p.out_w / pool, std::max(p.c_out, p.y_pitch));
  if (p.residual) bytes.residual = bytes.y;
  if (p.second.c_in != 0) bytes.residual = table::bytes(p.elem, p.n, p.second.h, p.second.w, p.second.c_in);
  return bytes;
}

cudaError_t launch_on(Conv2dVariant variant, const Conv2dParams& p, const Operands& at, const Launch& where) {
  return conv2d(variant, p, at.x, at.weights[0], table::bias(p.bias, at.weights[1]), at.residual, at.y, where);
}

std::string shape(const Conv2dParams& p) {
  table::ShapeText text("conv2d");
  text.with("input", static_cast<int>(p.input)).with("n", p.n).with("h", p.h).with("w", p.w);
  text.with("c_in", p.c_in).with("c_out", p.c_out).with("out_h", p.out_h).with("out_w", p.out_w).with_window(p);
  text.with("groups", p.groups).with("bias", p.bias).with("residual", p.residual).with("y_pitch", p.y_pitch);
  if (p.max_pool) text.with("max_pool", p.max_pool);
  if (const Conv2dParams::Second& second = p.second; second.c_in != 0) {
    text.with("second_c_in", second.c_in).with("second_h", second.h).with("second_w", second.w);
    text.with("second_stride_h", second.stride_h).with("second_stride_w", second.stride_w);
  }
  return text.with("activation", p.activation).take();
}

}  // namespace

const KernelTable<Conv2dParams, Conv2dVariant>& kernel_of(const Conv2dParams&) {
  static const KernelTable<Conv2dParams, Conv2dVariant> kTable{
      .name = "conv2d",
      .variants = conv2d_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<Conv2dParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
