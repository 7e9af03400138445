#pragma once

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <mobicuda/error.h>

namespace mobicuda {

/// What `function` returns; where the standard library lacks memory, an Error(out_of_memory). For the library's public
/// functions, out of which no other exception comes.
template <class Function>
decltype(auto) with_memory_errors(std::string_view where, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, std::string(where), "no host memory");
  }
}

}  // namespace mobicuda
