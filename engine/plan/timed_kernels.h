#pragma once

#include <string>

#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/pointwise_pool/pointwise_pool.h"
#include "kernels/stem_block/stem_block.h"
#include "kernels/streaming/pooling.h"
#include "plan/block_timer.h"

namespace mobicuda {

// A variant as something to be timed; it supports the parameters.
TimedKernel timed(kernels::GemmVariant variant, const kernels::GemmParams& params);
TimedKernel timed(kernels::DepthwiseConvVariant variant, const kernels::DepthwiseConvParams& params);
TimedKernel timed(kernels::Conv2dVariant variant, const kernels::Conv2dParams& params);
TimedKernel timed(kernels::InvertedResidualVariant variant, const kernels::InvertedResidualParams& params);
TimedKernel timed(kernels::ExpandDepthwiseVariant variant, const kernels::ExpandDepthwiseParams& params);
TimedKernel timed(kernels::PointwisePoolVariant variant, const kernels::PointwisePoolParams& params);
TimedKernel timed(kernels::StemBlockVariant variant, const kernels::StemBlockParams& params);
TimedKernel timed(const kernels::GlobalAveragePoolParams& params);

// Everything but the variant that a time depends on, as one field of a timing cache.
std::string timed_shape(const kernels::GemmParams& params);
std::string timed_shape(const kernels::DepthwiseConvParams& params);
std::string timed_shape(const kernels::Conv2dParams& params);
std::string timed_shape(const kernels::InvertedResidualParams& params);
std::string timed_shape(const kernels::PointwisePoolParams& params);
std::string timed_shape(const kernels::StemBlockParams& params);

// The layers that fused kernels stand for, with biases.
kernels::GemmParams expand_layer(const kernels::InvertedResidualParams& block);
kernels::DepthwiseConvParams depthwise_layer(const kernels::InvertedResidualParams& block);
kernels::GemmParams project_layer(const kernels::InvertedResidualParams& block);
kernels::Conv2dParams first_layer(const kernels::StemBlockParams& stem);
kernels::InvertedResidualParams block_after(const kernels::StemBlockParams& stem);
kernels::GemmParams pointwise_layer(const kernels::PointwisePoolParams& head);
kernels::GlobalAveragePoolParams pool_layer(const kernels::PointwisePoolParams& head);

}  // namespace mobicuda
