// kernels/ptx/dependent_launch.cuh for the emulator, whose kernels run one after the other.
#pragma once

namespace mobicuda::kernels {

inline void wait_for_predecessor() {}

}  // namespace mobicuda::kernels
