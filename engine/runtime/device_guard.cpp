#include "runtime/device_guard.h"

#include <string>

#include <cuda_runtime_api.h>

#include "runtime/cuda_check.h"
#include "runtime/driver_function.h"

namespace mobicuda {
namespace {

struct Contexts {
  decltype(&cuDeviceGet) device = driver_function<decltype(&cuDeviceGet)>("cuDeviceGet");
  decltype(&cuDevicePrimaryCtxRetain) retain =
      driver_function<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  decltype(&cuCtxPushCurrent) push = driver_function<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent");
  decltype(&cuCtxPopCurrent) pop = driver_function<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent");
};

const Contexts& contexts() {
  static const Contexts functions;
  return functions;
}

// At the end of the process the runtime unloads the driver and says so from then on; a driver's function must not be
// called any more.
bool has_runtime() {
  int device = 0;
  return cudaGetDevice(&device) != cudaErrorCudartUnloading;
}

}  // namespace

Device open_device(int index) {
  int devices = 0;
  cuda_check(cudaGetDeviceCount(&devices), "looking for CUDA devices");
  if (index < 0 || index >= devices) {
    throw Error(ErrorCode::device_unavailable, "device",
                "there is no CUDA device " + std::to_string(index) + "; this machine has " + std::to_string(devices),
                "choose 0 to " + std::to_string(devices - 1));
  }
  const std::string doing = "opening CUDA device " + std::to_string(index);
  CUdevice device{};
  driver_check(contexts().device(&device, index), doing);
  Device opened{index, nullptr};
  // Never released: the last release would end the context under whoever else uses the device.
  driver_check(contexts().retain(&opened.context, device), doing);
  return opened;
}

DeviceGuard::DeviceGuard(const Device& device) {
  driver_check(contexts().push(device.context), "selecting CUDA device " + std::to_string(device.index));
}

// A Device was opened, so that the driver's functions are known, and asking for them cannot throw.
// NOLINTBEGIN(bugprone-exception-escape)
DeviceGuard::DeviceGuard(const Device& device, std::nothrow_t) noexcept
    : pushed_(has_runtime() && contexts().push(device.context) == CUDA_SUCCESS) {}

DeviceGuard::~DeviceGuard() {
  CUcontext context = nullptr;
  if (pushed_) static_cast<void>(contexts().pop(&context));
}
// NOLINTEND(bugprone-exception-escape)

}  // namespace mobicuda
