#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mobicuda/types.h>

namespace mobicuda {

/// n images as an engine stores them (F32, F16, F64, or I8 and U8, which become the real numbers that they stand for;
/// dense, in the layout of `picture`) become floats in the order
/// of the logical shape: NCHW for activations of rank 4. `stored` and `floats` must hold n images.
void to_logical_floats(std::span<const std::byte> stored, const TensorDesc& picture, std::int64_t n,
                       std::span<float> floats);

}  // namespace mobicuda
