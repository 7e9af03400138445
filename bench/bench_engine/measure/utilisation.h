#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench_engine/measure/nvml.h"

namespace mobicuda::bench {

/// SM clocks that move by more than this share of the highest one, while one case is timed, are warned of.
inline constexpr double kMovedClocks = 0.05;

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

  bool clocks_moved() const {
    return sm_clock_mhz && sm_clock_mhz->max - sm_clock_mhz->min > kMovedClocks * sm_clock_mhz->max;
  }
};

struct GpuSample {
  double at_ms = 0;
  GpuReading reading;
};

/// What was recorded of one case: samples in order, and the time that its bursts and their pauses took.
struct Usage {
  std::vector<GpuSample> samples;
  double wall_ms = 0;
  double cpu_ms = 0;
};

Utilisation summarize(const Usage& usage, bool alternated);

/// Energy of pictures that follow each other without a pause, `ms_per_picture` apart: mean power times that. The power
/// is that of the energy counter where there is one, enough samples, and no other case between; else the mean of
/// samples.
void add_energy(const Usage& usage, double ms_per_picture, Utilisation& utilisation);

}  // namespace mobicuda::bench
