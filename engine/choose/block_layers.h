// The layers of an inverted residual block, with biases.
#pragma once

#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/split_gemm/split_gemm.h"

namespace mobicuda {

kernels::Conv2dParams expand_layer(const kernels::InvertedResidualParams& block);
kernels::DepthwiseConvParams depthwise_layer(const kernels::InvertedResidualParams& block);
kernels::Conv2dParams project_layer(const kernels::InvertedResidualParams& block);
/// A pointwise layer of a block whose products may be split.
kernels::SplitGemmParams split_layer(const kernels::GemmParams& layer);

}  // namespace mobicuda
