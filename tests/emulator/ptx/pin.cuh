// kernels/ptx/pin.cuh for the emulator: where a value is computed does not matter here.
#pragma once

#include "kernels/common/std.h"

namespace mobicuda::kernels::ptx {

template <class T>
void pin(T& /*value*/) {}
template <class T, int kCount>
void pin_accumulators(T (&/*values*/)[kCount]) {}
template <class T>
void pin_by_memory(std::uint32_t /*scratch*/, T& /*value*/) {}

}  // namespace mobicuda::kernels::ptx
