#include "bench_engine/measure/utilisation.h"

#include <algorithm>

namespace mobicuda::bench {
namespace {

// NVML's percentages are of a past while, at first of the time before the case.
constexpr double kPercentLagMs = 200;
// A step of the energy counter is seen up to one sample late: so many samples between two make that 2.5 %.
constexpr double kCountedSamples = 40;

template <class Value>
std::optional<SampledRange> range(const Usage& usage, std::optional<Value> GpuReading::*member, double lag_ms = 0) {
  SampledRange result;
  std::size_t count = 0;
  for (const GpuSample& sample : usage.samples) {
    if (!(sample.reading.*member) || sample.at_ms < usage.samples.front().at_ms + lag_ms) continue;
    const auto value = static_cast<double>(*(sample.reading.*member));
    result.min = count == 0 ? value : std::min(result.min, value);
    result.max = count == 0 ? value : std::max(result.max, value);
    result.mean += value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  result.mean /= static_cast<double>(count);
  return result;
}

// Counters move in steps of about 0.1 s, so the time from the first step to the last one counts.
std::optional<double> counted_power_w(const Usage& usage) {
  const GpuSample* first = nullptr;
  const GpuSample* last = nullptr;
  std::optional<double> before;
  for (const GpuSample& sample : usage.samples) {
    const std::optional<double>& now = sample.reading.energy_j;
    if (now && before && *now > *before) {
      if (first == nullptr) first = &sample;
      last = &sample;
    }
    before = now;
  }
  if (first == nullptr || static_cast<double>(last - first) < kCountedSamples) return std::nullopt;
  return (*last->reading.energy_j - *first->reading.energy_j) / ((last->at_ms - first->at_ms) / 1e3);
}

}  // namespace

Utilisation summarize(const Usage& usage, bool alternated) {
  Utilisation result;
  result.samples = usage.samples.size();
  result.alternated = alternated;
  result.gpu_percent = range(usage, &GpuReading::gpu_percent, kPercentLagMs);
  result.memory_percent = range(usage, &GpuReading::memory_percent, kPercentLagMs);
  result.sm_clock_mhz = range(usage, &GpuReading::sm_clock_mhz);
  result.power_w = range(usage, &GpuReading::power_w);
  result.temperature_c = range(usage, &GpuReading::temperature_c);
  if (const auto used = range(usage, &GpuReading::used_bytes)) {
    result.used_bytes = static_cast<std::int64_t>(used->max);
  }
  std::optional<std::uint64_t> reasons;
  for (const GpuSample& sample : usage.samples) {
    if (sample.reading.clock_reasons) reasons = reasons.value_or(0) | *sample.reading.clock_reasons;
  }
  if (reasons) result.clock_reasons = clock_reason_names(*reasons);
  if (usage.wall_ms > 0) result.cpu_percent = 100 * usage.cpu_ms / usage.wall_ms;
  return result;
}

void add_energy(const Usage& usage, double ms_per_picture, Utilisation& utilisation) {
  if (ms_per_picture <= 0) return;
  std::optional<double> power_w;
  if (!utilisation.alternated) power_w = counted_power_w(usage);
  if (power_w) {
    utilisation.energy_source = EnergySource::Counter;
  } else if (utilisation.power_w) {
    power_w = utilisation.power_w->mean;
    utilisation.energy_source = EnergySource::Power;
  }
  if (power_w) utilisation.energy_per_picture_j = *power_w * ms_per_picture / 1e3;
}

}  // namespace mobicuda::bench
