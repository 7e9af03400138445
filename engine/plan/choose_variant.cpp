#include "plan/choose_variant.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

namespace mobicuda {
namespace {

using namespace kernels;

constexpr BlockForm kBlockForms[] = {BlockForm::Layers, BlockForm::ExpandDepthwise, BlockForm::Fused};
constexpr BlockForm kPairForms[] = {BlockForm::Layers, BlockForm::Fused};
constexpr const char* kNamed = "named";

template <class Variant>
std::string names_of(std::span<const Variant> variants) {
  std::string text;
  for (const Variant variant : variants) text += (text.empty() ? "" : ", ") + std::string(name(variant));
  return text;
}

template <class Variant>
void require_name(std::span<const Variant> variants, const std::string& kernel, const std::string& wanted) {
  const bool exists = std::any_of(variants.begin(), variants.end(), [&](Variant v) { return name(v) == wanted; });
  if (exists) return;
  throw Error(ErrorCode::invalid_argument, "kernel variant of '" + kernel + "'", "there is no '" + wanted + "'",
              "choose one of " + names_of(variants));
}

// The named variant where there is a name, else the first of `preferred` that runs the shape, else any that does.
template <class Variant, class Params>
Variant pick(const std::map<std::string, std::string>& by_name, const char* kernel, std::span<const Variant> variants,
             const Params& params, int capability, const std::vector<Variant>& preferred) {
  if (const auto named = by_name.find(kernel); named != by_name.end()) {
    for (const Variant variant : variants) {
      if (name(variant) != named->second) continue;
      if (supports(variant, params, capability)) return variant;
      throw Error(ErrorCode::unsupported, "kernel variant '" + named->second + "' of '" + kernel + "'",
                  "does not run this layer's shape", "leave the choice to the planner");
    }
  }
  for (const Variant variant : preferred) {
    if (supports(variant, params, capability)) return variant;
  }
  for (const Variant variant : variants) {
    if (supports(variant, params, capability)) return variant;
  }
  throw Error(ErrorCode::unsupported, kernel, "no variant runs this layer's shape on this GPU");
}

// A matrix product seen as tiles; the rules below are the tables of docs/kernels/gemm.md.
class GemmShape {
 public:
  GemmShape(const GemmParams& params, int multiprocessors) : params_(params), multiprocessors_(multiprocessors) {}

  // Tiles of rows x columns for each multiprocessor.
  double waves(int rows, int columns) const {
    const auto tiles = static_cast<double>(ceil_div(params_.m, rows)) * ceil_div(params_.n, columns);
    return tiles / multiprocessors_;
  }
  // Computed columns for each column that is wanted.
  double padding(int columns) const { return static_cast<double>(round_up(params_.n, columns)) / params_.n; }

  std::vector<GemmVariant> half_variants() const {
    using enum GemmVariant;
    const int n = params_.n;
    const int k = params_.k;
    std::vector<GemmVariant> found;
    const auto prefer = [&](bool applies, GemmVariant variant) {
      if (applies) found.push_back(variant);
    };
    prefer(params_.m <= 8, Gemv);
    prefer(n <= 16 && waves(256, 16) >= 2, Mma256x16x32);
    prefer(n <= 32 && waves(128, 32) >= 1.5, Mma128x32x64);
    prefer(k <= 160 && padding(96) <= 4.0 / 3 && waves(128, 96) >= 1.5, Mma128x96x32);
    prefer(n >= 128 && k >= 128 && padding(128) <= 1.25 && waves(128, 128) >= 1.5, Mma128x128x64);
    prefer(n > 32 && waves(128, 64) >= 1.5, Mma128x64x64);
    prefer(k <= 32 && waves(64, 32) >= 0.9, Mma64x32x32);
    prefer(n > 32 && waves(64, 64) >= 1, Mma64x64x64);
    prefer(k >= 384 && n <= 160 && waves(64, 32) >= 0.9 && waves(64, 32) < 1.6, Mma32x32x64K2);
    prefer(waves(64, 32) >= 0.9, k > 64 ? Mma64x32x64K2 : Mma64x32x32);
    prefer(waves(32, 32) >= 0.9, Mma32x32x64K2);
    prefer(waves(16, 32) >= 0.75, Mma16x32x128K4);
    prefer(true, Mma16x16x256K8);
    prefer(waves(64, 64) >= 1, Simt64x64x16);
    prefer(true, Simt32x32x32K4);
    return found;
  }

  std::vector<GemmVariant> float_variants() const {
    using enum GemmVariant;
    const int n = params_.n;
    std::vector<GemmVariant> found;
    const auto prefer = [&](bool applies, GemmVariant variant) {
      if (applies) found.push_back(variant);
    };
    prefer(params_.m <= 8, Gemv);
    prefer(n <= 16 && waves(256, 16) >= 2, Simt256x16x16);
    prefer(n <= 32 && waves(128, 32) >= 2, Simt128x32x16);
    prefer(waves(128, 128) >= 2 && padding(128) <= std::min(1.2, padding(64)), Simt128x128x16);
    prefer(n > 32 && waves(128, 64) >= 2 && padding(64) <= 1.2 * padding(32), Simt128x64x16);
    prefer(waves(128, 32) >= 3, Simt128x32x16);
    prefer(n > 32 && waves(64, 64) >= 1.5, Simt64x64x16);
    prefer(waves(32, 32) >= 0.9, Simt32x32x32K4);
    prefer(waves(16, 32) >= 0.75, Simt16x32x64K8);
    prefer(true, Simt16x16x128K16);
    prefer(true, Simt32x32x32K4);
    prefer(true, Simt64x64x16);
    return found;
  }

 private:
  const GemmParams& params_;
  int multiprocessors_;
};

// Output pixels of a batch: up to kFewPixels what counts are dependent steps, up to kSplittingPays kernels, then
// traffic.
constexpr int kFewPixels = 256;
constexpr int kManyPixels = 1000;
constexpr int kSplittingPays = 8000;

// An inverted residual block's output seen as tiles. The thresholds are measured: docs/performance.md.
class BlockShape {
 public:
  BlockShape(const InvertedResidualParams& params, int multiprocessors)
      : params_(params), multiprocessors_(multiprocessors) {}

  // Tiles of rows x columns for each multiprocessor.
  double waves(int rows, int columns) const {
    const double tiles =
        static_cast<double>(params_.n) * ceil_div(params_.out_h, rows) * ceil_div(params_.out_w, columns);
    return tiles / multiprocessors_;
  }

  // Up to so many pictures, a cluster of blocks computes late blocks faster than two kernels do.
  bool few_pictures() const {
    constexpr int kFew = 4;
    constexpr int kMore = 8;  // where the block changes the number of channels of a 14x14 picture
    return params_.n <= (params_.residual || params_.h * params_.w < kLargePicture ? kFew : kMore);
  }

  // Why one launch is faster than several; null where it is not.
  const char* why_fuse() const { return params_.elem == Elem::F16 ? why_fuse_half() : why_fuse_float(); }

 private:
  static constexpr int kNarrow = 192;        // hidden channels
  static constexpr int kLargePicture = 100;  // output pixels

  static constexpr const char* kNarrowPays = "rule: a narrow hidden tensor stays on the multiprocessor";
  static constexpr const char* kWholePicturesPay = "rule: whole pictures for every multiprocessor";

  const char* why_fuse_half() const {
    // Without an expansion there is less to save: only where the launches count, or the traffic.
    if (!params_.expand) {
      if (waves(14, 14) <= 1) return "rule: few pixels, one launch";
      return waves(14, 14) >= 8 ? "rule: many pixels, less traffic" : nullptr;
    }
    if (params_.c_hidden <= kNarrow) return kNarrowPays;
    if (few_pictures()) return "rule: few pictures, one launch a block";
    // Wide hidden tensors pass a multiprocessor slowly: only where every multiprocessor has whole pictures to do.
    const double pictures = waves(14, 14);
    const bool pays = params_.stride == 1 && params_.out_h * params_.out_w >= kLargePicture && pictures >= 0.9 &&
                      pictures / std::ceil(pictures) >= 0.9;
    return pays ? kWholePicturesPay : nullptr;
  }

  const char* why_fuse_float() const {
    if (params_.c_hidden <= kNarrow) return kNarrowPays;
    const bool pays = params_.stride == 1 && params_.out_h * params_.out_w >= kLargePicture && waves(14, 14) >= 1.5;
    return pays ? kWholePicturesPay : nullptr;
  }

  const InvertedResidualParams& params_;
  int multiprocessors_;
};

}  // namespace

std::string_view name(BlockForm form) {
  switch (form) {
    case BlockForm::Layers:
      return "layers";
    case BlockForm::ExpandDepthwise:
      return "expand_depthwise";
    case BlockForm::Fused:
      return "fused";
  }
  return "";
}

VariantChooser::VariantChooser(GpuTraits gpu, const std::map<std::string, std::string>& by_name)
    : gpu_(gpu), by_name_(by_name) {
  for (const auto& [kernel, variant] : by_name_) {
    if (kernel == "gemm") {
      require_name(gemm_variants(), kernel, variant);
    } else if (kernel == "depthwise_conv") {
      require_name(depthwise_conv_variants(), kernel, variant);
    } else if (kernel == "conv2d") {
      require_name(conv2d_variants(), kernel, variant);
    } else if (kernel == "inverted_residual") {
      require_name(inverted_residual_variants(), kernel, variant);
    } else if (kernel == "expand_depthwise") {
      require_name(expand_depthwise_variants(), kernel, variant);
    } else if (kernel == "pointwise_pool") {
      require_name(pointwise_pool_variants(), kernel, variant);
    } else if (kernel == "block") {
      require_name(std::span<const BlockForm>(kBlockForms), kernel, variant);
    } else if (kernel == "stem_block") {
      require_name(stem_block_variants(), kernel, variant);
    } else if (kernel == "head" || kernel == "stem") {
      require_name(std::span<const BlockForm>(kPairForms), kernel, variant);
    } else {
      throw Error(ErrorCode::invalid_argument, "kernel variant", "no kernel '" + kernel + "' has variants",
                  "choose one of gemm, depthwise_conv, conv2d, inverted_residual, expand_depthwise, pointwise_pool, "
                  "stem_block, block, head, stem");
    }
  }
}

GemmVariant VariantChooser::gemm(const GemmParams& params) const {
  const GemmShape shape(params, gpu_.multiprocessors);
  return pick(by_name_, "gemm", gemm_variants(), params, gpu_.compute_capability,
              params.elem == Elem::F16 ? shape.half_variants() : shape.float_variants());
}

// The rule of docs/kernels/depthwise_conv.md, with its thread counts for 132 multiprocessors.
DepthwiseConvVariant VariantChooser::depthwise_conv(const DepthwiseConvParams& params) const {
  using enum DepthwiseConvVariant;
  constexpr double kMeasuredMultiprocessors = 132;
  const auto enough_threads = [&](DepthwiseConvVariant variant, double wanted) {
    const DepthwiseConvTile t = tile(variant, params.elem);
    const double threads = static_cast<double>(params.n) * ceil_div(params.out_h, t.rows) *
                           ceil_div(params.out_w, t.columns) * ceil_div(params.c, t.channels);
    return threads >= wanted * gpu_.multiprocessors / kMeasuredMultiprocessors;
  };
  std::vector<DepthwiseConvVariant> preferred;
  if (params.stride_h == 1 && params.out_h % 7 == 0 && enough_threads(Strip7x2B16, 66000)) {
    preferred.push_back(Strip7x2B16);
  }
  if (enough_threads(Strip4x2B16, 50000)) preferred.insert(preferred.end(), {Strip4x2B16, Strip4x4B8});
  if (enough_threads(Strip2x2B16, 34000)) preferred.push_back(Strip2x2B16);
  if (enough_threads(Strip2x2B8, 9000)) preferred.push_back(Strip2x2B8);
  preferred.push_back(Strip1x1B8);
  return pick(by_name_, "depthwise_conv", depthwise_conv_variants(), params, gpu_.compute_capability, preferred);
}

// The rule of docs/kernels/conv2d.md.
Conv2dVariant VariantChooser::conv2d(const Conv2dParams& params) const {
  using enum Conv2dVariant;
  const double large_tiles = static_cast<double>(params.n) * ceil_div(params.out_h, 16) * ceil_div(params.out_w, 16);
  std::vector<Conv2dVariant> preferred{Stem3x3P2C4, Direct4x4, Direct};
  if (large_tiles >= 2.0 * gpu_.multiprocessors) preferred.insert(preferred.begin(), Stem3x3P8C8);
  return pick(by_name_, "conv2d", conv2d_variants(), params, gpu_.compute_capability, preferred);
}

bool VariantChooser::runs(const Conv2dParams& params) const {
  const auto named = by_name_.find("conv2d");
  const auto variants = conv2d_variants();
  return std::any_of(variants.begin(), variants.end(), [&](Conv2dVariant variant) {
    return (named == by_name_.end() || named->second == kernels::name(variant)) &&
           supports(variant, params, gpu_.compute_capability);
  });
}

// Few pictures: the families made for them. Many: tiles that fill the GPU once, the largest first. The thresholds are
// measured: docs/performance.md, "Blocks in one launch".
InvertedResidualVariant VariantChooser::inverted_residual(const InvertedResidualParams& params) const {
  using enum InvertedResidualVariant;
  const BlockShape shape(params, gpu_.multiprocessors);
  std::vector<InvertedResidualVariant> preferred;
  const auto prefer = [&](bool applies, std::initializer_list<InvertedResidualVariant> variants) {
    if (applies) preferred.insert(preferred.end(), variants);
  };
  prefer(true, {SmallS2Tile4x8C96N24Slice48});
  prefer(shape.waves(4, 8) > 4, {SmallS1Tile8x8C144N24});
  prefer(shape.waves(4, 8) > 20, {SmallS1Tile4x8C192N32});
  prefer(shape.waves(2, 4) > 2, {SmallS2Tile4x4C144N32});
  prefer(shape.waves(2, 4) > 1, {SmallS1Tile4x4C192N32});
  prefer(shape.waves(2, 2) > 0.5, {SmallS2Tile2x4C192N64});
  prefer(true, {SmallS1Tile4x8C144N24, SmallS2Tile2x4C144N32, SmallS1Tile2x4C192N32, SmallS2Tile2x2C192N64});
  prefer(params.n <= 2, {Cluster4K64N96, Cluster4K96N160});
  prefer(shape.few_pictures(),
         {Cluster4K64N64, Cluster2K64N96, Cluster6K96N96, Cluster6K96N160, Cluster6K160N160, Cluster8K160N320});
  prefer(shape.waves(14, 14) >= 1.5, {PlainTile14x14C32N16});
  prefer(true, {PlainTile7x14C32N16});
  prefer(shape.waves(14, 14) >= 2, {S1Tile14x14C48N32});
  prefer(shape.waves(14, 14) >= 0.9, {S1Tile14x14C64N32, S1Tile14x14C64N64, S1Tile14x14C64N96});
  prefer(shape.waves(7, 14) >= 1.5, {S2Tile7x14C48N32});
  prefer(shape.waves(7, 7) >= 0.9, {S1Tile7x7C64N64, S2Tile7x7C48N64});
  prefer(shape.waves(4, 7) >= 0.8, {S1Tile4x7C144N32, S2Tile4x7C96N32});
  prefer(shape.waves(2, 4) >= 0.7, {S1Tile2x4C192N32, S2Tile2x4C144N32});
  prefer(true, {S1Tile2x2C192N64, S2Tile2x2C192N64, S1Tile7x7C64N64, S2Tile7x7C48N64});
  // Exact float.
  prefer(shape.waves(14, 14) >= 0.8, {SimtPlainTile14x14C32N16, SimtS1Tile14x14C16N24});
  prefer(shape.waves(14, 14) >= 0.9, {SimtS1Tile14x14C16N32});
  prefer(shape.waves(14, 14) >= 1.5, {SimtS1Tile14x14C16N64, SimtS1Tile14x14C16K64N96, SimtS1Tile14x14C16N96});
  prefer(shape.waves(7, 7) >= 1.5,
         {SimtS1Tile7x7C48N32, SimtS2Tile7x8C16N24, SimtS2Tile7x7C16N32, SimtS2Tile7x7C16N64});
  prefer(shape.waves(7, 7) >= 0.8,
         {SimtS1Tile7x7C48N24, SimtS1Tile7x7C96N32, SimtS2Tile7x8C16N24, SimtS2Tile7x7C48N32, SimtS2Tile7x7C48N64});
  prefer(shape.waves(2, 7) >= 0.8, {SimtS2Tile2x7C96N64});
  prefer(true, {SimtPlainTile7x14C32N16, SimtS1Tile4x7C144N24, SimtS1Tile2x4C192N32, SimtS2Tile4x7C96N24,
                SimtS2Tile2x4C144N32, SimtS2Tile2x2C192N64});
  return pick(by_name_, "inverted_residual", inverted_residual_variants(), params, gpu_.compute_capability, preferred);
}

ExpandDepthwiseVariant VariantChooser::expand_depthwise(const ExpandDepthwiseParams& params) const {
  using enum ExpandDepthwiseVariant;
  std::vector<ExpandDepthwiseVariant> preferred;
  if (params.n * params.out_h * params.out_w > kFewPixels) {
    preferred = {Slice32Strip7Bands1, Slice32Strip7Bands2, Slice32Strip7Bands4, Slice32Bands1, Slice32Bands2};
    const bool many = params.n * params.out_h * params.out_w > kManyPixels;
    if (params.out_h > 7) {
      if (many || params.c < 512) std::swap(preferred[0], preferred[1]);
    } else if (params.stride == 2) {
      preferred.insert(preferred.begin(), many ? Slice32Bands2 : Slice32Bands4);
    } else if (!many) {
      preferred.insert(preferred.begin(), Slice32Bands1);
    }
  } else if (params.out_h <= 7) {
    preferred = {Slice8Bands1};
  } else if (params.c >= 512) {
    preferred = {Slice32Bands8};
  } else {
    preferred = {Slice16Bands4};
  }
  return pick(by_name_, "expand_depthwise", expand_depthwise_variants(), params, gpu_.compute_capability, preferred);
}

std::optional<PointwisePoolVariant> VariantChooser::pointwise_pool(const PointwisePoolParams& params) const {
  using enum PointwisePoolVariant;
  constexpr int kFew = 4;
  constexpr int kMany = 16;
  const auto variants = pointwise_pool_variants();
  const auto named = by_name_.find("pointwise_pool");
  const bool runs = std::any_of(variants.begin(), variants.end(), [&](PointwisePoolVariant variant) {
    return (named == by_name_.end() || named->second == kernels::name(variant)) &&
           supports(variant, params, gpu_.compute_capability);
  });
  const auto form = by_name_.find("head");
  const bool wanted = form != by_name_.end() ? form->second == name(BlockForm::Fused)
                                             : named != by_name_.end() || params.n <= kFew || params.n >= kMany;
  if (!runs || !wanted) return std::nullopt;
  std::vector<PointwisePoolVariant> preferred{Slice16, Slice8};
  if (params.n >= kMany) preferred.insert(preferred.begin(), {Pictures2N128, Slice32});
  return pick(by_name_, "pointwise_pool", variants, params, gpu_.compute_capability, preferred);
}

std::optional<StemBlockVariant> VariantChooser::stem_block(const StemBlockParams& params) const {
  using enum StemBlockVariant;
  const auto variants = stem_block_variants();
  const auto named = by_name_.find("stem_block");
  const bool runs = std::any_of(variants.begin(), variants.end(), [&](StemBlockVariant variant) {
    return (named == by_name_.end() || named->second == kernels::name(variant)) &&
           supports(variant, params, gpu_.compute_capability);
  });
  // A form asked for of all blocks is meant for the first one too.
  const auto form = by_name_.contains("stem") ? by_name_.find("stem") : by_name_.find("block");
  if (!runs || (form != by_name_.end() && form->second != name(BlockForm::Fused))) return std::nullopt;
  // Warps of so many rows for each multiprocessor; the thresholds are those of docs/kernels/stem_block.md.
  constexpr int kWarpColumns = 28;
  const auto warps = [&](int rows) {
    return static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, kWarpColumns) /
           gpu_.multiprocessors;
  };
  constexpr double kEnough = 4;
  std::vector<StemBlockVariant> preferred;
  for (const StemBlockVariant variant : {Rows56, Rows28, Rows14, Rows7, Rows4, Rows2}) {
    if (warps(stem_block_rows(variant)) >= kEnough) preferred.push_back(variant);
  }
  preferred.push_back(Rows2);
  return pick(by_name_, "stem_block", variants, params, gpu_.compute_capability, preferred);
}

FormChoice VariantChooser::block_form(const InvertedResidualParams* fused,
                                      const ExpandDepthwiseParams* expand_depthwise) const {
  // A variant that was asked for by name fuses the blocks that it runs, and no others.
  const auto runs = [&](const char* kernel, auto variants, const auto& params) {
    const auto named = by_name_.find(kernel);
    return std::any_of(variants.begin(), variants.end(), [&](auto variant) {
      return (named == by_name_.end() || named->second == kernels::name(variant)) &&
             supports(variant, params, gpu_.compute_capability);
    });
  };
  const bool can_fuse = fused != nullptr && runs("inverted_residual", inverted_residual_variants(), *fused);
  const bool can_split =
      expand_depthwise != nullptr && runs("expand_depthwise", expand_depthwise_variants(), *expand_depthwise);
  const auto form_named = by_name_.find("block");
  // Why a form is wanted, null where it is not.
  const auto wanted = [&](BlockForm form, const char* kernel, const char* why_it_pays) -> const char* {
    if (form_named != by_name_.end()) return form_named->second == name(form) ? kNamed : nullptr;
    return by_name_.contains(kernel) ? kNamed : why_it_pays;
  };
  if (can_fuse) {
    const char* pays = BlockShape(*fused, gpu_.multiprocessors).why_fuse();
    if (const char* why = wanted(BlockForm::Fused, "inverted_residual", pays)) return {BlockForm::Fused, why};
  }
  if (can_split) {
    const bool pays = expand_depthwise->n * expand_depthwise->out_h * expand_depthwise->out_w <= kSplittingPays &&
                      expand_depthwise->out_h <= 14;
    const char* why = wanted(BlockForm::ExpandDepthwise, "expand_depthwise",
                             pays ? "rule: few output pixels, two launches a block" : nullptr);
    if (why != nullptr) return {BlockForm::ExpandDepthwise, why};
  }
  if (const char* why = wanted(BlockForm::Layers, "", nullptr)) return {BlockForm::Layers, why};
  return {BlockForm::Layers,
          can_fuse || can_split ? "rule: three kernels are faster" : "no fused variant runs this shape"};
}

}  // namespace mobicuda
