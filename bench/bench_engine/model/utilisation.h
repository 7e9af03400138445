#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mobicuda::bench {

/// What was sampled, over one case's samples.
struct SampledRange {
  double mean = 0;
  double min = 0;
  double max = 0;
};

/// Where the power in an energy comes from: a difference of the GPU's energy counter, or the mean of sampled powers.
enum class EnergySource : std::uint8_t { Counter, Power };

/// How busy GPU and process were while a case was timed. What is not known is nothing.
struct Utilisation {
  std::size_t samples = 0;  ///< of the GPU
  bool alternated = false;  ///< with other cases, in bursts that are shorter than what NVML averages over
  std::optional<SampledRange> gpu_percent;  ///< this and the next: without the first 0.2 s
  std::optional<SampledRange> memory_percent;
  std::optional<SampledRange> sm_clock_mhz;
  std::optional<SampledRange> power_w;
  std::optional<SampledRange> temperature_c;
  std::optional<std::int64_t> used_bytes;                 ///< the most, of all processes
  std::optional<std::vector<std::string>> clock_reasons;  ///< why clocks were not higher, but for an idle GPU
  std::optional<double> cpu_percent;                      ///< of one core, of this process without its sampler
  std::optional<double> energy_per_picture_j;
  std::optional<EnergySource> energy_source;
};

/// Runs in a row, of one case alone on its processor, by the host's clock.
struct Sustained {
  double seconds = 0;                      ///< from the first run's begin to the last one's end
  std::int64_t runs = 0;                   ///< in that time
  std::optional<Utilisation> utilisation;  ///< nothing where nothing is recorded

  double pictures_per_second(std::int64_t batch) const {
    return seconds > 0 ? static_cast<double>(runs * batch) / seconds : 0;
  }
};

}  // namespace mobicuda::bench
