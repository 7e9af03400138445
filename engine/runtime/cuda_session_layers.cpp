// CudaSession: one layer at a time, and what it computed.
#include "graph/logical_floats.h"
#include "runtime/cuda_check.h"
#include "runtime/cuda_session.h"

namespace mobicuda {

void CudaSession::do_execute_layer(std::int64_t n, std::size_t layer) {
  require_own_input("execute_layer");
  const OwnStreamUse use(*this);
  bind_ends(n, own_ends());
  const CudaStep& step = plan(n).steps[layer];
  const std::string what = "layer '" + step.info.name + "'";
  {
    const auto turn = take_turn();
    cuda_check(step.enqueue(context_for(n, stream_.get())), what);
  }
  cuda_check(cudaStreamSynchronize(stream_.get()), what);
  output_overwritten_ = false;  // Session knows whether it was the last layer
}

void CudaSession::do_get_layer_output(std::int64_t n, std::size_t layer, std::span<float> output) {
  const OwnStreamUse use(*this);
  const CudaStep& step = plan(n).steps[layer];
  const CudaStepResult& result = step.result;
  const Shape& shape = step.info.output;
  const auto size = static_cast<std::size_t>(size_of(result.dtype));
  const std::byte* source =
      static_cast<const std::byte*>(buffers_[network().plan_for(n)][static_cast<std::size_t>(result.buffer)]) +
      result.offset;
  std::vector<std::byte> stored(output.size() * size);
  const std::string what = "copying the output of layer '" + step.info.name + "'";
  if (result.pitch == 0) {
    cuda_check(cudaMemcpyAsync(stored.data(), source, stored.size(), cudaMemcpyDeviceToHost, stream_.get()), what);
  } else {
    const std::size_t pixel = static_cast<std::size_t>(shape[1]) * size;
    cuda_check(cudaMemcpy2DAsync(stored.data(), pixel, source, static_cast<std::size_t>(result.pitch) * size, pixel,
                                 stored.size() / pixel, cudaMemcpyDeviceToHost, stream_.get()),
               what);
  }
  cuda_check(cudaStreamSynchronize(stream_.get()), what);
  to_logical_floats(stored, {result.dtype, shape, result.layout, result.quantization}, n, output);
}

}  // namespace mobicuda
