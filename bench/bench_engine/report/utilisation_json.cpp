#include "bench_engine/report/utilisation_json.h"

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

std::optional<double> mean_of(const std::optional<SampledRange>& range) {
  if (!range) return std::nullopt;
  return range->mean;
}

}  // namespace

Utilisation own_part(Utilisation utilisation) {
  if (!utilisation.alternated) return utilisation;
  utilisation.power_w.reset();
  utilisation.energy_per_picture_j.reset();
  utilisation.energy_source.reset();
  return utilisation;
}

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
