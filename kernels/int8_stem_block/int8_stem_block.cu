// The beginning of a quantised MobileNetV2: variants, limits, packing, launch. The kernel: kernel.cuh.

#include "kernels/int8_stem_block/int8_stem_block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/int8_stem_block/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using int8_stem::Arguments;
using int8_stem::Config;
using int8_stem::Head;
using int8_stem::InputForm;
using int8_stem::kSlice;
using int8_stem::kTaps;
using int8_stem::kTapsPitch;
using int8_stem::kWindow;
using int8_stem::Quantizer;
using int8_stem::Shape;
using int8_stem::Sizes;
using int8_stem::sizes_of;
using Params = Int8StemBlockParams;
using Variant = Int8StemBlockVariant;
using Layers = Int8StemBlockLayers;
using Input = Int8StemInput;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr int kLanes = 32;
constexpr int kChannels = 3;  // of the image
constexpr int kStride = 2;
constexpr std::string_view kName = "int8_stem_block";

using Kernel = void (*)(Arguments, const unsigned char* x, const unsigned char* packed, unsigned char* y);

struct Entry {
  Variant variant;
  std::string_view name;
  Config config;
  Kernel floats, pairs, words;
};

template <Config kConfig>
constexpr Entry entry(Variant variant, std::string_view name) {
  using S = Shape<kConfig>;
  return {variant,
          name,
          kConfig,
          int8_stem::stem_block_kernel<S, InputForm::Floats>,
          int8_stem::stem_block_kernel<S, InputForm::FloatPairs>,
          int8_stem::stem_block_kernel<S, InputForm::Words>};
}

// clang-format off
constexpr Entry kEntries[] = {
    //    channels     tile  warps min_blocks
    entry<Config{32, 16,   4, 28,   4, 2}>(Variant::Tile4x28K32N16, "4x28_k32_n16"),
    entry<Config{32, 16,  14, 28,   4, 4}>(Variant::Tile14x28K32N16, "14x28_k32_n16"),
    entry<Config{32, 16,  14, 28,   8, 1}>(Variant::Tile14x28K32N16Warps8, "14x28_k32_n16_warps8"),
    entry<Config{32, 16,  16, 28,   4, 4}>(Variant::Tile16x28K32N16, "16x28_k32_n16"),
    entry<Config{64, 32,   4, 28,   4, 1}>(Variant::Tile4x28K64N32, "4x28_k64_n32"),
    entry<Config{64, 32,  16, 28,   8, 2}>(Variant::Tile16x28K64N32, "16x28_k64_n32"),
};
// clang-format on
static_assert(in_order_of_variants(kEntries));

constexpr std::array kVariants = variants_of(kEntries);

const Entry& entry_of(Variant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

/// Whether a 3x3 convolution pads by at most kMostPadding before and behind.
bool is_padded(int size, int out, int stride, int pad) {
  constexpr int kMostPadding = 2;
  constexpr int kMostExtent = 1 << 28;  // coordinates are ints
  if (size < 1 || out < 1 || size > kMostExtent || out > kMostExtent || pad < 0 || pad > kMostPadding) return false;
  return (out - 1) * stride + kWindow - pad - size <= kMostPadding;
}

bool is_sane(const Params& p) {
  if (p.n < 0 || p.c_stem < 1 || p.c_out < 1) return false;
  if (!is_padded(p.h, p.stem_h, kStride, p.stem_pad_top) || !is_padded(p.w, p.stem_w, kStride, p.stem_pad_left) ||
      !is_padded(p.stem_h, p.out_h, 1, p.depthwise_pad_top) || !is_padded(p.stem_w, p.out_w, 1, p.depthwise_pad_left)) {
    return false;
  }
  if (!is_valid(p.x) || !is_valid(p.stem_result) || !is_valid(p.depthwise_result) || !is_valid(p.result)) return false;
  if (p.input == Input::Words && (p.x.low != kLowestByte || p.x.high != kHighestByte)) return false;
  // What is outside of the image is the zero point. Offsets in a channel and in an image of y are 32 bits.
  return is_scale(p.x_scale) && p.x.zero_point >= p.x.low && p.x.zero_point <= p.x.high &&
         std::int64_t{p.h} * p.w <= kMaxInt / 4 &&
         std::int64_t{p.out_h} * p.out_w <= kMaxInt / round_up(p.c_out, kChannelStep);
}

std::int64_t tiles_of(const Config& config, const Params& p) {
  return std::int64_t{std::max(p.n, 1)} * ceil_div(p.out_h, config.tile_h) * ceil_div(p.out_w, config.tile_w);
}

// The quantisation of the image.

float nearest_below(float x) { return std::nextafter(x, -std::numeric_limits<float>::infinity()); }

/// As quantize has it, before the zero point.
float divided(const Quantizer& q, float x) { return std::nearbyint(x / q.scale); }
float multiplied(const Quantizer& q, float x) { return std::nearbyint(std::fma(x, q.factor, x * q.rest)); }

/// The least x that divided() makes at least `whole` of; NaN where it is not found beside the quotient's own.
float threshold(const Quantizer& q, int whole) {
  constexpr int kMostSteps = 8;
  const auto at = static_cast<float>(whole);
  float x = (at - 0.5F) * q.scale;
  for (int i = 0; i < kMostSteps && divided(q, x) >= at; ++i) x = nearest_below(x);
  for (int i = 0; i < 2 * kMostSteps; ++i) {
    if (divided(q, x) >= at) return divided(q, nearest_below(x)) < at ? x : std::numeric_limits<float>::quiet_NaN();
    x = std::nextafter(x, std::numeric_limits<float>::infinity());
  }
  return std::numeric_limits<float>::quiet_NaN();
}

/// Both ways grow with x, so that they are equal everywhere if they step from each whole number to the next at the same
/// x.
bool are_equal(const Quantizer& q, int least, int most) {
  if (divided(q, q.least) != static_cast<float>(least) || multiplied(q, q.least) != static_cast<float>(least) ||
      divided(q, q.most) != static_cast<float>(most) || multiplied(q, q.most) != static_cast<float>(most)) {
    return false;
  }
  for (int whole = least + 1; whole <= most; ++whole) {
    const float x = threshold(q, whole);
    const auto at = static_cast<float>(whole);
    if (!(multiplied(q, x) == at) || !(multiplied(q, nearest_below(x)) == at - 1.0F)) return false;
  }
  return true;
}

Quantizer quantizer_of(const Params& p) {
  const int least = p.x.low - p.x.zero_point;
  const int most = p.x.high - p.x.zero_point;
  const double exact = 1.0 / static_cast<double>(p.x_scale);
  Quantizer q{};
  q.scale = p.x_scale;
  q.factor = static_cast<float>(exact);
  q.rest = static_cast<float>(exact - static_cast<double>(q.factor));
  q.least = static_cast<float>(least) * p.x_scale;
  q.most = static_cast<float>(most) * p.x_scale;
  // Within these, nothing is subnormal or infinite on the way.
  constexpr float kLeastScale = 1e-20F;
  constexpr float kMostScale = 1e20F;
  q.divides = p.x_scale > kLeastScale && p.x_scale < kMostScale && are_equal(q, least, most) ? 0 : 1;
  return q;
}

// Packing.

void put(unsigned char* to, const auto& value) { std::memcpy(to, &value, sizeof value); }

/// The channel, of 32, that column `column` of n-tile `tile` has: so a lane's columns of `tiles` n-tiles are
/// neighbours.
int channel_of_column(int tiles, int tile, int column) { return column / 2 * 2 * tiles + tile * 2 + column % 2; }

/// The channel, of a slice's 32, that byte `byte` of word `word` of a lane's fragment multiplies in the projection:
/// what the lane has of four groups' sums in depthwise.
int hidden_of_word(int lane, int word, int byte) { return (word * 2 + byte / 2) * 8 + lane % 4 * 2 + byte % 2; }

/// The weight that meets channel c of the image at (ky, kx).
int stem_weight(int c, int ky, int kx) { return c * kTaps + ky * kWindow + kx; }

class Packer {
 public:
  Packer(const Config& config, const Params& params, const Layers& layers)
      : config_(config), params_(params), layers_(layers), sizes_(sizes_of(config)), small_sums_(small_sums()) {}

  void pack(unsigned char* to) const {
    std::memset(to, 0, static_cast<std::size_t>(sizes_.layout.bytes));
    put(to, Head{small_sums_ ? 0 : 1, quantizer_of(params_), 0});
    for (int c = 0; c < config_.c_out; ++c) {
      const bool present = c < params_.c_out;
      put_begin(to + sizes_.layout.project_begin, c, begin_of(present ? project(c).bias() : 0, kBitsOfSmallSum));
      put(to + sizes_.layout.project_scale + c * 4, present ? project(c).multiplier() : 0.0F);
    }
    for (int slice = 0; slice < sizes_.slices; ++slice) {
      unsigned char* const at = to + sizes_.layout.slices + slice * sizes_.layout.slice_bytes;
      pack_stem(slice * kSlice, at);
      pack_depthwise(slice * kSlice, at);
      pack_project(slice * kSlice, at);
    }
  }

 private:
  Int8Channel stem(int c) const { return channel(layers_.stem, c, kChannels * kTaps, params_.x, params_.stem_result); }
  Int8Channel depthwise(int c) const {
    return channel(layers_.depthwise, c, kTaps, params_.stem_result, params_.depthwise_result);
  }
  Int8Channel project(int c) const {
    return channel(layers_.project, c, params_.c_stem, params_.depthwise_result, params_.result);
  }
  static Int8Channel channel(const Int8Layer& layer, int c, int products, const ByteRange& x, const ByteRange& result) {
    return {layer, c, products, stored_zero_point(x), 0, x.high - x.low, result};
  }

  /// Whether rounded_clipped_sum() is right for s and d, and rounded_small_sum() for y.
  bool small_sums() const {
    constexpr std::int64_t kLimit = std::int64_t{1} << 22U;
    const auto is_small = [](const Int8Channel& channel) {
      const Int8SumRange& sums = channel.sums();
      if (sums.least <= -kLimit || sums.most >= kLimit) return false;
      const auto largest = static_cast<float>(std::max(std::abs(sums.least), std::abs(sums.most)));
      return largest * channel.multiplier() < kMostUnclipped;
    };
    if (stored_zero_point(params_.stem_result) != 0 || stored_zero_point(params_.depthwise_result) != 0) return false;
    for (int c = 0; c < params_.c_stem; ++c) {
      if (!is_small(stem(c)) || !is_small(depthwise(c))) return false;
    }
    for (int c = 0; c < params_.c_out; ++c) {
      if (!is_small(project(c))) return false;
    }
    return true;
  }

  /// What the sums of a channel begin at.
  std::uint32_t begin_of(std::int64_t bias, std::int32_t small_bits) const {
    return static_cast<std::uint32_t>(bias + (small_sums_ ? small_bits : 0));
  }

  /// Of the i-th of channels that lie in the order of lanes.
  static void put_begin(unsigned char* to, int i, std::uint32_t begin) {
    put(to + i / 2 * 16 + i % 2 * 4, begin);
    put(to + i / 2 * 16 + i % 2 * 4 + 8, begin);
  }

  /// Bias, multiplier and offset of a channel of s or d.
  struct Scale {
    std::uint32_t begin;
    float scale, offset;
  };
  Scale scale_of(const Int8Channel& channel) const {
    return {begin_of(channel.bias(), kBitsOfClippedSum), channel.multiplier(),
            channel.multiplier() * kClippedSumOffset};
  }
  Scale no_channel() const { return {begin_of(0, kBitsOfClippedSum), 0.0F, 0.0F}; }

  void pack_stem(int first, unsigned char* to) const {
    const auto weight = [&](int channel, int byte, int ky, int kx) {
      if (first + channel >= params_.c_stem || byte >= kChannels || kx >= kWindow) return std::int8_t{0};
      return stem(first + channel).weight(stem_weight(byte, ky, kx));
    };
    for (int tile = 0; tile < 4; ++tile) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const int channel = channel_of_column(4, tile, lane / 4);
        const int kx = lane % 4;  // a lane's words are a pixel each
        unsigned char* const two = to + (tile / 2 * kLanes + lane) * 16 + tile % 2 * 8;
        unsigned char* const last = to + sizes_.layout.stem_last + lane * 16 + tile * 4;
        for (int byte = 0; byte < 4; ++byte) {
          put(two + byte, weight(channel, byte, 0, kx));
          put(two + 4 + byte, weight(channel, byte, 1, kx));
          put(last + byte, weight(channel, byte, 2, kx));
        }
      }
    }
    for (int i = 0; i < kSlice; ++i) {
      const int c = first + i;
      const Scale scale = c < params_.c_stem ? scale_of(stem(c)) : no_channel();
      put_begin(to + sizes_.layout.stem_begin, i, scale.begin);
      put(to + sizes_.layout.stem_scale + i * 4, scale.scale);
      put(to + sizes_.layout.stem_offset + i * 4, scale.offset);
    }
  }

  void pack_depthwise(int first, unsigned char* to) const {
    for (int i = 0; i < kSlice; ++i) {
      const int c = first + i;
      const bool present = c < params_.c_stem;
      for (int tap = 0; present && tap < kTaps; ++tap) {
        put(to + sizes_.layout.taps + i * kTapsPitch + tap / kWindow * 4 + tap % kWindow, depthwise(c).weight(tap));
      }
      const Scale scale = present ? scale_of(depthwise(c)) : no_channel();
      put_begin(to + sizes_.layout.depthwise_begin, i, scale.begin);
      unsigned char* const at = to + sizes_.layout.depthwise_scale + i / 2 * 16 + i % 2 * 4;
      put(at, scale.scale);
      put(at + 8, scale.offset);
    }
  }

  void pack_project(int first, unsigned char* to) const {
    for (int tile = 0; tile < sizes_.out_tiles; ++tile) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const int channel = channel_of_column(sizes_.out_tiles, tile, lane / 4);
        unsigned char* const at = to + sizes_.layout.project + (tile / 2 * kLanes + lane) * 16 + tile % 2 * 8;
        for (int i = 0; i < 8; ++i) {
          const int hidden = first + hidden_of_word(lane, i / 4, i % 4);
          if (channel < params_.c_out && hidden < params_.c_stem) put(at + i, project(channel).weight(hidden));
        }
      }
    }
  }

  const Config& config_;
  const Params& params_;
  const Layers& layers_;
  Sizes sizes_;
  bool small_sums_;
};

Arguments arguments(const Config& config, const Params& p) {
  constexpr std::uint32_t kThreeConstants =
      kBitsOfRoundToWhole + (kBitsOfRoundToWhole << 8U) + (kBitsOfRoundToWhole << 16U);
  Arguments a{};
  a.h = p.h;
  a.w = p.w;
  a.stem_h = p.stem_h;
  a.stem_w = p.stem_w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.stem_top = p.depthwise_pad_top;
  a.stem_left = p.depthwise_pad_left;
  a.input_top = kStride * p.depthwise_pad_top + p.stem_pad_top;
  a.input_left = kStride * p.depthwise_pad_left + p.stem_pad_left;
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, config.tile_w)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, config.tile_h)));
  a.row_bytes = static_cast<std::uint32_t>(p.w) * 4U;  // floats, or words
  a.plane_bytes = static_cast<std::uint32_t>(p.h) * a.row_bytes;
  a.input_padding = four_bytes(stored_zero_point(p.x));
  a.input_offset = 0x010101U * static_cast<std::uint32_t>(stored_zero_point(p.x)) - kThreeConstants;
  a.input_low = static_cast<float>(p.x.low - p.x.zero_point);
  a.input_high = static_cast<float>(p.x.high - p.x.zero_point);
  a.padding = four_bytes(stored_zero_point(p.stem_result));
  a.hidden = unsigned_pair_of(p.stem_result);
  a.filtered = unsigned_pair_of(p.depthwise_result);
  a.output = unsigned_pair_of(p.result);
  a.output_low = two_halves(p.result.low & 0xFF);
  return a;
}

Kernel kernel_for(const Entry& entry, const Params& p, const void* x) {
  if (p.input == Input::Words) return entry.words;
  const bool pairs = p.w % 2 == 0 && p.stem_pad_left % 2 == 0 && reinterpret_cast<std::uintptr_t>(x) % 8 == 0;
  return pairs ? entry.pairs : entry.floats;
}

}  // namespace

std::span<const Variant> int8_stem_block_variants() { return kVariants; }

std::string_view name(Variant variant) { return entry_of(variant).name; }

bool supports(Variant variant, const Params& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 80;
  if (static_cast<std::size_t>(variant) >= std::size(kEntries) || !is_sane(p)) return false;
  const Config& config = entry_of(variant).config;
  return gpu.code >= kOldest && static_cast<std::size_t>(sizes_of(config).shared_bytes) <= gpu.shared_bytes_per_block &&
         p.c_stem <= config.c_stem && round_up(p.c_out, kChannelStep) == config.c_out && tiles_of(config, p) <= kMaxInt;
}

std::size_t int8_stem_block_packed_bytes(Variant variant, const Params& /*params*/) {
  return static_cast<std::size_t>(sizes_of(entry_of(variant).config).layout.bytes);
}

void int8_stem_block_pack(Variant variant, const Params& params, const Layers& layers, void* packed) {
  Packer(entry_of(variant).config, params, layers).pack(static_cast<unsigned char*>(packed));
}

cudaError_t int8_stem_block(Variant variant, const Params& params, const void* x, const void* packed, void* y,
                            const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  if (params.n == 0) return cudaSuccess;
  const Entry& entry = entry_of(variant);
  const Sizes sizes = sizes_of(entry.config);
  const auto shared_bytes = static_cast<std::size_t>(sizes.shared_bytes);
  const Kernel kernel = kernel_for(entry, params, x);
  if (const cudaError_t status = allow_shared_memory(kernel, shared_bytes); status != cudaSuccess) return status;
  return launch(kernel, dim3(static_cast<unsigned>(tiles_of(entry.config, params))),
                dim3(static_cast<unsigned>(sizes.threads)), shared_bytes, where, arguments(entry.config, params),
                static_cast<const unsigned char*>(x), static_cast<const unsigned char*>(packed),
                static_cast<unsigned char*>(y));
}

// The kernel's table.
namespace {

/// Variants with room for the same channels pack alike.
std::string_view packing(Variant variant) { return entry_of(variant).config.c_stem == kSlice ? "k32_n16" : "k64_n32"; }

OperandBytes operands(Variant variant, const Params& p) {
  OperandBytes bytes;
  bytes.x = p.input == Input::Words ? table::bytes(4, p.n, p.h, p.w) : table::bytes(sizeof(float), p.n, p.h, p.w, 3);
  bytes.weights[0] = table::as_bytes(int8_stem_block_packed_bytes(variant, p));
  bytes.y = table::bytes(1, p.n, p.out_h, p.out_w, round_up(p.c_out, kChannelStep));
  return bytes;
}

cudaError_t launch_on(Variant variant, const Params& p, const Operands& at, const Launch& where) {
  return int8_stem_block(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const Params& p) {
  table::ShapeText text(kName);
  text.with("input", static_cast<int>(p.input)).with("n", p.n).with("h", p.h).with("w", p.w);
  text.with("c_stem", p.c_stem).with("c_out", p.c_out).with("stem_h", p.stem_h).with("stem_w", p.stem_w);
  text.with("out_h", p.out_h).with("out_w", p.out_w);
  text.with("stem_pad_top", p.stem_pad_top).with("stem_pad_left", p.stem_pad_left);
  text.with("depthwise_pad_top", p.depthwise_pad_top).with("depthwise_pad_left", p.depthwise_pad_left);
  return text.take();
}

}  // namespace

const KernelTable<Params, Variant>& kernel_of(const Params&) {
  static const KernelTable<Params, Variant> kTable{
      .name = kName,
      .variants = kVariants,
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packing = packing,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<Params>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
