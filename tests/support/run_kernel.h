#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/common/launch.h"
#include "support/catch.h"
#include "support/device_tensor.h"

namespace mobicuda::test {

inline constexpr Elem kElems[] = {Elem::F32, Elem::F16};
/// Of kernels that take double as well.
inline constexpr Elem kAllElems[] = {Elem::F32, Elem::F16, Elem::F64};

inline const char* to_string(Elem elem) {
  constexpr const char* kNames[] = {"fp32", "fp16", "fp64"};
  return kNames[static_cast<std::size_t>(elem)];
}

/// Enqueues one kernel that writes all of y.
using Enqueue = std::function<cudaError_t(void* y, const kernels::Launch& where)>;

/// Runs a kernel on an output of `count` NaNs and returns what it wrote. Requires that the kernel succeeds, stays
/// within the output, and writes the same bits in a second run, which is a programmatic dependent launch where
/// the GPU has that.
inline std::vector<float> run_kernel(Elem output, std::size_t count, std::size_t misalign_elements,
                                     const Enqueue& enqueue) {
  DeviceTensor y(output, count, misalign_elements);
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  REQUIRE(enqueue(y.data(), {stream, false}) == cudaSuccess);
  synchronize();
  const std::vector<std::byte> first = y.download_bytes();
  std::vector<float> values = y.download();
  y.fill_nan();
  REQUIRE(enqueue(y.data(), {stream, gpu_traits().code >= 90}) == cudaSuccess);
  synchronize();
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
  REQUIRE(y.download_bytes() == first);
  REQUIRE(y.check_guards());
  return values;
}

/// Kernels find a variant's entry in their table by its value.
template <class Variant>
void check_order(std::span<const Variant> variants) {
  for (std::size_t i = 0; i < variants.size(); ++i) {
    CAPTURE(i, name(variants[i]));
    CHECK(static_cast<std::size_t>(variants[i]) == i);
  }
}

/// Calls body(variant) for all that support the parameters; returns how many.
template <class Variant, class Params, class Body>
int for_each_supported(std::span<const Variant> variants, const Params& p, const Body& body) {
  int count = 0;
  for (const Variant variant : variants) {
    if (!supports(variant, p, gpu_traits())) continue;
    CAPTURE(name(variant), p);
    body(variant);
    ++count;
  }
  return count;
}

}  // namespace mobicuda::test
