// The layers of an inverted residual block, with biases.
#pragma once

#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda {

kernels::GemmParams expand_layer(const kernels::InvertedResidualParams& block);
kernels::DepthwiseConvParams depthwise_layer(const kernels::InvertedResidualParams& block);
kernels::GemmParams project_layer(const kernels::InvertedResidualParams& block);

}  // namespace mobicuda
