#include "devices.h"

#include <array>
#include <cstddef>

#include <dlfcn.h>

namespace mobicuda::python {
namespace {

// The driver's interface, as far as it is used; cuda.h is not there in builds without CUDA.
constexpr int kSuccess = 0;
constexpr int kMajorAttribute = 75;
constexpr int kMinorAttribute = 76;

class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  bool is_there() const noexcept { return library_ != nullptr; }

  /// Calls a function of the driver; whether it succeeded. The library stays loaded, as CUDA in the process may use it.
  template <class... Args>
  bool call(const char* name, Args... args) const noexcept {
    const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library_, name));
    return function != nullptr && function(args...) == kSuccess;
  }

 private:
  void* library_;
};

}  // namespace

CudaDevices cuda_devices() {
  const Driver driver;
  if (!driver.is_there()) return {{}, "there is no NVIDIA driver (libcuda.so.1)"};
  int count = 0;
  if (!driver.call("cuInit", 0U) || !driver.call("cuDeviceGetCount", &count) || count == 0) {
    return {{}, "the NVIDIA driver offers no GPU"};
  }
  CudaDevices found;
  for (int index = 0; index < count; ++index) {
    int handle = 0;
    CudaDevice device;
    std::array<char, 256> name{};
    std::size_t bytes = 0;
    if (driver.call("cuDeviceGet", &handle, index) &&
        driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), handle) &&
        driver.call("cuDeviceGetAttribute", &device.major, kMajorAttribute, handle) &&
        driver.call("cuDeviceGetAttribute", &device.minor, kMinorAttribute, handle) &&
        driver.call("cuDeviceTotalMem_v2", &bytes, handle)) {
      device.name = name.data();
      device.memory_bytes = static_cast<std::int64_t>(bytes);
    } else {
      device.name = "a GPU that the driver tells nothing of";
    }
    found.devices.push_back(device);
  }
  return found;
}

}  // namespace mobicuda::python
