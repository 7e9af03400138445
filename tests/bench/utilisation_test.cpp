#include "bench_engine/measure/utilisation.h"

#include <nlohmann/json.hpp>

#include "bench_engine/export/report_json.h"
#include "bench_report.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda;
using namespace mobicuda::bench;
using nlohmann::json;

namespace {

GpuSample sample(double at_ms, double power_w, double clock_mhz, std::uint64_t reasons, double energy_j) {
  GpuSample one;
  one.at_ms = at_ms;
  one.reading.gpu_percent = 90;
  one.reading.power_w = power_w;
  one.reading.sm_clock_mhz = clock_mhz;
  one.reading.clock_reasons = reasons;
  one.reading.energy_j = energy_j;
  one.reading.used_bytes = 1000;
  return one;
}

// Each tells 90 % but the first, which tells what was before.
Usage five_samples() {
  Usage usage;
  usage.samples = {sample(0, 100, 1980, 0x1, 5), sample(100, 200, 1800, 0x4, 5), sample(150, 200, 1980, 0x0, 5),
                   sample(200, 300, 1980, 0x0, 5), sample(250, 200, 1980, 0x0, 5)};
  usage.samples[0].reading.gpu_percent = 0;
  usage.wall_ms = 200;
  usage.cpu_ms = 50;
  return usage;
}

// One in 10 ms, all at 300 W; the counter steps by 20 J every 100 ms, first at 30 ms.
Usage counted(int samples) {
  Usage usage;
  for (int i = 0; i < samples; ++i) {
    const int steps = (i + 7) / 10;
    usage.samples.push_back(sample(10 * i, 300, 1980, 0, 20 * steps));
  }
  return usage;
}

Report sampled_report() {
  Report report = report_of_two();
  CaseResult& custom = report.cases[0];
  custom.utilisation = summarize(five_samples(), false);
  add_energy(five_samples(), 0.5, *custom.utilisation);
  custom.utilisation->memory_percent = SampledRange{40, 30, 50};
  custom.utilisation->temperature_c = SampledRange{45, 44, 46};
  custom.enqueue_ms = 0.01;
  report.cases[1].utilisation = Utilisation();
  return report;
}

}  // namespace

TEST_CASE("samples are summed up, and reasons other than idleness are kept", "[utilisation]") {
  const Utilisation u = summarize(five_samples(), false);
  CHECK(u.samples == 5);
  CHECK(u.gpu_percent->min == 90);
  CHECK(u.power_w->mean == 200);
  CHECK(u.power_w->min == 100);
  CHECK(u.power_w->max == 300);
  CHECK(u.sm_clock_mhz->min == 1800);
  CHECK(u.used_bytes == 1000);
  CHECK(u.clock_reasons == std::vector<std::string>{"power cap"});
  CHECK(u.cpu_percent == 25);
  CHECK_FALSE(u.memory_percent.has_value());
  Usage brief = five_samples();
  brief.samples.resize(3);
  CHECK_FALSE(summarize(brief, false).gpu_percent.has_value());
  const Utilisation none = summarize(Usage(), false);
  CHECK_FALSE(none.power_w.has_value());
  CHECK_FALSE(none.clock_reasons.has_value());
  CHECK_FALSE(none.cpu_percent.has_value());
}

TEST_CASE("energy is that of the counter's steps, else of the mean power", "[utilisation]") {
  const auto energy = [](const Usage& usage, double ms_per_picture, bool alternated) {
    Utilisation utilisation = summarize(usage, alternated);
    add_energy(usage, ms_per_picture, utilisation);
    return utilisation;
  };
  const Utilisation exact = energy(counted(44), 0.5, false);  // 80 J from 30 to 430 ms
  CHECK(exact.energy_source == EnergySource::Counter);
  CHECK(exact.energy_per_picture_j.value() == Approx(0.1));
  const Utilisation brief = energy(counted(43), 0.5, false);  // the last step is at 330 ms
  CHECK(brief.energy_source == EnergySource::Power);
  CHECK(brief.energy_per_picture_j.value() == Approx(0.15));
  CHECK(energy(counted(100), 0.5, true).energy_source == EnergySource::Power);
  const Utilisation none = energy(Usage(), 1, false);
  CHECK_FALSE(none.energy_per_picture_j.has_value());
  CHECK_FALSE(none.energy_source.has_value());
  CHECK_FALSE(energy(counted(100), 0, false).energy_per_picture_j.has_value());
}

TEST_CASE("utilisation is in the document, without what is not a case's own", "[utilisation]") {
  Report report = sampled_report();
  report.gpu_not_sampled = "no NVML";
  json document = json::parse(json_report(Options(), report));
  const json& result = document["results"][0];
  CHECK(result["enqueueMs"] == 0.01);
  CHECK(result["utilisation"]["energySource"] == "power");
  CHECK(result["utilisation"]["clockReasons"] == json{"power cap"});
  CHECK(result["utilisation"]["smClockMhz"]["min"] == 1800);
  CHECK(document["results"][1]["utilisation"]["powerW"].is_null());
  CHECK(document["results"][1]["enqueueMs"].is_null());
  CHECK(document["gpuNotSampled"] == "no NVML");
  report.cases[0].utilisation->alternated = true;
  document = json::parse(json_report(Options(), report));
  CHECK(document["results"][0]["utilisation"]["powerW"].is_null());
  CHECK(document["results"][0]["utilisation"]["energyPerPictureJ"].is_null());
}

TEST_CASE("utilisation is in the CSV", "[utilisation]") {
  const std::string csv = csv_report(sampled_report());
  CHECK_THAT(csv, contains("enqueue_ms,gpu_samples,gpu_percent"));
  CHECK_THAT(csv, contains(",0.01,5,90,40,1000,1944,1800,1980,200,45,25,0.1\n"));
}
