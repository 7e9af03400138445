#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/common/launch.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::test {

using Doubles = std::vector<double>;

inline constexpr kernels::Clip kWide{-100.0F, 100.0F};  ///< that the tests' results stay within

inline Doubles random_doubles(std::uint32_t seed, std::size_t count) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  Doubles values(count);
  for (double& value : values) value = uniform(engine);
  return values;
}

inline DeviceTensor on_device(const Doubles& values) {
  DeviceTensor tensor(Elem::F64, values.size());
  tensor.upload(values);
  return tensor;
}

/// |actual - expected| <= gamma(products) * magnitude, in units of double.
inline void check_doubles(const Doubles& actual, const Doubles& expected, const Doubles& magnitude,
                          std::int64_t products) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i, actual[i], expected[i]);
    REQUIRE(std::abs(actual[i] - expected[i]) <=
            hard_bound(gamma(products, kUnitF64), magnitude[i], expected[i], kStoreF64));
  }
}

inline Doubles run_doubles(std::size_t count, const Enqueue& enqueue) {
  const DeviceTensor y(Elem::F64, count);
  REQUIRE(enqueue(y.data(), {}) == cudaSuccess);
  synchronize();
  REQUIRE(y.check_guards());
  return y.download_doubles();
}

}  // namespace mobicuda::test
