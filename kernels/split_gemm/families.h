// What the launcher of split_gemm asks of its tiles by wgmma.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/common/product_pipeline.cuh"
#include "kernels/split_gemm/split_gemm.h"

namespace mobicuda::kernels::split_gemm_wgmma {

/// Whether the variant is one of these, and there is code of it.
bool has(SplitGemmVariant variant);

/// Of a variant that there is.
cudaError_t launch(SplitGemmVariant variant, const products::ProductArgs& args, const Launch& where);

}  // namespace mobicuda::kernels::split_gemm_wgmma
