#include "report/read_utilisation.h"

#include <utility>

namespace mobicuda::bench::report {
namespace {

std::optional<SampledRange> sampled_range(const Field& f) {
  if (f.absent()) return std::nullopt;
  return SampledRange{f["mean"].number(), f["min"].number(), f["max"].number()};
}

std::optional<double> optional_number(const Field& f) {
  if (f.absent()) return std::nullopt;
  return f.number();
}

std::optional<EnergySource> energy_source(const Field& f) {
  if (f.absent()) return std::nullopt;
  if (f.text() != "counter" && f.text() != "power") f.fail("\"counter\" or \"power\"");
  return f.text() == "counter" ? EnergySource::Counter : EnergySource::Power;
}

}  // namespace

std::optional<Utilisation> read_utilisation(const Field& f) {
  if (f.absent()) return std::nullopt;
  Utilisation result;
  result.samples = static_cast<std::size_t>(f["samples"].size());
  result.alternated = f["alternated"].truth();
  result.gpu_percent = sampled_range(f["gpuPercent"]);
  result.memory_percent = sampled_range(f["memoryPercent"]);
  result.sm_clock_mhz = sampled_range(f["smClockMhz"]);
  result.power_w = sampled_range(f["powerW"]);
  result.temperature_c = sampled_range(f["temperatureC"]);
  if (!f["usedBytes"].absent()) result.used_bytes = f["usedBytes"].size();
  if (!f["clockReasons"].absent()) result.clock_reasons = f["clockReasons"].texts();
  result.cpu_percent = optional_number(f["cpuPercent"]);
  result.energy_per_picture_j = optional_number(f["energyPerPictureJ"]);
  result.energy_source = energy_source(f["energySource"]);
  return result;
}

Sustained read_sustained(const Field& f, std::optional<Utilisation> utilisation) {
  return {f["seconds"].number(), f["runs"].size(), std::move(utilisation)};
}

}  // namespace mobicuda::bench::report
