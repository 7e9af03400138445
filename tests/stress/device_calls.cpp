#include "stress/device_calls.h"

#include <stdexcept>

#ifdef MOBICUDA_WITH_CUDA

#include <cstddef>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>

#include "stress/engine_load.h"

namespace mobicuda::stress {
namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace

struct DeviceCalls::Memory {
  ~Memory() {
    static_cast<void>(cudaFree(input));
    static_cast<void>(cudaFree(output));
    if (stream != nullptr) static_cast<void>(cudaStreamDestroy(stream));
  }

  bool bytes = false;
  std::size_t input_bytes = 0;   // of a picture
  std::size_t output_bytes = 0;  // of a picture
  void* input = nullptr;
  void* output = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<float> outputs;
};

DeviceCalls::DeviceCalls(const Expected& expected, bool bytes, std::int64_t max_batch)
    : memory_(std::make_unique<Memory>()) {
  Memory& m = *memory_;
  m.bytes = bytes;
  m.input_bytes = expected.input_elements() * (bytes ? 1 : sizeof(float));
  m.output_bytes = expected.output_elements() * sizeof(float);
  m.outputs.resize(static_cast<std::size_t>(max_batch) * expected.output_elements());
  const std::size_t all = static_cast<std::size_t>(expected.pictures()) * m.input_bytes;
  check(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking), "creating a stream");
  check(cudaMalloc(&m.input, all), "allocating inputs");
  check(cudaMalloc(&m.output, m.outputs.size() * sizeof(float)), "allocating outputs");
  const void* const from =
      bytes ? static_cast<const void*>(expected.bytes(0)) : static_cast<const void*>(expected.floats(0));
  check(cudaMemcpy(m.input, from, all, cudaMemcpyHostToDevice), "copying inputs");
}

DeviceCalls::~DeviceCalls() = default;

const float* DeviceCalls::run(Session& session, std::int64_t n, std::int64_t first) {
  constexpr int kNan = 0xFF;
  Memory& m = *memory_;
  const std::size_t output_bytes = static_cast<std::size_t>(n) * m.output_bytes;
  const auto* const input = static_cast<const std::uint8_t*>(m.input) + static_cast<std::size_t>(first) * m.input_bytes;
  auto* const output = static_cast<float*>(m.output);
  check(cudaMemsetAsync(output, kNan, output_bytes, m.stream), "poisoning outputs");
  if (m.bytes) {
    run_on_device(session, n, input, output, m.stream);
  } else {
    run_on_device(session, n, reinterpret_cast<const float*>(input), output, m.stream);
  }
  check(cudaMemcpyAsync(m.outputs.data(), output, output_bytes, cudaMemcpyDeviceToHost, m.stream), "copying outputs");
  check(cudaStreamSynchronize(m.stream), "waiting for outputs");
  return m.outputs.data();
}

}  // namespace mobicuda::stress

#else

namespace mobicuda::stress {

struct DeviceCalls::Memory {};

DeviceCalls::DeviceCalls(const Expected& /*expected*/, bool /*bytes*/, std::int64_t /*max_batch*/) {
  throw std::runtime_error("a build without CUDA has no run_on_device()");
}

DeviceCalls::~DeviceCalls() = default;

const float* DeviceCalls::run(Session& /*session*/, std::int64_t /*n*/, std::int64_t /*first*/) { return nullptr; }

}  // namespace mobicuda::stress

#endif
