// The kernels that have variants, each once.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/conv2d/conv2d_table.h"
#include "kernels/depthwise_conv/depthwise_conv_table.h"
#include "kernels/expand_depthwise/expand_depthwise_table.h"
#include "kernels/gemm/gemm_table.h"
#include "kernels/inverted_residual/inverted_residual_table.h"
#include "kernels/pointwise_pool/pointwise_pool_table.h"
#include "kernels/squeeze_excite/squeeze_excite_table.h"
#include "kernels/stem_block/stem_block_table.h"

namespace mobicuda {

/// The variants of the kernel that takes these parameters.
template <class Params>
using VariantOf = typename std::remove_cvref_t<decltype(kernels::kernel_of(std::declval<const Params&>()))>::Variant;

/// Calls visit(KernelTable) for every kernel that has variants.
template <class Visit>
void for_each_kernel(Visit&& visit) {
  visit(kernels::kernel_of(kernels::GemmParams{}));
  visit(kernels::kernel_of(kernels::DepthwiseConvParams{}));
  visit(kernels::kernel_of(kernels::Conv2dParams{}));
  visit(kernels::kernel_of(kernels::InvertedResidualParams{}));
  visit(kernels::kernel_of(kernels::ExpandDepthwiseParams{}));
  visit(kernels::kernel_of(kernels::PointwisePoolParams{}));
  visit(kernels::kernel_of(kernels::StemBlockParams{}));
  visit(kernels::kernel_of(kernels::SqueezeExciteParams{}));
}

}  // namespace mobicuda
