// kernels/ptx/named_barrier.cuh for the emulator.
#pragma once

namespace mobicuda::kernels::ptx {

inline void sync_threads_of(int barrier, int threads) { emulator::sync_threads_of(barrier, threads); }
template <int kThreads>
void sync_threads_of(int barrier) {
  emulator::sync_threads_of(barrier, kThreads);
}
inline void arrive_for_threads_of(int barrier, int threads) { emulator::arrive_for_threads_of(barrier, threads); }

}  // namespace mobicuda::kernels::ptx
