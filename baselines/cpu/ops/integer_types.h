#pragma once

#include <cstdint>
#include <utility>

#include <mobicuda/types.h>

namespace mobicuda::cpu {

/// function(T{}) for the T that elements of I8 or U8 are.
template <class Function>
decltype(auto) with_integer(DType dtype, Function&& function) {
  if (dtype == DType::U8) return std::forward<Function>(function)(std::uint8_t{});
  return std::forward<Function>(function)(std::int8_t{});
}

}  // namespace mobicuda::cpu
