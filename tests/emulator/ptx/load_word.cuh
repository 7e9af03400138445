#pragma once

#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::ptx {

inline void load_global_or_zero(const void* from, unsigned present, std::uint32_t& word) {
  word = present != 0 ? load_global<std::uint32_t>(from) : 0;
}
inline void load_global_byte_or_zero(const void* from, unsigned present, std::uint32_t& byte) {
  byte = present != 0 ? load_global<std::uint8_t>(from) : 0;
}

}  // namespace mobicuda::kernels::ptx
