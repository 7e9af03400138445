#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench_engine/model/gpu_trace.h"

namespace mobicuda::bench {

/// Why nothing can be traced here: a build without CUPTI. Empty when the build has it.
std::string why_no_tracer();

/// Records GPU activities, CUDA calls and NVTX ranges by CUPTI. A run without a tracer never loads it, and one with a
/// tracer calls nothing of it before record(): launches are slower from then on. One at a time, since CUPTI has one
/// user in a process.
class Tracer {
 public:
  /// Throws UsageError when the build or the machine has no CUPTI. There must be no NVTX range before record(): the
  /// first one decides where all of them go.
  Tracer();
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// What happened during `work`, which must wait for what it enqueues. Throws Error(unsupported) when CUPTI refuses.
  GpuTrace record(const std::function<void()>& work);

 private:
  struct Cupti;
  std::unique_ptr<Cupti> cupti_;
};

}  // namespace mobicuda::bench
