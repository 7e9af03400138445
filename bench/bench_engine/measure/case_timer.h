#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bench_engine/measure/nvml.h"
#include "bench_engine/measure/recorded_timing.h"
#include "bench_engine/model/live_case.h"
#include "bench_engine/model/options.h"
#include "bench_engine/tensors/timed_input.h"

namespace mobicuda::bench {

/// Times the cases of a batch, as the options say: those that share a processor in turns.
class CaseTimer {
 public:
  /// `gpu`: to be sampled meanwhile. `ranges`: phases are told to profilers.
  CaseTimer(const Options& options, const TimedInput& input, std::optional<NvmlDevice> gpu, bool ranges)
      : options_(options), input_(input), gpu_(gpu), ranges_(ranges) {}

  /// Leaves the times in the cases' results; gives the GPU's state before and after.
  GpuStates time(std::vector<LiveCase>& live, std::int64_t batch) const;

 private:
  void time_group(const std::vector<LiveCase*>& group, std::int64_t batch) const;
  /// What no other case may share its processor with.
  void time_alone(LiveCase& one, std::int64_t batch) const;
  void time_streams(LiveCase& one, std::int64_t batch, const Schedule& schedule) const;
  Recording recording(bool gpu, std::int64_t batch) const;

  const Options& options_;
  const TimedInput& input_;
  std::optional<NvmlDevice> gpu_;
  bool ranges_;
};

/// Statistics of what was timed, and comparisons with the golden outputs and with live[reference].
void summarize(std::vector<LiveCase>& live, std::size_t reference, const TimedInput& input, std::size_t classes);

}  // namespace mobicuda::bench
