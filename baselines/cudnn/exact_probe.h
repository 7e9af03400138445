#pragma once

#include <cstdint>
#include <functional>

#include <cuda_runtime_api.h>

namespace mobicuda::cudnn {

/// One image of a depthwise layer in float: the tensors that a probe overwrites.
struct ProbeTensors {
  void* x = nullptr;
  std::int64_t x_elements = 0;
  void* w = nullptr;
  std::int64_t w_elements = 0;
  const void* y = nullptr;
  std::int64_t y_elements = 0;
};

/// Finds out by experiment whether `layer` keeps all bits of its float inputs: it multiplies numbers that need
/// 19 bits, of which TF32, half and bfloat16 would drop the last, and whose sums are exact in float. False in
/// doubt, e.g. when the activation cuts the sums off. x and w hold other numbers afterwards.
bool keeps_float_inputs(const ProbeTensors& tensors, const std::function<cudaError_t()>& layer, cudaStream_t stream);

}  // namespace mobicuda::cudnn
