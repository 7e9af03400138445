#pragma once

#include <new>

#include <cuda.h>

#include <mobicuda/export.h>

namespace mobicuda {

/// A CUDA device and its primary context, which is the one that the CUDA runtime uses.
struct Device {
  int index = 0;
  CUcontext context = nullptr;
};

/// Throws Error(device_unavailable) with the reason and the remedy when there is no device of that index. Creates its
/// primary context where nobody has; the context then stays until the process ends, as one does that the runtime makes.
MOBICUDA_API Device open_device(int index);

/// Makes a device current for the calling thread while it lives, and then what was current before: another device, a
/// context of the caller's own, or nothing. cudaSetDevice() cannot restore nothing: it would create a context, hundreds
/// of megabytes, on a device that the caller may never use.
class MOBICUDA_API DeviceGuard {
 public:
  explicit DeviceGuard(const Device& device);
  /// For destructors. Where the device cannot be made current any more, as at the end of the process, nothing changes.
  DeviceGuard(const Device& device, std::nothrow_t) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  bool pushed_ = true;
};

}  // namespace mobicuda
