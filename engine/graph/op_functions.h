#pragma once

#include <variant>

#include <mobicuda/graph.h>

// Of GCC and nvcc, about a reading of friends that C++ never had.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wnon-template-friend"
#endif
#ifdef __NVCC__
#pragma nv_diag_suppress 1301
#endif

namespace mobicuda {

/// How a box has one function for each operation and no list of them. Functions<T> declares, as friends, those of an
/// operation T; a class that they take derives from OpFunctions<Functions>, and so they are found by it wherever they
/// are called. The compiler holds each definition against its declaration, and the linker names those that nobody
/// wrote.
template <template <class> class Functions, class Ops = Op>
struct OpFunctions;

template <template <class> class Functions, class... T>
struct OpFunctions<Functions, std::variant<T...>> : Functions<T>... {};

}  // namespace mobicuda
