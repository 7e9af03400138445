// The layers that kernels of several layers stand for, with biases.
#pragma once

#include "choose/timed_kernel.h"
#include "kernels/streaming/multiply.h"
#include "kernels/streaming/pooling.h"

namespace mobicuda {

kernels::GemmParams expand_layer(const kernels::InvertedResidualParams& block);
kernels::DepthwiseConvParams depthwise_layer(const kernels::InvertedResidualParams& block);
kernels::GemmParams project_layer(const kernels::InvertedResidualParams& block);

kernels::Conv2dParams first_layer(const kernels::StemBlockParams& stem);
kernels::InvertedResidualParams block_after(const kernels::StemBlockParams& stem);

kernels::GemmParams pointwise_layer(const kernels::PointwisePoolParams& head);
kernels::GlobalAveragePoolParams pool_layer(const kernels::PointwisePoolParams& head);

kernels::GlobalAveragePoolParams pool_layer(const kernels::SqueezeExciteParams& gate);
kernels::GemmParams squeeze_layer(const kernels::SqueezeExciteParams& gate);
kernels::GemmParams gate_layer(const kernels::SqueezeExciteParams& gate);

/// Kernels without variants, as something to be timed.
TimedKernel timed(const kernels::GlobalAveragePoolParams& params);
/// The product of an image's channels, which stand where a residual would, with the gates before it.
TimedKernel timed_product(const kernels::SqueezeExciteParams& gate);

}  // namespace mobicuda
