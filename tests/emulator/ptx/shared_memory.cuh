// kernels/ptx/shared_memory.cuh for the emulator.
#pragma once

#define MOBICUDA_DYNAMIC_SHARED(T, alignment, name) \
  T* const name = static_cast<T*>(::mobicuda::emulator::dynamic_shared())
