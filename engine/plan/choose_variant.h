#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/common/device_traits.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/pointwise_pool/pointwise_pool.h"
#include "kernels/squeeze_excite/squeeze_excite.h"
#include "kernels/stem_block/stem_block.h"

namespace mobicuda {

/// How an inverted residual block runs.
enum class BlockForm {
  Layers,           ///< three kernels
  ExpandDepthwise,  ///< expand and depthwise in one, project in another
  Fused,            ///< one kernel
};

/// "layers", "expand_depthwise", "fused".
std::string_view name(BlockForm form);

/// What runs a pointwise convolution by itself: conv2d has products with wgmma.
enum class PointwiseKernel { Gemm, Conv2d };

/// "gemm", "conv2d".
std::string_view name(PointwiseKernel kernel);

struct FormChoice {
  BlockForm form = BlockForm::Layers;
  std::string_view why;  ///< for people; static
};

/// Decides which variant of a kernel runs a shape: by name where the user gave one, by the rules measured
/// in docs/performance.md elsewhere. Deterministic; the same on every GPU of one kind.
class VariantChooser {
 public:
  /// Throws Error(invalid_argument) on a kernel or variant that does not exist.
  VariantChooser(const kernels::DeviceTraits& gpu, const std::map<std::string, std::string>& by_name);

  /// These throw Error(unsupported) when the named variant does not run the shape.
  kernels::GemmVariant gemm(const kernels::GemmParams& params) const;
  kernels::DepthwiseConvVariant depthwise_conv(const kernels::DepthwiseConvParams& params) const;
  kernels::Conv2dVariant conv2d(const kernels::Conv2dParams& params) const;
  /// Whether conv2d() would find one.
  bool runs(const kernels::Conv2dParams& params) const;
  /// By name ("pointwise"), else the one expected to be faster; gemm where one of its variants is named.
  PointwiseKernel pointwise(const kernels::Conv2dParams& params) const;
  kernels::InvertedResidualVariant inverted_residual(const kernels::InvertedResidualParams& params) const;
  kernels::ExpandDepthwiseVariant expand_depthwise(const kernels::ExpandDepthwiseParams& params) const;

  /// How a pointwise convolution and the global average pool after it run in one launch; nothing where two kernels are
  /// faster, or asked for by name ("head": "layers", "fused").
  std::optional<kernels::PointwisePoolVariant> pointwise_pool(const kernels::PointwisePoolParams& params) const;

  /// How a network's first convolution and the block without expansion after it run in one launch; nothing where they
  /// cannot, or where two steps are asked for by name ("stem": "layers", "fused").
  std::optional<kernels::StemBlockVariant> stem_block(const kernels::StemBlockParams& params) const;

  /// How the mean of a picture, two products and the gates that they make run in one launch; nothing where they cannot,
  /// or where four steps are asked for by name ("gate": "layers", "fused").
  std::optional<kernels::SqueezeExciteVariant> squeeze_excite(const kernels::SqueezeExciteParams& params) const;

  /// The form of a block, the one asked for by name ("block") where its kernels run the shape. `fused` or
  /// `expand_depthwise` is null where the block itself rules that form out.
  FormChoice block_form(const kernels::InvertedResidualParams* fused,
                        const kernels::ExpandDepthwiseParams* expand_depthwise) const;

 private:
  kernels::DeviceTraits gpu_;
  std::map<std::string, std::string> by_name_;
};

}  // namespace mobicuda
