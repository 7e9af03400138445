// Bytes for tests, and arithmetic on them as the kernels must have it: exact sums in int64, floats rounded one
// operation at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/common/quantization.h"
#include "support/device_tensor.h"

namespace mobicuda::test {

using Bytes = std::vector<std::int8_t>;

enum class ByteData : std::uint8_t { Random, Lowest, Highest, Extremes };
inline constexpr ByteData kByteData[] = {ByteData::Random, ByteData::Lowest, ByteData::Highest, ByteData::Extremes};

/// Extremes: -128 and 127 in random order.
inline Bytes make_bytes(ByteData data, std::uint32_t seed, std::size_t count) {
  std::mt19937 engine(seed);
  Bytes bytes(count);
  for (std::int8_t& byte : bytes) {
    const auto random = static_cast<std::uint32_t>(engine());
    switch (data) {
      case ByteData::Random:
        byte = static_cast<std::int8_t>(random >> 24U);
        break;
      case ByteData::Lowest:
        byte = static_cast<std::int8_t>(kernels::kLowestByte);
        break;
      case ByteData::Highest:
        byte = static_cast<std::int8_t>(kernels::kHighestByte);
        break;
      case ByteData::Extremes:
        byte = static_cast<std::int8_t>(random >> 31U != 0 ? kernels::kLowestByte : kernels::kHighestByte);
        break;
    }
  }
  return bytes;
}

/// min(max(rint(v) + zero point, low), high).
inline std::int8_t to_byte(const kernels::ByteRange& range, float v) {
  const double whole = std::nearbyint(static_cast<double>(v)) + range.zero_point;  // halves to even
  return static_cast<std::int8_t>(std::min<double>(std::max<double>(whole, range.low), range.high));
}

/// Each operation in a statement of its own, as compilers may fuse those of one expression.
inline float product(float a, float b) {
  const volatile float result = a * b;
  return result;
}
inline float add(float a, float b) {
  const volatile float result = a + b;
  return result;
}

inline std::int8_t add_bytes(const kernels::ByteSum& sum, std::int8_t a, std::int8_t b) {
  const float first = product(sum.a_scale, static_cast<float>(a - sum.a_zero));
  const float second = product(sum.b_scale, static_cast<float>(b - sum.b_zero));
  return to_byte(sum.output, add(first, second));
}

/// A buffer on the device that holds `values`.
template <class T>
GuardedBuffer on_device(const std::vector<T>& values) {
  return GuardedBuffer(std::as_bytes(std::span(values)));
}

/// The elements of a buffer on the device.
template <class T>
std::vector<T> from_device(const GuardedBuffer& buffer) {
  const std::vector<std::byte> bytes = buffer.download();
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Zero points and ranges: in the middle, at both ends, narrow.
inline constexpr std::array<kernels::ByteRange, 5> kByteRanges{
    {{0, -128, 127}, {-128, -128, 127}, {127, -128, 127}, {-3, -3, 90}, {-128, -128, -128}}};

/// As run_kernel(): y is written whole, and twice with the same bits, once by a programmatic launch.
template <class T, class Enqueue>
std::vector<T> run_on_bytes(std::size_t count, const Enqueue& enqueue) {
  GuardedBuffer y(count * sizeof(T));
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  REQUIRE(enqueue(y.data(), kernels::Launch{stream, false}) == cudaSuccess);
  synchronize();
  const std::vector<T> first = from_device<T>(y);
  y.fill_nan();
  REQUIRE(enqueue(y.data(), kernels::Launch{stream, gpu_traits().code >= 90}) == cudaSuccess);
  synchronize();
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
  REQUIRE(from_device<T>(y) == first);
  REQUIRE(y.check_guards());
  return first;
}

}  // namespace mobicuda::test
