// kernels/ptx/fence.cuh for the emulator, whose memory is in order; whether the async proxy may see it is checked.
#pragma once

namespace mobicuda::kernels::ptx {

inline void fence_mbarrier_init() {}
inline void fence_proxy_async() { emulator::fence_async_proxy(); }

}  // namespace mobicuda::kernels::ptx
