// Specialised kernels on a GPU: compiled, loaded, and right.
#include <string>
#include <vector>

#include "choose/timed_kernel.h"
#include "kernels/inverted_residual_case.h"
#include "specialise/specialiser.h"
#include "support/catch.h"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;

DeviceTraits gpu_that_compiles() {
  DeviceTraits gpu = gpu_traits();
  gpu.compiles = true;
  return gpu;
}

/// All variants made for the block, with their code.
std::vector<InvertedResidualVariant> compiled(const InvertedResidualParams& p, Specialiser& specialiser) {
  const auto& kernel = kernels::kernel_of(p);
  const std::vector<InvertedResidualVariant> variants = kernel.specialised(p, gpu_that_compiles());
  std::vector<WantedKernel> wanted;
  for (const auto variant : variants) wanted.push_back(*wanted_kernel(kernel, variant));
  specialiser.provide(wanted);
  return variants;
}

TEST_CASE("specialised kernels equal the oracle") {
  EngineOptions options;
  options.code_cache.emplace();
  Specialiser specialiser(options, gpu_traits());
  if (const std::string why = specialiser.why_not(); !why.empty()) MOBICUDA_SKIP(why);
  struct Channels {
    int c_in, c_hidden, c_out, stride;
  };
  int checked = 0;
  for (const Channels& c : {Channels{24, 144, 32, 1}, {32, 192, 32, 1}, {48, 288, 80, 2}, {56, 336, 112, 1},
                            {80, 480, 160, 1}, {88, 528, 88, 1}, {120, 720, 120, 1}, {136, 816, 224, 2},
                            {224, 1344, 224, 1}}) {
    for (const int size : {7, 10}) {
      const InvertedResidualParams p = block(2, size, size + 1, c.c_in, c.c_hidden, c.c_out, c.stride);
      const Data data = random_data(p, 1);
      checked += check_against_oracle(p, data, compiled(p, specialiser));
    }
  }
  if (gpu_traits().code >= 90) CHECK(checked > 20);
}

TEST_CASE("specialised kernels: without code a launch is refused") {
  const auto& kernel = kernels::kernel_of(InvertedResidualParams{});
  const InvertedResidualParams p = block(1, 3, 3, 8, 40, 8, 1);
  const auto variants = kernel.specialised(p, gpu_that_compiles());
  if (variants.empty()) MOBICUDA_SKIP("nothing is made for this GPU");
  const Data data = random_data(p, 1);
  const DeviceTensor x(p.elem, data.x);
  const GuardedBuffer packed = pack(variants.front(), p, data);
  CHECK(kernels::inverted_residual(variants.front(), p, x.data(), packed.data(), const_cast<void*>(x.data()), {}) ==
        cudaErrorInvalidDeviceFunction);
}

}  // namespace
}  // namespace mobicuda::test
