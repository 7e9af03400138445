#pragma once

#include <functional>
#include <memory>

#include "cudnn/conv_problem.h"

namespace mobicuda::cudnn {

/// Receives one candidate; returns false to end the enumeration.
using KernelSink = std::function<bool(std::shared_ptr<const ConvKernel>)>;

/// Every algorithm of cudnnConvolutionForward and, where the layer has a bias and its activation is none or
/// ReLU, of cudnnConvolutionBiasActivationForward, with every math type that the precision allows. Nothing
/// for asymmetric pads or mixed types, which this API cannot express.
void legacy_conv_kernels(const Handles& handles, const ConvProblem& problem, const KernelSink& sink);

}  // namespace mobicuda::cudnn
