#include "runtime/cuda_check.h"

#include <string>

namespace mobicuda {
namespace {

ErrorCode code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return ErrorCode::out_of_memory;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorDevicesUnavailable:
      return ErrorCode::device_unavailable;
    case cudaErrorStreamCaptureImplicit:
      return ErrorCode::invalid_argument;
    // After these the context is unusable; CUDA's documentation asks for the process to be restarted.
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
      return ErrorCode::device_lost;
    default:
      return ErrorCode::internal;
  }
}

const char* hint_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "use a smaller max_batch, or free memory on the device";
    case cudaErrorNoDevice:
      return "no NVIDIA GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use the cpu engine";
    case cudaErrorInsufficientDriver:
      return "install a newer NVIDIA driver, or use the cpu engine";
    case cudaErrorNoKernelImageForDevice:
      return "build with CMAKE_CUDA_ARCHITECTURES for this GPU";
    case cudaErrorStreamCaptureImplicit:
      return "the legacy default stream (0) is of no use while a stream that waits for it is being captured: "
             "pass another one, or create that one with cudaStreamNonBlocking";
    default:
      return code_of(status) == ErrorCode::device_lost ? "the process must be restarted" : "";
  }
}

// The runtime calls a driver that is not there "insufficient" too.
bool has_driver() {
  int version = 0;
  return cudaDriverGetVersion(&version) != cudaSuccess || version != 0;
}

}  // namespace

void cuda_check(cudaError_t status, std::string_view doing) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // so that a later call does not report this one again
  if (status == cudaErrorInsufficientDriver && !has_driver()) {
    throw Error(code_of(status), std::string(doing), "no NVIDIA driver found", "install one, or use the cpu engine");
  }
  throw Error(code_of(status), std::string(doing),
              std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status), hint_of(status));
}

int compute_capability(int device) {
  int major = 0;
  int minor = 0;
  cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the capability");
  cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking for the capability");
  return major * 10 + minor;
}

std::string device_description(int device) {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, device), "asking for the GPU's name");
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", " + std::to_string(properties.multiProcessorCount) + " multiprocessors";
}

int multiprocessors(int device) {
  int count = 0;
  cuda_check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "counting multiprocessors");
  return count;
}

}  // namespace mobicuda
