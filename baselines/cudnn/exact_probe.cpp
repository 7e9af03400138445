#include "cudnn/exact_probe.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/cuda_check.h"

namespace mobicuda::cudnn {
namespace {

// Up to 63 taps of kFine * kCoarse sum up exactly: 6 + 18 bits. All sums are below 1.
constexpr float kFine = 1.0F + 0x1p-18F;
constexpr float kCoarse = 0x1p-6F;

// On the layer's stream: to wait for the whole device would break off what other threads capture.
void fill(void* target, std::int64_t elements, float value, cudaStream_t stream) {
  const std::vector<float> values(static_cast<std::size_t>(elements), value);
  cuda_check(cudaMemcpyAsync(target, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice, stream),
             "filling a probe's input");
  cuda_check(cudaStreamSynchronize(stream), "filling a probe's input");
}

bool is_exact(float sum) {
  constexpr double kProduct = static_cast<double>(kFine) * kCoarse;
  const double taps = std::round(static_cast<double>(sum) / kProduct);
  return taps >= 1.0 && static_cast<double>(sum) == taps * kProduct;
}

bool try_inputs(const ProbeTensors& t, float x, float w, const std::function<cudaError_t()>& layer,
                cudaStream_t stream) {
  fill(t.x, t.x_elements, x, stream);
  fill(t.w, t.w_elements, w, stream);
  if (layer() != cudaSuccess || cudaStreamSynchronize(stream) != cudaSuccess) return false;
  std::vector<float> y(static_cast<std::size_t>(t.y_elements));
  cuda_check(cudaMemcpy(y.data(), t.y, y.size() * sizeof(float), cudaMemcpyDeviceToHost), "reading a probe's output");
  return std::all_of(y.begin(), y.end(), is_exact);
}

}  // namespace

bool keeps_float_inputs(const ProbeTensors& tensors, const std::function<cudaError_t()>& layer, cudaStream_t stream) {
  cuda_check(cudaStreamSynchronize(stream), "starting a probe");
  const bool exact =
      try_inputs(tensors, kFine, kCoarse, layer, stream) && try_inputs(tensors, kCoarse, kFine, layer, stream);
  cudaGetLastError();  // a layer that fails is no candidate; the next one must start with no error pending
  return exact;
}

}  // namespace mobicuda::cudnn
