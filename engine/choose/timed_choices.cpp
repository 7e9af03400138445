#include "choose/timed_choices.h"

#include <cuda_runtime_api.h>

#include "runtime/cuda_check.h"

namespace mobicuda {
namespace {

std::string names_of(const TimedKernels& kernels) {
  std::string text;
  for (const TimedKernel& kernel : kernels) text += (text.empty() ? "" : "+") + kernel.name;
  return text;
}

std::vector<WantedKernel> wanted_of(const std::vector<TimedKernels>& candidates) {
  std::vector<WantedKernel> wanted;
  for (const TimedKernels& kernels : candidates) {
    for (const TimedKernel& kernel : kernels) {
      if (kernel.wanted) wanted.push_back(*kernel.wanted);
    }
  }
  return wanted;
}

}  // namespace

// What measures and remembers differently from GPU to GPU and from version to version.
std::string machine_fields(const EngineOptions& options, const kernels::DeviceTraits& gpu) {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, options.device), "asking for the GPU's name");
  const std::string older = gpu.code < gpu.capability ? " compute_" + std::to_string(gpu.code) : "";
  return timing_field(properties.name) + "|" + std::to_string(gpu.multiprocessors) + "|" + MOBICUDA_VERSION + older +
         "|" + std::string(to_string(options.precision)) + "|" +
         (options.programmatic_launch ? "programmatic" : "one by one");
}

TimedChoices::TimedChoices(const EngineOptions& options, const kernels::DeviceTraits& gpu)
    : options_(options),
      machine_(machine_fields(options, gpu)),
      cache_(options.timing_cache),
      specialiser_(options, gpu) {}

TimedAnswer TimedChoices::fastest(const std::string& layer, const std::string& shape,
                                  const std::vector<TimedKernels>& candidates, std::size_t expected,
                                  std::size_t exchangeable, double margin) {
  std::vector<std::string> names;
  for (const TimedKernels& kernels : candidates) names.push_back(names_of(kernels));
  ++asked_;
  return choose_fastest(cache_, {layer, machine_ + "|" + shape, names, expected, margin, exchangeable},
                        options_.require_timing_cache, [&](std::size_t candidate, double give_up_us) {
                          if (!timer_) timer_ = std::make_unique<BlockTimer>(options_.programmatic_launch);
                          specialiser_.provide(wanted_of(candidates));  // all at once: they are compiled side by side
                          return timer_->microseconds(candidates[candidate], give_up_us);
                        });
}

void TimedChoices::finish() {
  const std::size_t measured = cache_.added();
  cache_.save();
  specialiser_.report();
  if (!options_.log) return;
  options_.log(LogLevel::Info, "timing cache " + cache_.file().string() + ": " + std::to_string(asked_) +
                                   " choices by time, " + std::to_string(measured) + " times measured");
}

}  // namespace mobicuda
