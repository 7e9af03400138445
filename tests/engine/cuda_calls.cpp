#include "cuda_calls.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the names that the linker's --wrap makes

namespace mobicuda::test {

CudaCalls& cuda_calls() {
  static CudaCalls calls;
  return calls;
}

int CudaCalls::all_alive() const {
  int all = 0;
  for (const auto& [kind, count] : alive) all += count;
  return all;
}

}  // namespace mobicuda::test

namespace {

cudaError_t fate(const char* name) {
  auto& calls = mobicuda::test::cuda_calls();
  ++calls.made[name];
  if (calls.before_failure < 0 || (!calls.only.empty() && calls.only != name)) return cudaSuccess;
  if (calls.before_failure-- > 0) return cudaSuccess;
  calls.failed = name;
  return calls.failure;
}

cudaError_t counted(cudaError_t status, const char* kind, int change) {
  if (status == cudaSuccess) mobicuda::test::cuda_calls().alive[kind] += change;
  return status;
}

}  // namespace

// Functions that may fail, by name, parameters and arguments. cudaStreamEndCapture() may not: a stream whose capture
// was not ended could not be used again.
#define MOBICUDA_MAY_FAIL(name, parameters, arguments)                             \
  cudaError_t __real_##name parameters;                                            \
  cudaError_t __wrap_##name parameters {                                           \
    if (const cudaError_t fault = fate(#name); fault != cudaSuccess) return fault; \
    return __real_##name arguments;                                                \
  }

// The same for functions that make something.
#define MOBICUDA_MAKES(name, kind, parameters, arguments)                          \
  cudaError_t __real_##name parameters;                                            \
  cudaError_t __wrap_##name parameters {                                           \
    if (const cudaError_t fault = fate(#name); fault != cudaSuccess) return fault; \
    return counted(__real_##name arguments, kind, 1);                              \
  }

// What gives it back: such calls do not fail.
#define MOBICUDA_GIVES_BACK(name, kind, type) \
  cudaError_t __real_##name(type one);        \
  cudaError_t __wrap_##name(type one) { return counted(__real_##name(one), kind, one == nullptr ? 0 : -1); }

extern "C" {
MOBICUDA_MAKES(cudaMalloc, "device memory", (void** memory, std::size_t bytes), (memory, bytes))
MOBICUDA_MAKES(cudaHostAlloc, "host memory", (void** memory, std::size_t bytes, unsigned flags), (memory, bytes, flags))
MOBICUDA_MAKES(cudaStreamCreateWithFlags, "streams", (cudaStream_t * stream, unsigned flags), (stream, flags))
MOBICUDA_MAKES(cudaEventCreateWithFlags, "events", (cudaEvent_t * event, unsigned flags), (event, flags))
MOBICUDA_MAKES(cudaGraphInstantiate, "executable graphs",
               (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags), (exec, graph, flags))

MOBICUDA_GIVES_BACK(cudaFree, "device memory", void*)
MOBICUDA_GIVES_BACK(cudaFreeHost, "host memory", void*)
MOBICUDA_GIVES_BACK(cudaStreamDestroy, "streams", cudaStream_t)
MOBICUDA_GIVES_BACK(cudaEventDestroy, "events", cudaEvent_t)
MOBICUDA_GIVES_BACK(cudaGraphExecDestroy, "executable graphs", cudaGraphExec_t)

MOBICUDA_MAY_FAIL(cudaMemcpy, (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind),
                  (to, from, bytes, kind))
MOBICUDA_MAY_FAIL(cudaMemcpyAsync,
                  (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
                  (to, from, bytes, kind, stream))
MOBICUDA_MAY_FAIL(cudaMemcpy2DAsync,
                  (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                   std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                  (to, to_pitch, from, from_pitch, width, height, kind, stream))
MOBICUDA_MAY_FAIL(cudaMemsetAsync, (void* memory, int value, std::size_t bytes, cudaStream_t stream),
                  (memory, value, bytes, stream))
MOBICUDA_MAY_FAIL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
MOBICUDA_MAY_FAIL(cudaEventSynchronize, (cudaEvent_t event), (event))
MOBICUDA_MAY_FAIL(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t start, cudaEvent_t end),
                  (milliseconds, start, end))
MOBICUDA_MAY_FAIL(cudaStreamSynchronize, (cudaStream_t stream), (stream))
MOBICUDA_MAY_FAIL(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags))
MOBICUDA_MAY_FAIL(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status), (stream, status))
MOBICUDA_MAY_FAIL(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode))
MOBICUDA_MAY_FAIL(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
MOBICUDA_MAY_FAIL(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
MOBICUDA_MAY_FAIL(cudaPointerGetAttributes, (cudaPointerAttributes * attributes, const void* memory),
                  (attributes, memory))
MOBICUDA_MAY_FAIL(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
                  (value, attribute, device))
MOBICUDA_MAY_FAIL(cudaFuncSetAttribute, (const void* function, cudaFuncAttribute attribute, int value),
                  (function, attribute, value))
MOBICUDA_MAY_FAIL(cudaLaunchKernel,
                  (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t stream),
                  (function, grid, block, arguments, shared, stream))
MOBICUDA_MAY_FAIL(cudaLaunchKernelExC, (const cudaLaunchConfig_t* config, const void* function, void** arguments),
                  (config, function, arguments))
}

// NOLINTEND(bugprone-reserved-identifier)
