#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench_engine/tensors/tensor_file.h"

namespace mobicuda::bench {

/// Reads NumPy's .npy format: float32 or uint8 in C order. Throws UsageError that begins with `name`.
FileTensor parse_npy(std::string_view bytes, const std::string& name);

/// What comes before the data in a .npy file of float32.
std::string npy_header(std::span<const std::int64_t> shape);

/// Product of the extents, unless one is negative or it does not fit. For sizes that a file claims.
std::optional<std::size_t> checked_elements(std::span<const std::int64_t> shape);

}  // namespace mobicuda::bench
