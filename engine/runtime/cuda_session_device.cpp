// CudaSession: runs between buffers of the caller, on the caller's stream.
#include <cstdint>
#include <string>
#include <string_view>

#include <mobicuda/cuda_interop.h>

#include "graph/memory_errors.h"
#include "runtime/cuda_check.h"
#include "runtime/cuda_session.h"
#include "runtime/relaxed_capture.h"

namespace mobicuda {
namespace {

constexpr std::uintptr_t kEndAlignment = 16;  // kernels read and write so many bytes at a time

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  cuda_check(cudaStreamIsCapturing(stream, &status), "asking whether the stream is being captured");
  return status != cudaStreamCaptureStatusNone;
}

void require_aligned(std::string_view what, const void* data) {
  if (data == nullptr) throw Error(ErrorCode::invalid_argument, std::string(what), "must not be null");
  const std::uintptr_t beyond = reinterpret_cast<std::uintptr_t>(data) % kEndAlignment;
  if (beyond == 0) return;
  throw Error(ErrorCode::invalid_argument, std::string(what),
              "must be aligned to " + std::to_string(kEndAlignment) + " bytes, got an address " +
                  std::to_string(beyond) + " bytes past that",
              "start it at a multiple of " + std::to_string(kEndAlignment) + " bytes within its allocation");
}

}  // namespace

void CudaSession::require_usable(std::string_view what, const void* data, const void*& checked) const {
  if (data == checked) return;
  cudaPointerAttributes attributes{};
  cuda_check(cudaPointerGetAttributes(&attributes, data), "asking what a pointer points to");
  const int device = cuda_engine_->device().index;
  const auto refuse = [&](const std::string& got, const std::string& hint) {
    throw Error(ErrorCode::invalid_argument, std::string(what),
                "must be memory of CUDA device " + std::to_string(device) + ", got " + got, hint);
  };
  if (attributes.type == cudaMemoryTypeUnregistered) {
    refuse("pageable host memory, or memory that was freed",
           "copy it to the device first, or call Session::run(), which takes host memory");
  }
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != device) {
    refuse("memory of CUDA device " + std::to_string(attributes.device),
           "copy it there, or compile with EngineOptions::device = " + std::to_string(attributes.device));
  }
  if (attributes.type == cudaMemoryTypeHost && attributes.devicePointer != data) {
    refuse("page-locked host memory that the device has at another address, or not at all",
           "pass what cudaHostGetDevicePointer() returns for it");
  }
  checked = data;
}

void CudaSession::run_between(std::int64_t n, const Ends& ends, cudaStream_t stream, bool replays) {
  // A plan with a minimum batch touches more images than the caller's buffers hold.
  if (n >= network().min_batch) {
    const GraphExec* graph = replays ? captured(caller_runs_, n, ends) : nullptr;
    if (graph != nullptr || !replays) return launch(graph, n, ends, stream);
  }
  cuda_check(cudaMemcpyAsync(input_.data(), ends.input, input_bytes(n), cudaMemcpyDefault, stream),
             "copying the input");
  launch(replays ? captured(own_runs_, n, own_ends()) : nullptr, n, own_ends(), stream);
  cuda_check(cudaMemcpyAsync(ends.output, output_.data(), output_bytes(n), cudaMemcpyDefault, stream),
             "copying the output");
}

void CudaSession::run_on_device(std::int64_t n, const void* input, DType input_type, float* output,
                                cudaStream_t stream) {
  const ExclusiveUse use(*this);
  check_batch(n);
  if (input_type != engine().input().dtype) {
    throw Error(ErrorCode::invalid_argument, "run_on_device",
                "the engine takes " + std::string(to_string(engine().input().dtype)) + ", got " +
                    std::string(to_string(input_type)),
                "see EngineOptions::picture_input");
  }
  require_aligned("input", input);
  require_aligned("output", output);
  const DeviceGuard guard(cuda_engine_->device());
  const bool is_part = is_captured(stream);
  const RelaxedCapture relaxed;  // questions about pointers, and graphs of the session's own
  require_usable("input", input, checked_input_);
  require_usable("output", output, checked_output_);
  input_overwritten_ = true;
  output_overwritten_ = true;
  const Ends ends{input, output, nullptr, nullptr};
  // The caller's graph gets the steps themselves: a graph cannot be launched into a capture, and an event of one cannot
  // order what runs outside.
  if (is_part) return run_between(n, ends, stream, false);
  order_.on(stream, [&] { run_between(n, ends, stream, cuda_engine_->options().cuda_graph); });
}

namespace {

void run_on_device(Session& session, std::int64_t n, const void* input, DType input_type, float* output,
                   cudaStream_t stream) {
  auto* cuda_session = dynamic_cast<CudaSession*>(&session);
  if (cuda_session == nullptr) {
    throw Error(ErrorCode::invalid_argument, "run_on_device", "the session does not belong to a GPU engine");
  }
  with_memory_errors("run_on_device", [&] { cuda_session->run_on_device(n, input, input_type, output, stream); });
}

}  // namespace

void run_on_device(Session& session, std::int64_t n, const float* input, float* output, cudaStream_t stream) {
  run_on_device(session, n, input, DType::F32, output, stream);
}

void run_on_device(Session& session, std::int64_t n, const std::uint8_t* pictures, float* output, cudaStream_t stream) {
  run_on_device(session, n, pictures, DType::U8, output, stream);
}

}  // namespace mobicuda
