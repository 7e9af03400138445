// kernels/ptx/async_copy.cuh for the emulator: copies are done when they are waited for.
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::ptx {

inline void copy_later(void* to, const void* from, std::size_t bytes, bool present) {
  emulator::copy_later(to, from, present ? bytes : 0, present ? 0 : bytes);
}

inline void copy_async_cg_or_zero(std::uint32_t to, const void* from, bool present) {
  copy_later(emulator::shared_at(to, 16), from, 16, present);
}
inline void copy_async_cg(std::uint32_t to, const void* from) { copy_async_cg_or_zero(to, from, true); }
inline void copy_async_cg_128(std::uint32_t to, const void* from) { copy_async_cg_or_zero(to, from, true); }
inline void copy_async_cg_128_or_zero(void* to, const void* from, bool present) { copy_later(to, from, 16, present); }

template <int kBytes>
void copy_async_ca_or_zero(std::uint32_t to, const void* from, bool present) {
  copy_later(emulator::shared_at(to, kBytes), from, kBytes, present);
}
inline void copy_async_ca_or_zero(float* to, const float* from, bool present) {
  copy_later(to, from, sizeof(float), present);
}

inline void copy_async_commit() { emulator::close_copies(); }
template <int kPending>
void copy_async_wait() {
  emulator::wait_for_copies(kPending);
}
inline void copy_async_wait_all() { emulator::wait_for_copies(-1); }

}  // namespace mobicuda::kernels::ptx
