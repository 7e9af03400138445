// A CUDA runtime without a GPU: it plays GPUs of given traits and looks at every launch as a driver would. A program
// that links it instead of cudart runs launchers of kernels up to the launch.
#pragma once

#include <string>
#include <vector>

#include "kernels/common/device_traits.h"

namespace mobicuda::test {

/// Makes the device with this index, which is below 64, a GPU of these traits, and the current device. A device never
/// changes its traits.
void play_gpu(int device, const kernels::DeviceTraits& traits);

/// Makes `kernel` one that was compiled at run time.
void play_kernel(const void* kernel, const std::string& name);

struct PlayedLaunches {
  int count = 0;
  std::vector<std::string> faults;  ///< why the GPU that is played would refuse a launch or run it wrongly
};

/// What was launched on the current device since the last call, and forgets it.
PlayedLaunches take_launches();

}  // namespace mobicuda::test
