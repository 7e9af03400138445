// What device headers use of the standard library. NVRTC, which compiles kernels at run time, has no host headers:
// there the few things that are used stand here, with the same types as on the host. A device header includes this one,
// never <cstdint> and the like.
#pragma once

#ifndef __CUDACC_RTC__

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <cuda_runtime.h>

#else

namespace std {

using size_t = decltype(sizeof 0);
using ptrdiff_t = long;
using uintptr_t = unsigned long;
using int8_t = signed char;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long;
static_assert(sizeof(int64_t) == 8 && sizeof(uintptr_t) == sizeof(void*));

template <class T, T kValue>
struct integral_constant {
  static constexpr T value = kValue;
  using value_type = T;
  constexpr operator T() const { return value; }
};

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <class T>
inline constexpr bool is_pointer_v = false;
template <class T>
inline constexpr bool is_pointer_v<T*> = true;

template <bool kFirst, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool kFirst, class A, class B>
using conditional_t = typename conditional<kFirst, A, B>::type;

template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000U); }
};
template <>
struct numeric_limits<int32_t> {
  static constexpr int32_t max() { return 0x7fffffff; }
};

// For constants.
template <class T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}

}  // namespace std

#endif
