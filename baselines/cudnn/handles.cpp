#include "cudnn/handles.h"

#include <string>

#include "cudnn/cudnn_check.h"

namespace mobicuda::cudnn {

std::unique_lock<std::mutex> take_turn() {
  static std::mutex turn;
  return std::unique_lock(turn);
}

Handles::Handles(cudaStream_t stream) : stream_(stream) {
  const auto turn = take_turn();
  if (const cudnnStatus_t status = cudnnCreate(&cudnn_); status != CUDNN_STATUS_SUCCESS) {
    throw Error(ErrorCode::device_unavailable, "cuDNN",
                std::string("the library did not start: ") + cudnnGetErrorString(status),
                "check that the libcudnn found at run time is version 9 and fits the driver");
  }
  if (const cublasStatus_t status = cublasLtCreate(&cublas_lt_); status != CUBLAS_STATUS_SUCCESS) {
    cudnnDestroy(cudnn_);
    throw Error(ErrorCode::device_unavailable, "cuBLASLt",
                std::string("the library did not start: ") + cublasLtGetStatusString(status));
  }
  if (cudnnSetStream(cudnn_, stream_) != CUDNN_STATUS_SUCCESS) {
    cublasLtDestroy(cublas_lt_);
    cudnnDestroy(cudnn_);
    throw Error(ErrorCode::device_unavailable, "cuDNN", "the library did not accept the session's stream");
  }
}

Handles::~Handles() {
  const auto turn = take_turn();
  cublasLtDestroy(cublas_lt_);
  cudnnDestroy(cudnn_);
}

cudaError_t Handles::bind(cudaStream_t stream) noexcept {
  if (stream == stream_) return cudaSuccess;
  const cudnnStatus_t status = cudnnSetStream(cudnn_, stream);
  if (status == CUDNN_STATUS_SUCCESS) stream_ = stream;
  return to_cuda(status);
}

}  // namespace mobicuda::cudnn
