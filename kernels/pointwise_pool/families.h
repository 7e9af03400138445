// What a family of pointwise_pool kernels in a file of its own tells the dispatcher, pointwise_pool.cu.
#pragma once

#include "kernels/pointwise_pool/pointwise_pool.h"

namespace mobicuda::kernels {

/// Whether the parameters, sane ones, suit the variant, one of those with wgmma, and the library was built with it.
bool pointwise_pool_wgmma_supports(PointwisePoolVariant variant, const PointwisePoolParams& params);
cudaError_t pointwise_pool_wgmma(PointwisePoolVariant variant, const PointwisePoolParams& params, const void* x,
                                 const void* packed, const float* bias, void* y, const Launch& where);

}  // namespace mobicuda::kernels
