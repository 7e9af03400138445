// First convolution, depthwise and projection in one launch: variants, limits, packing, launch.
// Rows1, Rows2: small.cuh. Other rows: kernel.cuh. Exact float: simt/.

#include "kernels/stem_block/stem_block.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "kernels/common/table_parts.h"
#include "kernels/stem_block/families.h"
#include "kernels/stem_block/kernel.cuh"
#include "kernels/stem_block/small.cuh"

namespace mobicuda::kernels {
namespace {

using Variant = StemBlockVariant;
using namespace stem_block_detail;
using stem_block_simt::is_float;

constexpr Variant kVariants[] = {Variant::Rows1,     Variant::Rows2,    Variant::Rows4,    Variant::Rows7,
                                 Variant::Rows14,    Variant::Rows28,   Variant::Rows56,   Variant::Simt7x14,
                                 Variant::Simt14x14, Variant::Dmma7x14, Variant::Dmma14x14};
constexpr int kRows[] = {1, 2, 4, 7, 14, 28, 56, 7, 14, 7, 14};
constexpr std::string_view kNames[] = {"rows1",  "rows2",     "rows4",      "rows7",     "rows14",    "rows28",
                                       "rows56", "simt_7x14", "simt_14x14", "dmma_7x14", "dmma_14x14"};

constexpr int kOldest = 80;  // mma.sync m16n8k16
constexpr int kMaxPad = 2;
constexpr int kStride = 2;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

/// Whether a 3x3 convolution pads by at most kMaxPad before and behind.
bool sane_extent(int size, int out, int stride, int pad) {
  constexpr int kLargest = 1 << 28;  // coordinates fit int
  if (size < 1 || out < 1 || size > kLargest || out > kLargest || pad < 0 || pad > kMaxPad) return false;
  return (out - 1) * stride + 3 - pad - size <= kMaxPad;
}

// What kernels are built for, from the fewest on.
constexpr Channels kBuilt[] = {{32, 16}, {40, 24}, {48, 24}};

/// Index in kBuilt of the first that has room; std::size(kBuilt) if none has.
std::size_t built_for(const StemBlockParams& p) {
  std::size_t i = 0;
  while (i < std::size(kBuilt) && (p.c_stem > kBuilt[i].stem || p.c_out > kBuilt[i].out)) ++i;
  return i;
}

Sizes sizes_for(const StemBlockParams& p) { return sizes_of(kBuilt[built_for(p)]); }

bool is_small(Variant variant) { return stem_block_rows(variant) <= 2; }

int block_columns(Variant variant) { return is_small(variant) ? kStrip : kColumns; }

std::int64_t unit_count(Variant variant, const StemBlockParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, stem_block_rows(variant)) * ceil_div(p.out_w, block_columns(variant));
}

/// Rows of a warp. The kernel for few images has them all.
int rows_of_warp(Variant variant, const StemBlockParams& p) {
  const int most = stem_block_rows(variant);
  return is_small(variant) ? most : stem_block_even_rows(p.out_h, most);
}

std::uint32_t both_halves(float value) {
  const __half2 pair = __float2half2_rn(value);
  std::uint32_t word;
  std::memcpy(&word, &pair, sizeof word);
  return word;
}

HalfClip half_clip(Clip clip) { return {both_halves(clip.lo), both_halves(clip.hi)}; }

Arguments arguments(Variant variant, const StemBlockParams& p) {
  Arguments a{};
  a.h = p.h;
  a.w = p.w;
  a.stem_h = p.stem_h;
  a.stem_w = p.stem_w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.c_out = p.c_out;
  a.stem_top = p.depthwise_pad_top;
  a.stem_left = p.depthwise_pad_left;
  a.input_top = kStride * p.depthwise_pad_top + p.stem_pad_top;
  a.input_left = kStride * p.depthwise_pad_left + p.stem_pad_left;
  a.rows = rows_of_warp(variant, p);
  a.units = static_cast<std::uint32_t>(unit_count(variant, p));
  a.column_blocks = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, block_columns(variant))));
  a.bands = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, a.rows)));
  a.plane_bytes = p.h * p.w * 4;
  a.row_bytes = p.w * (p.input == StemInput::NchwFloat ? 4 : 3);
  a.eight_pixels = 8 * p.c_out * 2;
  a.strip_pixels = kStrip * p.c_out * 2;
  a.out_row_bytes = p.out_w * p.c_out * 2;
  a.stem_clip = half_clip(p.stem_clip);
  a.depthwise_clip = half_clip(p.depthwise_clip);
  a.project_clip = half_clip(p.project_clip);
  for (int c = 0; c < 3; ++c) {
    a.scale[c] = p.scale[c];
    a.shift[c] = p.shift[c];
  }
  return a;
}

using Kernel = void (*)(Arguments, const void*, const unsigned char*, __half*);

template <class S, InputForm kForm, bool kPlain>
Kernel device_kernel(Variant variant) {
  switch (stem_block_rows(variant)) {
    case 1:
      return stem_block_small_kernel<S, kForm, kPlain, 1>;
    case 2:
      return stem_block_small_kernel<S, kForm, kPlain, 2>;
    default:
      return stem_block_kernel<S, kForm, kPlain>;
  }
}

template <class S, bool kPlain>
Kernel device_kernel(Variant variant, const StemBlockParams& p, const void* x) {
  if (p.input == StemInput::NhwcUint8) return device_kernel<S, InputForm::Bytes, kPlain>(variant);
  const bool pairs = p.w % 2 == 0 && p.stem_pad_left % 2 == 0 && reinterpret_cast<std::uintptr_t>(x) % 8 == 0;
  return pairs ? device_kernel<S, InputForm::FloatPairs, kPlain>(variant)
               : device_kernel<S, InputForm::Floats, kPlain>(variant);
}

template <bool kPlain>
Kernel device_kernel(Variant variant, const StemBlockParams& p, const void* x) {
  static_assert(std::size(kBuilt) == 3);
  switch (built_for(p)) {
    case 0:
      return device_kernel<Shape<kBuilt[0]>, kPlain>(variant, p, x);
    case 1:
      return device_kernel<Shape<kBuilt[1]>, kPlain>(variant, p, x);
    default:
      return device_kernel<Shape<kBuilt[2]>, kPlain>(variant, p, x);
  }
}

Kernel device_kernel(Variant variant, const StemBlockParams& p, const void* x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool unclipped = p.project_clip.lo == -kInfinity && p.project_clip.hi == kInfinity;
  const bool plain = p.stem_clip.lo == 0.0F && p.depthwise_clip.lo == 0.0F && unclipped;
  return plain ? device_kernel<true>(variant, p, x) : device_kernel<false>(variant, p, x);
}

/// Where an operand of an instruction comes from: value(k, column) for the lane's pairs of k.
template <class Value>
std::uint32_t operand(int lane, int first_k, const Value& value) {
  const int k = first_k + lane % 4 * 2;
  const int column = lane / 4;
  const __half pair[2] = {__float2half_rn(value(k, column)), __float2half_rn(value(k + 1, column))};
  std::uint32_t word;
  std::memcpy(&word, pair, sizeof word);
  return word;
}

float or_zero(const float* values, int index) { return values == nullptr ? 0.0F : values[index]; }

/// The stem's weight, or part of the bias, that channel `channel` has for number k of the window; see the kernel.
float stem_factor(const StemBlockParams& p, const StemBlockWeights& weights, int k, int channel) {
  constexpr int kPerRow = 8;
  constexpr int kNinths = 3 * kPerRow;
  if (channel >= p.c_stem) return 0.0F;
  if (k >= kNinths + 6) {
    constexpr float kLargest = 65504.0F;
    const float bias = or_zero(weights.stem_bias, channel);
    const float upper = std::clamp(__half2float(__float2half_rn(bias)), -kLargest, kLargest);
    return k == kNinths + 6 ? upper : bias - upper;
  }
  if (k >= kNinths && k % 2 == 1) return 0.0F;
  const int ky = k < kNinths ? k / kPerRow : (k - kNinths) / 2;
  const int at = k < kNinths ? k % kPerRow : kPerRow;
  const int kx = at / 3;
  const int c = at % 3;
  return weights.stem[((channel * 3 + c) * 3 + ky) * 3 + kx];
}

void pack_biases(const StemBlockParams& p, const Sizes& s, const StemBlockWeights& weights, float* to) {
  for (int t = 0; t < 4; ++t) {
    for (int e = 0; e < 4; ++e) {
      for (int q = 0; q < s.groups; ++q) {
        const int channel = q * 8 + t * 2 + e % 2;
        to[(q * 4 + t) * 4 + e] = channel < p.c_stem ? or_zero(weights.depthwise_bias, channel) : 0.0F;
      }
      for (int f = 0; f < s.fragments; ++f) {
        const int channel = dealt_channel(f, t * 2 + e % 2);
        to[((s.groups + f) * 4 + t) * 4 + e] = channel < p.c_out ? or_zero(weights.project_bias, channel) : 0.0F;
      }
    }
  }
}

/// The operands of a lane, in the order of the packed weights.
std::vector<std::uint32_t> pack_lane(const StemBlockParams& p, const Sizes& s, const StemBlockWeights& weights,
                                     int lane) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(s.operand_vectors) * 4);
  auto to = words.begin();
  for (int q = 0; q < s.groups; ++q) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      *to++ = operand(lane, quarter * 8, [&](int k, int column) { return stem_factor(p, weights, k, q * 8 + column); });
    }
  }
  for (int ky = 0; ky < 3; ++ky) {
    for (int q = 0; q < s.groups; ++q) {
      for (int kx = 0; kx < 3; ++kx) {
        *to++ = operand(lane, 0, [&](int k, int column) {
          const int channel = q * 8 + column;
          return k == column && channel < p.c_stem ? weights.depthwise[channel * 9 + ky * 3 + kx] : 0.0F;
        });
      }
    }
  }
  to = words.begin() + (s.groups + s.depthwise_vectors) * 4;
  for (int quarter = 0; quarter < 2 * s.project_steps; quarter += 2) {
    for (int f = 0; f < s.fragments; ++f) {
      for (int half = 0; half < 2; ++half) {
        *to++ = operand(lane, (quarter + half) * 8, [&](int k, int column) {
          const int channel = dealt_channel(f, column);
          return channel < p.c_out && k < p.c_stem ? weights.project[channel * p.c_stem + k] : 0.0F;
        });
      }
    }
  }
  return words;
}

}  // namespace

std::span<const StemBlockVariant> stem_block_variants() { return kVariants; }

std::string_view name(StemBlockVariant variant) { return kNames[static_cast<std::size_t>(variant)]; }

int stem_block_rows(StemBlockVariant variant) { return kRows[static_cast<std::size_t>(variant)]; }

bool supports(StemBlockVariant variant, const StemBlockParams& p, const DeviceTraits& gpu) {
  if (static_cast<std::size_t>(variant) >= std::size(kVariants) || p.n < 0 || p.c_stem < 1) return false;
  const bool sane = sane_extent(p.h, p.stem_h, kStride, p.stem_pad_top) &&
                    sane_extent(p.w, p.stem_w, kStride, p.stem_pad_left) &&
                    sane_extent(p.stem_h, p.out_h, 1, p.depthwise_pad_top) &&
                    sane_extent(p.stem_w, p.out_w, 1, p.depthwise_pad_left) &&
                    std::int64_t{p.h} * p.w <= kMaxInt / 16 && std::int64_t{p.out_w} * p.c_out <= kMaxInt / 4;
  if (!sane) return false;
  if (is_float(variant)) return stem_block_simt::supports(variant, p, gpu);
  return p.elem == Elem::F16 && gpu.code >= kOldest && p.c_out >= 4 && p.c_out % 4 == 0 &&
         built_for(p) < std::size(kBuilt) && unit_count(variant, p) <= kMaxInt - kSmallWarps;
}

std::size_t stem_block_packed_bytes(StemBlockVariant variant, const StemBlockParams& params) {
  return is_float(variant) ? stem_block_simt::packed_bytes(variant, params)
                           : static_cast<std::size_t>(sizes_for(params).packed_bytes);
}

void stem_block_pack(StemBlockVariant variant, const StemBlockParams& params, const StemBlockWeights& weights,
                     void* packed) {
  if (is_float(variant)) return stem_block_simt::pack(variant, params, weights, packed);
  const Sizes s = sizes_for(params);
  auto* const bytes = static_cast<unsigned char*>(packed);
  std::vector<float> biases(static_cast<std::size_t>(s.bias_vectors) * 4);
  pack_biases(params, s, weights, biases.data());
  std::memcpy(bytes, biases.data(), static_cast<std::size_t>(s.bias_bytes));
  for (int lane = 0; lane < 32; ++lane) {
    const std::vector<std::uint32_t> words = pack_lane(params, s, weights, lane);
    for (int i = 0; i < s.operand_vectors; ++i) {
      std::memcpy(bytes + s.bias_bytes + i * kVectorBytes + lane * 16, words.data() + std::ptrdiff_t{4} * i, 16);
    }
  }
}

cudaError_t stem_block(StemBlockVariant variant, const StemBlockParams& params, const void* x, const void* packed,
                       void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  if (params.n == 0) return cudaSuccess;
  if (is_float(variant)) return stem_block_simt::launch(variant, params, x, packed, y, where);
  const Arguments a = arguments(variant, params);
  const unsigned warps = is_small(variant) ? kSmallWarps : kWarps;
  return launch(device_kernel(variant, params, x), dim3((a.units + warps - 1) / warps), dim3(32 * warps), 0, where, a,
                x, static_cast<const unsigned char*>(packed), static_cast<__half*>(y));
}

// The kernel's table.
namespace {

std::string_view packing(StemBlockVariant variant) {
  return is_float(variant) ? stem_block_simt::packing(variant) : "mma";
}

OperandBytes operands(StemBlockVariant variant, const StemBlockParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.input == StemInput::NhwcUint8 ? 1 : sizeof(float), p.n, p.h, p.w, 3);
  bytes.weights[0] = table::as_bytes(stem_block_packed_bytes(variant, p));
  bytes.y = table::bytes(p.elem, p.n, p.out_h, p.out_w, p.c_out);
  return bytes;
}

cudaError_t launch_on(StemBlockVariant variant, const StemBlockParams& p, const Operands& at, const Launch& where) {
  return stem_block(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const StemBlockParams& p) {
  table::ShapeText text("stem_block");
  text.with("input", static_cast<int>(p.input)).with("n", p.n).with("h", p.h).with("w", p.w);
  text.with("c_stem", p.c_stem).with("c_out", p.c_out).with("stem_h", p.stem_h).with("stem_w", p.stem_w);
  text.with("out_h", p.out_h).with("out_w", p.out_w);
  text.with("stem_pad_top", p.stem_pad_top).with("stem_pad_left", p.stem_pad_left);
  text.with("depthwise_pad_top", p.depthwise_pad_top).with("depthwise_pad_left", p.depthwise_pad_left);
  text.with("stem_clip", p.stem_clip).with("depthwise_clip", p.depthwise_clip);
  return text.with("project_clip", p.project_clip).take();
}

}  // namespace

const KernelTable<StemBlockParams, StemBlockVariant>& kernel_of(const StemBlockParams&) {
  static const KernelTable<StemBlockParams, StemBlockVariant> kTable{
      .name = "stem_block",
      .variants = stem_block_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packing = packing,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<StemBlockParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
