#include "runtime/graph_exec.h"

#include "runtime/cuda_check.h"
#include "runtime/relaxed_capture.h"

namespace mobicuda {

GraphExec::GraphExec(cudaStream_t stream, const std::function<void()>& enqueue) {
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "starting a capture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    throw;
  }
  cuda_check(cudaStreamEndCapture(stream, &graph), "ending a capture");
  const RelaxedCapture relaxed;
  const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  cuda_check(status, "instantiating a CUDA graph");
}

GraphExec::~GraphExec() {
  if (exec_ != nullptr) static_cast<void>(cudaGraphExecDestroy(exec_));
}

void GraphExec::upload(cudaStream_t stream) const {
  cuda_check(cudaGraphUpload(exec_, stream), "uploading a CUDA graph");
}

void GraphExec::launch(cudaStream_t stream) const {
  cuda_check(cudaGraphLaunch(exec_, stream), "launching the network");
}

}  // namespace mobicuda
