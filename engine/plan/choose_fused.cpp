#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <vector>

#include "plan/choose_variant.h"
#include "plan/pick_variant.h"

namespace mobicuda {
namespace {

using namespace kernels;

constexpr const char* kNamed = "named";

// Output pixels of a batch: up to kFewPixels what counts are dependent steps, up to kSplittingPays kernels, then
// traffic.
constexpr int kFewPixels = 256;
constexpr int kManyPixels = 1000;
constexpr int kSplittingPays = 8000;

// Variants that keep whole pictures on a multiprocessor, and from how many pictures on each pays.
struct WholePictures {
  InvertedResidualVariant variant;
  int pictures;
};
constexpr WholePictures kWholePictures[] = {
    {InvertedResidualVariant::Image1K64N64, 5},         {InvertedResidualVariant::Image1K64N96, 5},
    {InvertedResidualVariant::Image1K96N96, 5},         {InvertedResidualVariant::Image1K96N160, 7},
    {InvertedResidualVariant::Image7P1Cluster8N160, 5}, {InvertedResidualVariant::Image7P1Cluster8N320, 5}};

// Up to so many pictures the family cluster is faster than the families image and image7.
constexpr int kClusters = 4;

constexpr double kMeasuredMultiprocessors = 132;

// Variants for few pictures in exact float, and up to how many of its tiles (on kMeasuredMultiprocessors) each is
// faster than three kernels, or than larger tiles: SimtEarly.
struct FewTiles {
  InvertedResidualVariant variant;
  int tiles;
};
constexpr FewTiles kFewFloat[] = {{InvertedResidualVariant::SimtCluster8K64N64, 56},
                                  {InvertedResidualVariant::SimtCluster8K64N96, 56},
                                  {InvertedResidualVariant::SimtCluster8K96N96, 14},
                                  {InvertedResidualVariant::SimtCluster8K96N160, 14},
                                  {InvertedResidualVariant::SimtCluster8K160N160, 14},
                                  {InvertedResidualVariant::SimtCluster8K160N320, 14},
                                  {InvertedResidualVariant::SimtEarly2S1Tile7x7C144N24, 128},
                                  {InvertedResidualVariant::SimtEarly2S2Tile2x7C144N32, 112},
                                  {InvertedResidualVariant::SimtEarly4S1Tile4x7C192N32, 112},
                                  {InvertedResidualVariant::SimtEarly2S2Tile2x2C192N64, 196}};

// 7x7 pictures: up to so many of them (on kMeasuredMultiprocessors) a variant has its clusters on the GPU at once.
struct PicturesAtOnce {
  int pictures;
  InvertedResidualVariant n160, n320;
};
constexpr PicturesAtOnce kImage7[] = {
    {12, InvertedResidualVariant::Image7P1Cluster8N160, InvertedResidualVariant::Image7P1Cluster8N320},
    {16, InvertedResidualVariant::Image7P1Cluster6N160, InvertedResidualVariant::Image7P1Cluster5N320},
    {20, InvertedResidualVariant::Image7P1Cluster4N160, InvertedResidualVariant::Image7P1Cluster5N320},
    {24, InvertedResidualVariant::Image7P1Cluster4N160, InvertedResidualVariant::Image7P1Cluster4N320},
    {36, InvertedResidualVariant::Image7P1HalvesCluster3N160, InvertedResidualVariant::Image7P1Cluster3N320},
    {64, InvertedResidualVariant::Image7P1HalvesCluster2N160, InvertedResidualVariant::Image7P1Cluster2N320},
    {128, InvertedResidualVariant::Image7P2Cluster2N160, InvertedResidualVariant::Image7P1Cluster1N320}};

// An inverted residual block's output seen as tiles. The thresholds are measured on an H100: the pages of the
// variants beside their kernels.
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
    constexpr int kMore = 6;  // where the pictures become 7x7
    return params_.n <= (params_.stride == 2 ? kMore : kClusters);
  }

  bool has_few(const FewTiles& few) const {
    const InvertedResidualTile tile = inverted_residual_tile(few.variant);
    return waves(tile.rows, tile.columns) <= few.tiles / kMeasuredMultiprocessors;
  }

  // Variants that run the block and pay wherever they do.
  struct Paying {
    bool whole_pictures;  // one of kWholePictures
    bool few_float;       // one of kFewFloat
    bool strips;          // of a block without expansion
  };

  // Why one launch is faster than several; null where it is not.
  const char* why_fuse(const Paying& paying) const {
    if (paying.whole_pictures) return kWholePicturesPay;
    if (paying.few_float) return kFewPay;
    if (paying.strips) return kNarrowPays;
    return params_.elem == Elem::F16 ? why_fuse_half() : why_fuse_float();
  }

 private:
  static constexpr int kNarrow = 192;        // hidden channels
  static constexpr int kLargePicture = 100;  // output pixels

  static constexpr const char* kNarrowPays = "rule: a narrow hidden tensor stays on the multiprocessor";
  static constexpr const char* kFewPay = "rule: few pictures, one launch a block";
  static constexpr const char* kWholePicturesPay = "rule: whole pictures stay on the multiprocessor";

  const char* why_fuse_half() const {
    // Without an expansion there is less to save: only where the launches count, or the traffic.
    if (!params_.expand) {
      if (waves(14, 14) <= 1) return "rule: few pixels, one launch";
      return waves(14, 14) >= 8 ? "rule: many pixels, less traffic" : nullptr;
    }
    if (params_.c_hidden <= kNarrow) return kNarrowPays;
    if (few_pictures()) return kFewPay;
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

// Few pictures: the families made for them. Many: tiles that fill the GPU once, the largest first. The thresholds are
// measured: docs/performance.md, "Blocks in one launch".
InvertedResidualVariant VariantChooser::inverted_residual(const InvertedResidualParams& params) const {
  using enum InvertedResidualVariant;
  const BlockShape shape(params, gpu_.multiprocessors);
  std::vector<InvertedResidualVariant> preferred;
  const auto prefer = [&](bool applies, std::initializer_list<InvertedResidualVariant> variants) {
    if (applies) preferred.insert(preferred.end(), variants);
  };
  prefer(shape.waves(8, 8) > 8, {StripS1Rows4C144N24});
  prefer(shape.waves(8, 8) > 5, {StripS2Rows2C96N24});
  prefer(shape.waves(8, 8) > 3, {StripS2Rows2C144N32, StripS1Rows2C192N32});
  prefer(shape.waves(8, 8) > 2.5, {StripS1Rows2C144N24});
  prefer(shape.waves(8, 8) > 1.4, {StripS2Rows1C192N64});
  prefer(shape.waves(8, 8) > 8, {StripPlainRows7C16N16});
  prefer(true, {StripPlainRows2C16N16, StripS2Rows2C64N24, StripS1Rows2C72N24});
  prefer(true, {SmallS2Tile4x8C96N24Slice48});
  prefer(shape.waves(4, 8) > 4, {SmallS1Tile8x8C144N24});
  prefer(shape.waves(4, 8) > 1.5, {SmallS1Tile4x8C192N32});
  prefer(shape.waves(2, 4) > 2, {SmallS2Tile4x4C144N32});
  prefer(shape.waves(2, 4) > 1, {SmallS1Tile4x4C192N32});
  prefer(shape.waves(2, 2) > 4, {SmallS2Tile4x4C192N64});
  prefer(shape.waves(2, 2) > 0.5, {SmallS2Tile2x4C192N64});
  prefer(true, {SmallS1Tile4x8C144N24, SmallS2Tile2x4C144N32, SmallS1Tile2x4C192N32, SmallS2Tile2x2C192N64});
  prefer(params.n <= 2, {Cluster4K64N96, Cluster4K96N160});
  if (params.n > kClusters) {
    // As many blocks for each band as find a multiprocessor each: in clusters, which take those of one GPC.
    constexpr double kClustersOf8 = 14;  // at once on kMeasuredMultiprocessors
    constexpr double kClustersOf4 = 30;
    prefer(shape.waves(7, 14) <= kClustersOf8 / kMeasuredMultiprocessors, {Image8K64N64, Image8K64N96});
    prefer(shape.waves(7, 14) <= kClustersOf4 / kMeasuredMultiprocessors, {Image4K64N64, Image4K64N96, Image4K96N96});
  }
  prefer(shape.few_pictures(),
         {Cluster4K64N64, Cluster2K64N96, Cluster6K96N96, Cluster6K96N160, Cluster6K160N160, Cluster8K160N320});
  prefer(shape.waves(7, 14) <= 1.7, {Image2K64N64, Image2K64N96, Image2K96N96});
  prefer(shape.waves(4, 7) <= 1, {Image2K96N160});
  prefer(true, {Image1K64N64, Image1K64N96, Image1K96N96, Image1K96N160});
  for (const PicturesAtOnce& few : kImage7) {
    const double pictures = few.pictures * gpu_.multiprocessors / kMeasuredMultiprocessors;
    prefer(params.n <= pictures, {few.n160, few.n320});
  }
  prefer(true, {Image7P2Cluster1N160, Image7P2Cluster1N320});
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
  for (const FewTiles& few : kFewFloat) prefer(shape.has_few(few), {few.variant});
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
  return pick(by_name_, "inverted_residual", inverted_residual_variants(), params, gpu_, preferred);
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
  return pick(by_name_, "expand_depthwise", expand_depthwise_variants(), params, gpu_, preferred);
}

std::optional<PointwisePoolVariant> VariantChooser::pointwise_pool(const PointwisePoolParams& params) const {
  using enum PointwisePoolVariant;
  constexpr int kFew = 4;
  constexpr int kMany = 16;
  constexpr int kWgmmaPays = 2;
  const auto variants = pointwise_pool_variants();
  const bool runs = any_runs(by_name_, "pointwise_pool", variants, params, gpu_);
  const auto form = by_name_.find("head");
  const bool wanted = form != by_name_.end() ? form->second == name(BlockForm::Fused)
                                             : by_name_.contains("pointwise_pool") || params.n <= kFew ||
                                                   (params.n >= kMany && supports(Pictures2N128, params, gpu_)) ||
                                                   supports(WgmmaN128, params, gpu_);
  if (!runs || !wanted) return std::nullopt;
  std::vector<PointwisePoolVariant> preferred;
  const auto prefer = [&](bool applies, PointwisePoolVariant variant) {
    if (applies) preferred.push_back(variant);
  };
  prefer(params.n >= kWgmmaPays, WgmmaN128);
  prefer(params.n >= kMany, Pictures2N128);
  prefer(params.n >= kMany, Slice32);
  prefer(true, Slice16);
  prefer(true, Slice8);
  // Exact float.
  prefer(true, SimtSlice16);
  prefer(true, SimtSlice8);
  return pick(by_name_, "pointwise_pool", variants, params, gpu_, preferred);
}

std::optional<StemBlockVariant> VariantChooser::stem_block(const StemBlockParams& params) const {
  using enum StemBlockVariant;
  const auto variants = stem_block_variants();
  const bool runs = any_runs(by_name_, "stem_block", variants, params, gpu_);
  // A form asked for of all blocks is meant for the first one too.
  const auto form = by_name_.contains("stem") ? by_name_.find("stem") : by_name_.find("block");
  if (!runs || (form != by_name_.end() && form->second != name(BlockForm::Fused))) return std::nullopt;
  // Warps of so many rows for each multiprocessor; the thresholds are those of kernels/stem_block/README.md.
  constexpr int kWarpColumns = 28;
  const auto warps = [&](int rows) {
    return static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, kWarpColumns) /
           gpu_.multiprocessors;
  };
  constexpr double kEnough = 3.3;
  constexpr double kEnoughForMany = 7;  // of more than kFewRows
  constexpr int kFewRows = 14;
  std::vector<StemBlockVariant> preferred;
  for (const StemBlockVariant variant : {Rows56, Rows28, Rows14, Rows7, Rows4, Rows2}) {
    const int rows = stem_block_rows(variant);
    if (warps(rows) >= (rows > kFewRows ? kEnoughForMany : kEnough)) preferred.push_back(variant);
  }
  preferred.push_back(Rows2);
  return pick(by_name_, "stem_block", variants, params, gpu_, preferred);
}

// The rule of kernels/squeeze_excite/README.md.
std::optional<SqueezeExciteVariant> VariantChooser::squeeze_excite(const SqueezeExciteParams& params) const {
  using enum SqueezeExciteVariant;
  const auto variants = squeeze_excite_variants();
  const auto form = by_name_.find("gate");
  if (!any_runs(by_name_, "squeeze_excite", variants, params, gpu_) ||
      (form != by_name_.end() && form->second != name(BlockForm::Fused))) {
    return std::nullopt;
  }
  // Two blocks for each multiprocessor, if not of eight ranks, then of as few as have shared memory for that.
  constexpr std::int64_t kHalfOfShared = 100 * 1024;
  const std::int64_t picture_bytes =
      std::int64_t{params.pixels} * params.c * static_cast<std::int64_t>(size_of(params.elem));
  std::vector<SqueezeExciteVariant> preferred;
  for (const auto& [variant, ranks] : {std::pair{Cluster2, 2}, {Cluster4, 4}}) {
    if (params.n * ranks >= 2 * gpu_.multiprocessors && picture_bytes / ranks <= kHalfOfShared) {
      preferred.push_back(variant);
    }
  }
  preferred.insert(preferred.end(), {Cluster8, Cluster8Reread});
  return pick(by_name_, "squeeze_excite", variants, params, gpu_, preferred);
}

FormChoice VariantChooser::block_form(const InvertedResidualParams* fused,
                                      const ExpandDepthwiseParams* expand_depthwise) const {
  // A variant that was asked for by name fuses the blocks that it runs, and no others.
  const auto runs = [&](const char* kernel, auto variants, const auto& params) {
    return any_runs(by_name_, kernel, variants, params, gpu_);
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
    const BlockShape shape(*fused, gpu_.multiprocessors);
    const auto runs_here = [&](InvertedResidualVariant variant) { return supports(variant, *fused, gpu_); };
    BlockShape::Paying paying{};
    paying.whole_pictures =
        std::any_of(std::begin(kWholePictures), std::end(kWholePictures),
                    [&](const WholePictures& whole) { return fused->n >= whole.pictures && runs_here(whole.variant); });
    paying.few_float = std::any_of(std::begin(kFewFloat), std::end(kFewFloat),
                                   [&](const FewTiles& few) { return shape.has_few(few) && runs_here(few.variant); });
    paying.strips = runs_here(InvertedResidualVariant::StripPlainRows2C16N16);
    const char* pays = shape.why_fuse(paying);
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
