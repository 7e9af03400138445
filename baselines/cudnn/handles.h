#pragma once

#include <mutex>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace mobicuda::cudnn {

/// Held while a session enqueues or captures a whole network, or starts or ends its use of the libraries: cuDNN does
/// not promise that execution plans, which sessions share, are thread-safe, and starting and ending a handle waits for
/// the device, which breaks off other threads' captures. With captured CUDA graphs each session has its turn once.
[[nodiscard]] std::unique_lock<std::mutex> take_turn();

/// cuDNN and cuBLASLt handles that enqueue on one stream: one set for each session. Not thread-safe.
class Handles {
 public:
  /// Throws Error(device_unavailable) that names the library when one of them does not start.
  explicit Handles(cudaStream_t stream);
  ~Handles();
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  cudnnHandle_t cudnn() const noexcept { return cudnn_; }
  cublasLtHandle_t cublas_lt() const noexcept { return cublas_lt_; }
  cudaStream_t stream() const noexcept { return stream_; }
  /// What is enqueued from now on goes to `stream`.
  cudaError_t bind(cudaStream_t stream) noexcept;

 private:
  cudnnHandle_t cudnn_ = nullptr;
  cublasLtHandle_t cublas_lt_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace mobicuda::cudnn
