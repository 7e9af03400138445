#pragma once

#include <span>
#include <string_view>

namespace mobicuda {

/// A device header, as it was when the library was built.
struct DeviceSource {
  const char* path;       ///< as it is included: "kernels/ptx/mma.cuh"; ends with a zero byte
  std::string_view text;  ///< the same
};

/// All device headers of kernels/, and of the CUDA Toolkit what they include.
std::span<const DeviceSource> device_sources();

}  // namespace mobicuda
