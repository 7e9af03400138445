// kernels/ptx/mbarrier.cuh for the emulator.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

inline void mbarrier_init(std::uint32_t barrier, int arrivals) { emulator::mbarrier_init(barrier, arrivals); }
inline void mbarrier_arrive(std::uint32_t barrier) { emulator::mbarrier_arrive(barrier); }
inline void mbarrier_arrive_at(std::uint32_t barrier, int rank) {
  emulator::mbarrier_arrive(emulator::map_to_rank(barrier, static_cast<unsigned>(rank)));
}
inline void mbarrier_arrive_expect(std::uint32_t barrier, int bytes) { emulator::mbarrier_arrive(barrier, bytes); }
inline void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity) { emulator::mbarrier_wait(barrier, parity); }
inline std::uint32_t mbarrier_test(std::uint32_t barrier, std::uint32_t parity) {
  return emulator::mbarrier_test(barrier, parity) ? 1 : 0;
}

}  // namespace mobicuda::kernels::ptx
