#pragma once

#include <string>
#include <string_view>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <mobicuda/error.h>

namespace mobicuda::cudnn {

static_assert(CUDNN_MAJOR >= 9, "the cuDNN baseline needs cuDNN 9; build with -DMOBICUDA_CUDNN=OFF to go without");

/// The ErrorCode that a cuDNN status stands for. cuDNN numbers its statuses in groups of a thousand.
inline ErrorCode error_code_of(cudnnStatus_t status) noexcept {
  constexpr int kGroup = 1000;
  constexpr int kUncategorized = 1;
  constexpr int kBadParameter = 2;
  constexpr int kNotSupported = 3;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    return ErrorCode::out_of_memory;
  }
  const int group = static_cast<int>(status) / kGroup;
  if (group == kUncategorized) return ErrorCode::device_unavailable;
  if (group == kBadParameter || group == kNotSupported) return ErrorCode::unsupported;
  return ErrorCode::internal;
}

/// Throws the Error that a status stands for; `doing` says what was attempted.
inline void check(cudnnStatus_t status, std::string_view doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(error_code_of(status), "cuDNN", std::string(doing) + ": " + cudnnGetErrorString(status));
}

inline void check(cublasStatus_t status, std::string_view doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  ErrorCode code = ErrorCode::internal;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = ErrorCode::out_of_memory;
  if (status == CUBLAS_STATUS_NOT_INITIALIZED) code = ErrorCode::device_unavailable;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) code = ErrorCode::unsupported;
  throw Error(code, "cuBLASLt", std::string(doing) + ": " + cublasLtGetStatusString(status));
}

/// For code that enqueues: it returns a status instead of throwing.
inline cudaError_t to_cuda(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::out_of_memory:
      return cudaErrorMemoryAllocation;
    case ErrorCode::unsupported:
      return cudaErrorNotSupported;
    default:
      return cudaErrorUnknown;
  }
}

inline cudaError_t to_cuda(cudnnStatus_t status) noexcept {
  return status == CUDNN_STATUS_SUCCESS ? cudaSuccess : to_cuda(error_code_of(status));
}

inline cudaError_t to_cuda(cublasStatus_t status) noexcept {
  if (status == CUBLAS_STATUS_SUCCESS) return cudaSuccess;
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? cudaErrorNotSupported : cudaErrorUnknown;
}

}  // namespace mobicuda::cudnn
