// kernels/ptx/fence.cuh for the emulator, whose memory is in order.
#pragma once

namespace mobicuda::kernels::ptx {

inline void fence_mbarrier_init() {}
inline void fence_proxy_async() {}

}  // namespace mobicuda::kernels::ptx
