#include "bench_engine/export/utilisation_json.h"

#include <sstream>

namespace mobicuda::bench {
namespace {

using Json = nlohmann::ordered_json;

Json range_json(const std::optional<SampledRange>& range) {
  if (!range) return nullptr;
  return {{"mean", range->mean}, {"min", range->min}, {"max", range->max}};
}

template <class Value>
Json value_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json source_json(const std::optional<EnergySource>& source) {
  if (!source) return nullptr;
  return *source == EnergySource::Counter ? "counter" : "power";
}

std::optional<double> mean_of(const std::optional<SampledRange>& range) {
  if (!range) return std::nullopt;
  return range->mean;
}

// What is a case's own: without power and energy where cases took turns, as these are means over longer than a turn.
Utilisation own_part(Utilisation utilisation) {
  if (!utilisation.alternated) return utilisation;
  utilisation.power_w.reset();
  utilisation.energy_per_picture_j.reset();
  utilisation.energy_source.reset();
  return utilisation;
}

}  // namespace

Json utilisation_json(const std::optional<Utilisation>& utilisation) {
  if (!utilisation) return nullptr;
  const Utilisation u = own_part(*utilisation);
  return {{"samples", u.samples},
          {"alternated", u.alternated},
          {"gpuPercent", range_json(u.gpu_percent)},
          {"memoryPercent", range_json(u.memory_percent)},
          {"smClockMhz", range_json(u.sm_clock_mhz)},
          {"powerW", range_json(u.power_w)},
          {"temperatureC", range_json(u.temperature_c)},
          {"usedBytes", value_json(u.used_bytes)},
          {"clockReasons", value_json(u.clock_reasons)},
          {"cpuPercent", value_json(u.cpu_percent)},
          {"energyPerPictureJ", value_json(u.energy_per_picture_j)},
          {"energySource", source_json(u.energy_source)}};
}

Json sustained_json(const Sustained& sustained, std::int64_t batch) {
  return {{"seconds", sustained.seconds},
          {"runs", sustained.runs},
          {"picturesPerSecond", sustained.pictures_per_second(batch)},
          {"utilisation", utilisation_json(sustained.utilisation)}};
}

std::string utilisation_csv_header() {
  return ",enqueue_ms,gpu_samples,gpu_percent,memory_percent,gpu_used_bytes,sm_clock_mhz,sm_clock_min_mhz,"
         "sm_clock_max_mhz,power_w,temperature_c,cpu_percent,energy_per_picture_j";
}

std::string utilisation_csv(const CaseResult& result) {
  std::ostringstream csv;
  const auto cell = [&csv](const auto& value) {
    csv << ',';
    if (value) csv << *value;
  };
  const Utilisation u = own_part(result.utilisation.value_or(Utilisation()));
  const bool clocked = u.sm_clock_mhz.has_value();
  cell(result.enqueue_ms);
  cell(result.utilisation ? std::optional(u.samples) : std::nullopt);
  cell(mean_of(u.gpu_percent));
  cell(mean_of(u.memory_percent));
  cell(u.used_bytes);
  cell(mean_of(u.sm_clock_mhz));
  cell(clocked ? std::optional(u.sm_clock_mhz->min) : std::nullopt);
  cell(clocked ? std::optional(u.sm_clock_mhz->max) : std::nullopt);
  cell(mean_of(u.power_w));
  cell(mean_of(u.temperature_c));
  cell(u.cpu_percent);
  cell(u.energy_per_picture_j);
  return csv.str();
}

}  // namespace mobicuda::bench
