#include "bench_engine/measure/utilisation.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench_engine/report/read_report.h"
#include "bench_engine/report/report_html.h"
#include "bench_engine/report/report_json.h"
#include "bench_engine/report/utilisation_section.h"
#include "bench_report.h"
#include "contains.h"
#include "support/catch.h"

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

std::string text_of(const Report& report) {
  std::ostringstream text;
  print_utilisation(text, report);
  return text.str();
}

std::string warnings_of(const CaseResult& result) {
  std::string all;
  for (const std::string& one : timing_warnings(result)) all += one + '\n';
  return all;
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
  CHECK(u.clocks_moved());
  const Utilisation none = summarize(Usage(), false);
  CHECK_FALSE(none.power_w.has_value());
  CHECK_FALSE(none.clock_reasons.has_value());
  CHECK_FALSE(none.cpu_percent.has_value());
  CHECK_FALSE(none.clocks_moved());
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

TEST_CASE("clocks that moved or were held back, and a slow host, are warned of", "[utilisation]") {
  CaseResult result = sampled_report().cases[0];
  CHECK(warnings_of(result) ==
        "custom fp32, batch 2: the SM clock moved, 1800-1980 MHz: more than 5.00 %\n"
        "custom fp32, batch 2: clocks were held back: power cap\n");
  result.utilisation->sm_clock_mhz = SampledRange{1950, 1890, 1980};
  result.utilisation->clock_reasons->clear();
  CHECK(warnings_of(result).empty());
  result.enqueue_ms = 0.39;  // of 0.5 ms
  CHECK(warnings_of(result).empty());
  result.enqueue_ms = 0.40;
  CHECK_THAT(warnings_of(result), contains("the host may bound the result: it enqueues a run in 0.4000 ms"));
  result.device_statistics = Statistics();
  CHECK(warnings_of(result).empty());
}

TEST_CASE("utilisation is in text and page, with a dash for what is not known", "[utilisation]") {
  Report report = sampled_report();
  const std::string text = text_of(report);
  for (const char* part : {"enqueue", "0.0100", "1800-1980", "100.000 (power)", "power cap", "44-46"}) {
    CHECK_THAT(text, contains(part));
  }
  CHECK_THAT(text, contains("cpu fp32            2    -        -        0    -"));
  CHECK_THAT(text, !contains("timed in turns"));
  report.cases[0].utilisation->alternated = true;
  CHECK_THAT(text_of(report), contains("timed in turns"));
  CHECK_THAT(text_of(report), !contains("100.000 (power)"));
  CHECK(json::parse(json_report(Options(), report))["results"][0]["utilisation"]["powerW"].is_null());
  ReportFile file;
  file.report = report;
  const std::string page = html_report(file);
  for (const char* part : {"Utilisation while timed", "1800-1980", "the SM clock moved"}) {
    CHECK_THAT(page, contains(part));
  }
  CHECK(text_of(report_of_two()).empty());
  report.cases.resize(1);
  report.cases[0] = case_of("custom", 1);
  report.cases[0].enqueue_ms = 0.25;
  report.gpu_not_sampled = "no NVML";
  CHECK_THAT(text_of(report), contains("GPU not sampled: no NVML"));
  CHECK_THAT(text_of(report), !contains("CPU %"));
}

TEST_CASE("utilisation survives the JSON document", "[utilisation]") {
  Report report = sampled_report();
  report.gpu_not_sampled = "no NVML";
  report.cases[1].utilisation->energy_source = EnergySource::Counter;
  const std::string text = json_report(Options(), report);
  const json result = json::parse(text)["results"][0];
  CHECK(result["enqueueMs"] == 0.01);
  CHECK(result["utilisation"]["energySource"] == "power");
  CHECK(result["utilisation"]["clockReasons"] == json{"power cap"});
  CHECK(result["utilisation"]["smClockMhz"]["min"] == 1800);
  CHECK(json::parse(text)["results"][1]["utilisation"]["powerW"].is_null());
  CHECK(json::parse(text)["results"][1]["enqueueMs"].is_null());
  const ReportFile file = parse_report(text, "r.json");
  const json again = json::parse(json_report(Options(), file.report));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(again["results"][i]["utilisation"] == json::parse(text)["results"][i]["utilisation"]);
    CHECK(again["results"][i]["enqueueMs"] == json::parse(text)["results"][i]["enqueueMs"]);
  }
  CHECK(again["gpuNotSampled"] == "no NVML");
  json wrong = json::parse(text);
  wrong["results"][0]["utilisation"]["energySource"] = "wind";
  CHECK_THROWS_WITH(parse_report(wrong.dump(), "r.json"), contains("must be \"counter\" or \"power\""));
}

TEST_CASE("utilisation is in the CSV", "[utilisation]") {
  const std::string csv = csv_report(sampled_report());
  CHECK_THAT(csv, contains("enqueue_ms,gpu_samples,gpu_percent"));
  CHECK_THAT(csv, contains(",0.01,5,90,40,1000,1944,1800,1980,200,45,25,0.1\n"));
}
