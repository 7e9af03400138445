// y[i] = the sum of bytes a[i] and b[i], each with its own quantisation (ByteSum), element by element, padding
// included. Fewer than 2^38 elements; 4-byte aligned, a multiple of four elements. Bits are those of an oracle on the
// CPU.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"
#include "kernels/common/quantization.h"

namespace mobicuda::kernels {

struct Int8AddParams {
  std::int64_t elements = 0;
  ByteSum sum{};
};

/// y may be a or b. cudaErrorInvalidValue for a size below zero or no multiple of four, or a quantisation that is none.
cudaError_t int8_add(const Int8AddParams& params, const void* a, const void* b, void* y, const Launch& where);

}  // namespace mobicuda::kernels
