// kernels/ptx/lane.cuh for the emulator.
#pragma once

namespace mobicuda::kernels::ptx {

inline unsigned lane() { return threadIdx.x % 32; }
inline unsigned warp() { return threadIdx.x / 32; }

namespace as_int {
inline int lane() { return static_cast<int>(threadIdx.x % 32); }
inline int warp() { return static_cast<int>(threadIdx.x / 32); }
}  // namespace as_int

inline unsigned reread_lane() { return lane(); }
inline unsigned reread_warp() { return warp(); }

}  // namespace mobicuda::kernels::ptx
