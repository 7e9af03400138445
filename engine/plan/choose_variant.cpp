#include "plan/choose_variant.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

#include "plan/choose_products.h"
#include "plan/pick_variant.h"

namespace mobicuda {
namespace {

using namespace kernels;

constexpr BlockForm kBlockForms[] = {BlockForm::Layers, BlockForm::ExpandDepthwise, BlockForm::Fused};
constexpr BlockForm kPairForms[] = {BlockForm::Layers, BlockForm::Fused};
constexpr PointwiseKernel kPointwiseKernels[] = {PointwiseKernel::Gemm, PointwiseKernel::Conv2d};

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

// A matrix product seen as tiles; the rules below are the tables of kernels/gemm/README.md.
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
    prefer(params_.m <= 4, Gemv);
    prefer(n <= 16 && waves(256, 16) >= 2, Mma256x16x32);
    prefer(n <= 32 && waves(128, 32) >= 1.5, Mma128x32x64);
    const bool by_96 = takes_96_columns(params_.m, n, k, multiprocessors_);
    prefer(k <= 32 && !by_96 && waves(64, 32) >= 3, Mma64x32x32);
    prefer(by_96, Mma128x96x32);
    prefer(n >= 128 && padding(128) <= 1.25 && waves(128, 128) >= (k >= 128 ? 1.5 : 4), Mma128x128x64);
    prefer(n > 32 && waves(128, 64) >= 1.5, Mma128x64x64);
    prefer(k <= 32 && waves(64, 32) >= 0.9, Mma64x32x32);
    prefer(k >= 640 && waves(64, 32) >= 0.45 && waves(64, 32) <= 1, Mma64x32x256K4);
    prefer(n > 32 && waves(64, 64) >= 1, Mma64x64x64);
    prefer(k >= 384 && n <= 160 && waves(64, 32) >= 0.9 && waves(64, 32) < 1.6, Mma32x32x64K2);
    prefer(waves(64, 32) >= 0.9, k > 64 ? Mma64x32x64K2 : Mma64x32x32);
    prefer(waves(32, 32) >= 0.9, Mma32x32x64K2);
    prefer(waves(16, 32) >= 0.75 && !(k >= 1024 && waves(16, 32) <= 1), Mma16x32x128K4);
    prefer(true, Mma16x16x256K8);
    // Rows that do not start on 16 bytes.
    prefer(waves(64, 64) >= 1, Simt64x64x16);
    prefer(waves(32, 32) >= 0.9, Simt32x32x32K4);
    prefer(waves(16, 32) >= 0.75, Simt16x32x64K8);
    prefer(true, Simt16x16x128K16);
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

  std::vector<GemmVariant> double_variants() const {
    using enum GemmVariant;
    std::vector<GemmVariant> found;
    const auto prefer = [&](bool applies, GemmVariant variant) {
      if (applies) found.push_back(variant);
    };
    prefer(params_.m <= 8, Gemv);
    prefer(params_.n > 32 && waves(64, 64) >= 1.5, Simt64x64x16);
    prefer(waves(32, 32) >= 0.9, Simt32x32x32K4);
    prefer(waves(16, 32) >= 0.75, Simt16x32x64K8);
    prefer(true, Simt16x16x128K16);
    return found;
  }

  std::vector<GemmVariant> variants() const {
    switch (params_.elem) {
      case Elem::F32:
        return float_variants();
      case Elem::F16:
        return half_variants();
      case Elem::F64:
        return double_variants();
    }
    return {};
  }

 private:
  const GemmParams& params_;
  int multiprocessors_;
};

// A convolution in float or double seen as a matrix product of gathered pixels: kernels/conv2d/README.md.
std::vector<Conv2dVariant> gathered_variants(const Conv2dParams& params, int multiprocessors) {
  using enum Conv2dVariant;
  constexpr int kFewOutputs = 16;  // of a group: most of a tile's columns would be idle
  const int group_out = params.c_out / std::max(params.groups, 1);
  const int pixels = params.n * params.out_h * params.out_w;
  const auto waves = [&](int rows, int columns) {
    return static_cast<double>(ceil_div(pixels, rows)) * ceil_div(group_out, columns) * params.groups / multiprocessors;
  };
  std::vector<Conv2dVariant> found;
  const auto prefer = [&](bool applies, Conv2dVariant variant) {
    if (applies && group_out >= kFewOutputs) found.push_back(variant);
  };
  prefer(group_out > 64 && waves(128, 128) >= 2, Simt128x128x16);
  prefer(group_out > 32 && waves(128, 64) >= 2, Simt128x64x16);
  prefer(group_out > 32 && waves(64, 64) >= 1.5, Simt64x64x16);
  prefer(waves(32, 32) >= 0.9, Simt32x32x32K4);
  prefer(true, Simt16x32x64K8);
  return found;
}

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

std::string_view name(PointwiseKernel kernel) { return kernel == PointwiseKernel::Gemm ? "gemm" : "conv2d"; }

VariantChooser::VariantChooser(const kernels::DeviceTraits& gpu, const std::map<std::string, std::string>& by_name)
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
    } else if (kernel == "squeeze_excite") {
      require_name(squeeze_excite_variants(), kernel, variant);
    } else if (kernel == "head" || kernel == "stem" || kernel == "gate") {
      require_name(std::span<const BlockForm>(kPairForms), kernel, variant);
    } else if (kernel == "pointwise") {
      require_name(std::span<const PointwiseKernel>(kPointwiseKernels), kernel, variant);
    } else {
      throw Error(ErrorCode::invalid_argument, "kernel variant", "no kernel '" + kernel + "' has variants",
                  "choose one of gemm, depthwise_conv, conv2d, inverted_residual, expand_depthwise, pointwise_pool, "
                  "stem_block, squeeze_excite, block, head, stem, gate, pointwise");
    }
  }
}

GemmVariant VariantChooser::gemm(const GemmParams& params) const {
  const GemmShape shape(params, gpu_.multiprocessors);
  return pick(by_name_, "gemm", gemm_variants(), params, gpu_, shape.variants());
}

// The rule of kernels/depthwise_conv/README.md, with its thread counts for 132 multiprocessors.
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
  const bool sevens = params.stride_h == 1 && params.out_h % 7 == 0;
  if (params.elem == Elem::F16) {
    if (sevens && enough_threads(Strip7x2B8, 50000)) preferred.push_back(Strip7x2B8);
  } else if (sevens && enough_threads(Strip7x2B16, 66000)) {
    preferred.push_back(Strip7x2B16);
  }
  // In half, two rows of four channels are the fastest on most maps with stride 2.
  if (params.elem != Elem::F16 || params.stride_h == 1) {
    if (enough_threads(Strip4x2B16, 50000)) {
      preferred.push_back(Strip4x2B16);
      preferred.push_back(Strip4x4B8);
    }
    if (enough_threads(Strip2x2B16, 34000)) preferred.push_back(Strip2x2B16);
  }
  if (enough_threads(Strip2x2B8, 9000)) preferred.push_back(Strip2x2B8);
  preferred.push_back(Strip1x1B8);
  if (params.stride_h == 1 && params.out_h % 7 == 0 && enough_threads(Window5Strip7x2B8, 50000)) {
    preferred.push_back(Window5Strip7x2B8);
  }
  if (enough_threads(Window5Strip4x2B8, 50000)) preferred.push_back(Window5Strip4x2B8);
  if (enough_threads(Window5Strip2x2B8, 9000)) preferred.push_back(Window5Strip2x2B8);
  preferred.push_back(Window5Strip1x1B8);
  return pick(by_name_, "depthwise_conv", depthwise_conv_variants(), params, gpu_, preferred);
}

// The rule of kernels/conv2d/README.md.
Conv2dVariant VariantChooser::conv2d(const Conv2dParams& params) const {
  using enum Conv2dVariant;
  constexpr int kMostStemOut = 32;  // beyond it tensor cores win
  const double large_tiles = static_cast<double>(params.n) * ceil_div(params.out_h, 16) * ceil_div(params.out_w, 16);
  std::vector<Conv2dVariant> preferred;
  const auto append = [&](const std::vector<Conv2dVariant>& variants) {
    for (const Conv2dVariant variant : variants) preferred.push_back(variant);
  };
  preferred.push_back(Stem3x3Split);
  if (params.elem != Elem::F16 || params.c_out <= kMostStemOut) {
    if (large_tiles >= 2.0 * gpu_.multiprocessors) preferred.push_back(Stem3x3P8C8);
    preferred.push_back(Stem3x3P2C4);
  }
  constexpr int kColumns = 64;
  const int last_columns = params.c_out % kColumns;
  append({Grouped3x3, last_columns > 0 && last_columns <= kColumns / 2 ? First32 : First64});
  append(products_by_time(params, gpu_));
  append(gathered_variants(params, gpu_.multiprocessors));
  append({Stem3x3P2C4, Direct4x4, Direct});
  return pick(by_name_, "conv2d", conv2d_variants(), params, gpu_, preferred);
}

PointwiseKernel VariantChooser::pointwise(const Conv2dParams& params) const {
  if (const auto named = by_name_.find("pointwise"); named != by_name_.end()) {
    return named->second == name(PointwiseKernel::Conv2d) && runs(params) ? PointwiseKernel::Conv2d
                                                                          : PointwiseKernel::Gemm;
  }
  const bool faster = !by_name_.contains("gemm") && !by_name_.contains("conv2d") && beats_gemm(params, gpu_);
  return faster ? PointwiseKernel::Conv2d : PointwiseKernel::Gemm;
}

bool VariantChooser::runs(const Conv2dParams& params) const {
  return any_runs(by_name_, "conv2d", conv2d_variants(), params, gpu_);
}

}  // namespace mobicuda
