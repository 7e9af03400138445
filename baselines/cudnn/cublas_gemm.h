#pragma once

#include "cudnn/conv_problem.h"
#include "cudnn/legacy_conv.h"

namespace mobicuda::cudnn {

/// A pointwise NHWC convolution as one matrix product of cuBLASLt, with bias, residual and ReLU in the same
/// launch: every algorithm that its heuristic proposes. Nothing for other convolutions.
void cublas_gemm_kernels(const Handles& handles, const ConvProblem& problem, const KernelSink& sink);

}  // namespace mobicuda::cudnn
