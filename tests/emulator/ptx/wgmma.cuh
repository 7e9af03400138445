// kernels/ptx/wgmma.cuh for the emulator: not played.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kPending>
void wgmma_wait() {}
inline std::uint64_t wgmma_operand(std::uint32_t /*shared*/) { return 0; }
inline std::uint32_t wgmma_operand_128b(std::uint32_t /*shared*/) { return 0; }
template <int kCount, class... Operands>
void start_wgmma(float (&/*d*/)[kCount], Operands... /*operands*/) {
  emulator::fail("wgmma is not played");
}
template <int kCount>
void start_wgmma_transposed_b(float (&/*d*/)[kCount], std::uint32_t /*a*/, std::uint32_t /*b*/, int /*add*/) {
  emulator::fail("wgmma is not played");
}

}  // namespace mobicuda::kernels::ptx
