#include "fake_cuda.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

using mobicuda::test::fake_cuda;
using mobicuda::test::FakeCuda;

namespace mobicuda::test {

FakeCuda& fake_cuda() {
  static FakeCuda fake;
  return fake;
}

std::vector<std::string> FakeCuda::take() { return std::exchange(calls, {}); }

}  // namespace mobicuda::test

namespace {

constexpr std::size_t kAlignment = 256;

template <class Handle>
Handle next_handle() {
  static std::uintptr_t last = 0x1000;
  return reinterpret_cast<Handle>(++last);  // NOLINT(performance-no-int-to-ptr)
}

// What a call that may fail returns, before it does anything.
cudaError_t fate() {
  FakeCuda& fake = fake_cuda();
  return fake.calls_before_failure >= 0 && fake.calls_before_failure-- == 0 ? fake.failure : cudaSuccess;
}

void count(const char* kind, int change) { fake_cuda().live[kind] += change; }

cudaError_t wrote(const std::string& call) {
  fake_cuda().calls.push_back(call);
  return cudaSuccess;
}

cudaError_t wrote(const std::string& call, cudaStream_t stream) {
  const auto name = fake_cuda().streams.find(stream);
  return wrote(call + " " + (name == fake_cuda().streams.end() ? "own" : name->second));
}

cudaError_t freed(bool anything) {
  if (anything && fake_cuda().contexts.empty()) ++fake_cuda().freed_elsewhere;
  return cudaSuccess;
}

cudaError_t allocate(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

CUresult get_device(CUdevice* device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}

CUresult retain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(std::uintptr_t{0x100} + static_cast<unsigned>(device));  // NOLINT
  return CUDA_SUCCESS;
}

CUresult push(CUcontext context) {
  if (fake_cuda().unloading) fake_cuda().called_unloaded = true;
  fake_cuda().contexts.push_back(context);
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext* context) {
  *context = fake_cuda().contexts.back();
  fake_cuda().contexts.pop_back();
  return CUDA_SUCCESS;
}

cudaError_t find_function(std::string_view name, void** function, cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  if (name == "cuDeviceGet") *function = reinterpret_cast<void*>(get_device);
  if (name == "cuDevicePrimaryCtxRetain") *function = reinterpret_cast<void*>(retain);
  if (name == "cuCtxPushCurrent") *function = reinterpret_cast<void*>(push);
  if (name == "cuCtxPopCurrent") *function = reinterpret_cast<void*>(pop);
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // namespace

extern "C" {

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/, cudaDriverEntryPointQueryResult* result) {
  return find_function(name, function, result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long /*flags*/,
                                    cudaDriverEntryPointQueryResult* result) {
  return find_function(name, function, result);
}
#endif

// Devices and errors.
cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  *count = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return fake_cuda().unloading ? cudaErrorCudartUnloading : cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*device*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  *value = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  *properties = {};
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t /*status*/) { return "cudaError"; }
const char* cudaGetErrorString(cudaError_t /*status*/) { return "an error"; }

// Memory.
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  count("device memory", 1);
  return allocate(memory, bytes);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  count("host memory", 1);
  return allocate(memory, bytes);
}
cudaError_t cudaFree(void* memory) {
  if (memory != nullptr) count("device memory", -1);
  std::free(memory);
  return freed(memory != nullptr);
}
cudaError_t cudaFreeHost(void* memory) {
  if (memory != nullptr) count("host memory", -1);
  std::free(memory);
  return freed(memory != nullptr);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  std::memmove(to, from, bytes);
  return wrote("copy", stream);
}
cudaError_t cudaMemcpy2DAsync(void* /*to*/, std::size_t /*to_pitch*/, const void* /*from*/, std::size_t /*from_pitch*/,
                              std::size_t /*width*/, std::size_t /*height*/, cudaMemcpyKind /*kind*/,
                              cudaStream_t stream) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("copy", stream);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  std::memset(memory, value, bytes);
  return wrote("clear", stream);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  const auto known = fake_cuda().memory.find(memory);
  *attributes = {};
  attributes->type = cudaMemoryTypeDevice;
  attributes->devicePointer = const_cast<void*>(memory);
  if (known != fake_cuda().memory.end()) *attributes = known->second;
  return wrote("attributes");
}

// Streams and events.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  *stream = next_handle<cudaStream_t>();
  count("streams", 1);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) {
  count("streams", -1);
  return freed(true);
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  const auto known = fake_cuda().stream_ids.find(stream);
  *id = known == fake_cuda().stream_ids.end() ? reinterpret_cast<std::uintptr_t>(stream) : known->second;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("synchronize", stream);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("synchronize", stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t /*event*/, unsigned /*flags*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("wait", stream);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t /*function*/, void* /*data*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("host function", stream);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  *event = next_handle<cudaEvent_t>();
  count("events", 1);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) {
  count("events", -1);
  return freed(true);
}
cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t stream) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("record", stream);
}
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("synchronize event");
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*start*/, cudaEvent_t /*end*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  *milliseconds = 1;
  return cudaSuccess;
}

// Graphs.
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  const bool captured = stream != nullptr && stream == fake_cuda().captured;
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(current, *mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("capture", stream);
}
cudaError_t cudaStreamEndCapture(cudaStream_t /*stream*/, cudaGraph_t* graph) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  *graph = next_handle<cudaGraph_t>();
  count("graphs", 1);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t /*graph*/) {
  count("graphs", -1);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t /*graph*/, unsigned long long /*flags*/) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  *exec = next_handle<cudaGraphExec_t>();
  count("executable graphs", 1);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t /*exec*/) {
  count("executable graphs", -1);
  return freed(true);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t /*exec*/, cudaStream_t stream) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("upload", stream);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t /*exec*/, cudaStream_t stream) {
  if (const cudaError_t fault = fate(); fault != cudaSuccess) return fault;
  return wrote("launch", stream);
}

}  // extern "C"
