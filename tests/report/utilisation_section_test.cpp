#include "report/utilisation_section.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/report_html.h"
#include "run_document.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench::report;
using nlohmann::json;

namespace {

// custom at 0.5 ms, as a GPU is recorded, and cpu.
ReportFile sampled_run() {
  json document = run_document();
  document["results"].erase(3);
  document["results"].erase(2);
  document["results"][0].erase("threads");
  document["results"][0].update({{"enqueueMs", 0.01},
                                 {"utilisation",
                                  {{"samples", 5},
                                   {"gpuPercent", {{"mean", 90}, {"min", 90}, {"max", 90}}},
                                   {"memoryPercent", {{"mean", 40}, {"min", 30}, {"max", 50}}},
                                   {"smClockMhz", {{"mean", 1944}, {"min", 1800}, {"max", 1980}}},
                                   {"powerW", {{"mean", 200}, {"min", 100}, {"max", 300}}},
                                   {"temperatureC", {{"mean", 45}, {"min", 44}, {"max", 46}}},
                                   {"usedBytes", 1000},
                                   {"clockReasons", {"power cap"}},
                                   {"cpuPercent", 25},
                                   {"energyPerPictureJ", 0.1},
                                   {"energySource", "power"}}}});
  document["results"][1]["utilisation"] = {{"samples", 0}, {"energySource", "counter"}};
  return read_document(document, "r.json");
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

TEST_CASE("clocks that moved or were held back, and a slow host, are warned of", "[utilisation]") {
  CaseResult result = sampled_run().report.cases[0];
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
  ReportFile file = sampled_run();
  Report& report = file.report;
  const std::string text = text_of(report);
  for (const char* part : {"enqueue", "0.0100", "1800-1980", "100.000 (power)", "power cap", "44-46"}) {
    CHECK_THAT(text, contains(part));
  }
  CHECK_THAT(text, contains("cpu fp32            2    -        -        0    -"));
  CHECK_THAT(text, !contains("timed in turns"));
  report.cases[0].utilisation->alternated = true;
  CHECK_THAT(text_of(report), contains("timed in turns"));
  CHECK_THAT(text_of(report), !contains("100.000 (power)"));
  const std::string page = html_report(file);
  for (const char* part : {"Utilisation while timed", "1800-1980", "the SM clock moved"}) {
    CHECK_THAT(page, contains(part));
  }
  CHECK(text_of(timed_run().report).empty());
  report.cases.resize(1);
  report.cases[0].utilisation.reset();
  report.cases[0].enqueue_ms = 0.25;
  report.gpu_not_sampled = "no NVML";
  CHECK_THAT(text_of(report), contains("GPU not sampled: no NVML"));
  CHECK_THAT(text_of(report), !contains("CPU %"));
}

TEST_CASE("utilisation is read as it is written", "[utilisation]") {
  const ReportFile file = sampled_run();
  const Utilisation& u = file.report.cases[0].utilisation.value();
  CHECK(u.samples == 5);
  CHECK_FALSE(u.alternated);
  CHECK(u.gpu_percent->mean == 90);
  CHECK(u.memory_percent->min == 30);
  CHECK(u.used_bytes == 1000);
  CHECK(u.cpu_percent == 25);
  CHECK(u.energy_source == EnergySource::Power);
  CHECK(u.clocks_moved());
  const Utilisation& none = file.report.cases[1].utilisation.value();
  CHECK(none.energy_source == EnergySource::Counter);
  CHECK_FALSE(none.power_w);
  CHECK_FALSE(none.clock_reasons);
  CHECK_FALSE(none.clocks_moved());
  json document = run_document();
  document["results"][0]["utilisation"] = {{"energySource", "wind"}};
  CHECK_THROWS_WITH(read_document(document, "r.json"), contains("must be \"counter\" or \"power\""));
}
