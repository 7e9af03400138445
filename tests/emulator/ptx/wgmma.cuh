// kernels/ptx/wgmma.cuh for the emulator. Operands in registers are references: they are read until they are waited
// for.
#pragma once

#include "emulator/wgmma.h"
#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

inline void wgmma_fence() { emulator::fence_products(); }
inline void wgmma_commit() { emulator::commit_products(); }
template <int kPending>
void wgmma_wait() {
  emulator::wait_for_products(kPending);
}

inline std::uint64_t wgmma_operand(std::uint32_t shared) {
  return (shared & 0x3ffffU) >> 4U | std::uint64_t{128 >> 4} << 16U | std::uint64_t{256 >> 4} << 32U;
}
inline std::uint32_t wgmma_operand_128b(std::uint32_t shared, std::uint32_t next_panel = 1) {
  return (shared & 0x3FFFFU) >> 4U | next_panel << 16U;
}

/// The whole descriptor of wgmma_operand_128b().
inline std::uint64_t descriptor_128b(std::uint32_t lower) { return std::uint64_t{0x40000040} << 32U | lower; }

template <int kCount>
void start_wgmma(float (&d)[kCount], const std::uint32_t& a0, const std::uint32_t& a1, const std::uint32_t& a2,
                 const std::uint32_t& a3, std::uint64_t b, bool first = false) {
  emulator::start_product({d, kCount, false, !first, {&a0, &a1, &a2, &a3}, 0, b, false});
}
template <int kCount>
void start_wgmma(float (&d)[kCount], std::uint64_t a, std::uint64_t b, bool first) {
  emulator::start_product({d, kCount, false, !first, {}, a, b, false});
}
template <int kCount>
void start_wgmma(float (&d)[kCount], std::uint32_t a, std::uint32_t b, int add) {
  emulator::start_product({d, kCount, false, add != 0, {}, descriptor_128b(a), descriptor_128b(b), false});
}
inline std::uint32_t wgmma_upper_128b(int step_bytes) {
  return 0x40000000U | static_cast<std::uint32_t>(step_bytes) >> 4U;
}
template <int kCount>
void start_wgmma_transposed_a(float (&d)[kCount], std::uint32_t a, std::uint32_t b, std::uint32_t b_upper, int add) {
  emulator::start_product(
      {d, kCount, false, add != 0, {}, descriptor_128b(a), std::uint64_t{b_upper} << 32U | b, false, true});
}
template <int kCount>
void start_wgmma_s8(std::int32_t (&d)[kCount], std::uint32_t a, std::uint32_t b, int add) {
  emulator::start_product({d, kCount, true, add != 0, {}, descriptor_128b(a), descriptor_128b(b), false});
}
template <int kCount>
void start_wgmma_transposed_b(float (&d)[kCount], std::uint32_t a, std::uint32_t b, int add) {
  emulator::start_product({d, kCount, false, add != 0, {}, descriptor_128b(a), descriptor_128b(b), true});
}

}  // namespace mobicuda::kernels::ptx
