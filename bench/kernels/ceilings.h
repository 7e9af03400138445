#pragma once

#include <cstdint>

namespace mobicuda::bench {

/// Which unit does most of a kernel's arithmetic.
enum class Pipe : std::uint8_t { Fma, Tensor };

/// What this GPU reaches where nothing else is to be done, measured once in a process: kernels are compared with it.
struct Ceilings {
  double bytes_per_second = 0;         ///< of device memory, reading and writing alike: a copy far larger than L2
  double fma_flops_per_second = 0;     ///< float multiply-adds from registers
  double tensor_flops_per_second = 0;  ///< mma.sync.m16n8k16, half with float sums, from registers
};

/// Measured at the first call. Throws std::runtime_error with CUDA's text.
const Ceilings& ceilings();

/// Whether benchmarks compare themselves with ceilings(); they do unless told otherwise.
bool measures_ceilings();
void measure_ceilings(bool wanted);

}  // namespace mobicuda::bench
