// gpu_ceilings: what this GPU reaches where nothing else is to be done, as one line of JSON; for scripts/gpu_check.
#include <exception>
#include <iostream>

#include "bench_support.h"
#include "ceilings.h"
#include "launch_costs.h"

namespace mobicuda::bench {
namespace {

constexpr int kNoDevice = 4;

int run() {
  if (!has_gpu()) {
    std::cerr << "gpu_ceilings: no CUDA device\n";
    return kNoDevice;
  }
  int multiprocessors = 0;
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  const LaunchCosts costs = measure_launch_costs();
  const Ceilings& reached = ceilings();
  std::cout << "{\"multiprocessors\": " << multiprocessors << ", \"graphLaunchUs\": " << costs.graph
            << ", \"boundaryUs\": " << costs.boundary << ", \"handOverUs\": " << costs.hand_over
            << ", \"copyBytesPerSecond\": " << reached.bytes_per_second
            << ", \"fmaFlopsPerSecond\": " << reached.fma_flops_per_second
            << ", \"tensorFlopsPerSecond\": " << reached.tensor_flops_per_second << "}\n";
  return 0;
}

}  // namespace
}  // namespace mobicuda::bench

int main() {
  try {
    return mobicuda::bench::run();
  } catch (const std::exception& error) {
    std::cerr << "gpu_ceilings: " << error.what() << '\n';
    return 1;
  }
}
