#include "report/report_changes.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "report/changes_text.h"
#include "report/report_html.h"
#include "run_document.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench::report;

namespace {

// 101 runs, evenly within `median` * (1 +- 1.25 * width).
Statistics runs(double median, double width) {
  Statistics statistics;
  statistics.count = 101;
  statistics.mean = statistics.median = median;
  statistics.p90 = median * (1 + width);
  statistics.variation = 0.7325 * width;
  return statistics;
}

Statistics equal_runs(std::size_t count, double ms) {
  Statistics statistics;
  statistics.count = count;
  statistics.mean = statistics.median = statistics.p90 = ms;
  return statistics;
}

ReportFile file_of(const Statistics& statistics) {
  ReportFile file = timed_run();
  file.report.cases.resize(1);
  file.report.cases[0].device_statistics = statistics;
  return file;
}

// custom and cpu at one batch, the layers timed as the network runs.
ReportFile two_cases() {
  ReportFile file = timed_run();
  file.report.cases.resize(2);
  for (CaseResult& one : file.report.cases) one.serialized_profile = {};
  return file;
}

Verdict verdict(const Statistics& before, const Statistics& after) {
  return compare_reports(file_of(before), file_of(after)).cases.at(0).verdict;
}

}  // namespace

TEST_CASE("a median that moved by less than the noise did not change", "[report]") {
  CHECK(verdict(runs(1, 0.001), runs(1.009, 0.001)) == Verdict::WithinNoise);
  CHECK(verdict(runs(1, 0.001), runs(1.011, 0.001)) == Verdict::Worse);
  CHECK(verdict(runs(1, 0.001), runs(0.989, 0.001)) == Verdict::Better);
  CHECK(verdict(runs(1, 0.05), runs(1.05, 0.05)) == Verdict::WithinNoise);
  CHECK(verdict(runs(1, 0.05), runs(1.15, 0.05)) == Verdict::Worse);
}

TEST_CASE("noise joins the spreads of both files", "[report]") {
  Statistics a;
  a.median = 1;
  a.variation = 0.03;
  a.p90 = 1.5;
  Statistics b = a;
  b.variation = 0.5;
  b.p90 = 1.04;
  CHECK(spread(a) == Approx(0.03));
  CHECK(spread(b) == Approx(0.04));
  CHECK(noise(a, b) == Approx(0.05));
  CHECK(noise(Statistics(), Statistics()) == Approx(0.01));
}

TEST_CASE("too few runs are not judged", "[report]") {
  CHECK(verdict(equal_runs(9, 1), equal_runs(100, 2)) == Verdict::NotJudged);
  CHECK(verdict(equal_runs(10, 1), equal_runs(10, 2)) == Verdict::Worse);
}

TEST_CASE("memory, kernels, layers, accuracy and the setup are compared", "[report]") {
  ReportFile before = two_cases();
  before.report.machine.driver = "1";
  before.options = {{"threads", "0"}};
  before.report.images.emplace();
  before.report.images->labelled = 4;
  before.report.images->results.resize(1);
  before.report.images->results[0].implementation = "cpu";
  before.report.images->results[0].top1 = 3;
  ReportFile after = before;
  after.report.machine.driver = "2";
  after.options = {{"threads", "2"}};
  after.report.cases[0].memory.arena_bytes = 5;
  after.report.cases[0].layers[1].kernel = "gemm/mma";
  after.report.cases[0].profile.layer_ms = {3.1, 2};
  after.report.cases[1].batch = 4;
  after.report.images->results[0].top1 = 2;
  const ReportChanges changes = compare_reports(before, after);
  CHECK(changes.setup == std::vector<std::string>{"driver: 1 -> 2", "threads: 0 -> 2"});
  CHECK(changes.only_before == std::vector<std::string>{"cpu fp32, batch 2"});
  CHECK(changes.only_after == std::vector<std::string>{"cpu fp32, batch 4"});
  const auto memory = std::find_if(changes.cases.begin(), changes.cases.end(),
                                   [](const Change& change) { return change.quantity == "memory"; });
  REQUIRE(memory != changes.cases.end());
  CHECK(memory->verdict == Verdict::Worse);
  REQUIRE(changes.layers.size() == 2);  // 3 to 3.1 ms is no change
  CHECK(changes.layers[0].verdict == Verdict::Changed);
  CHECK(changes.layers[1].subject == "custom fp32, batch 2: classifier");
  CHECK(signed_percent(changes.layers[1].relative) == "+100.0 %");
  REQUIRE(changes.pictures.size() == 2);
  CHECK(changes.pictures[0].verdict == Verdict::Worse);
  CHECK(changes.pictures[1].verdict == Verdict::Same);
}

TEST_CASE("layer times are compared with those of the same kind", "[report]") {
  ReportFile before = two_cases();
  for (CaseResult& one : before.report.cases) {
    one.profile = {};
    one.serialized_profile.layer_ms = {3, 1};
  }
  ReportFile after = before;
  after.report.cases[0].serialized_profile.layer_ms = {3, 2};
  ReportChanges changes = compare_reports(before, after);
  REQUIRE(changes.layers.size() == 1);
  CHECK(changes.layers[0].quantity == "us, one by one");
  CHECK(changes.layers[0].before == "1000.00");
  CHECK(changes.layers[0].after == "2000.00");
  CHECK(changes.layers_left_out.empty());
  // As the network runs, where both files have that.
  before.report.cases[0].profile.layer_ms = {2, 1};
  after.report.cases[0].profile.layer_ms = {2.5, 1};
  changes = compare_reports(before, after);
  REQUIRE(changes.layers.size() == 1);
  CHECK(changes.layers[0].quantity == "us, as the network runs");
  CHECK(changes.layers[0].after == "2500.00");
  // One kind each.
  before.report.cases[0].profile = {};
  after.report.cases[0].serialized_profile = {};
  after.report.cases[0].layers[0].kernel = "gemm/mma";
  changes = compare_reports(before, after);
  REQUIRE(changes.layers.size() == 1);
  CHECK(changes.layers[0].quantity == "kernel");
  CHECK_THAT(changes.layers_left_out,
             contains("Layer times of 1 case are not compared: the profiles are of two kinds"));
  CHECK_THAT(html_comparison(before, after, changes), contains("Layer times of 1 case are not compared"));
  std::ostringstream text;
  print_changes(text, before, after, changes);
  CHECK_THAT(text.str(), contains("Layer times of 1 case are not compared"));
  // None in one of them: nothing to tell.
  before.report.cases[0].serialized_profile = {};
  CHECK(compare_reports(before, after).layers_left_out.empty());
}

TEST_CASE("a file compared with itself has not changed", "[report]") {
  const ReportFile file = timed_run();
  const ReportChanges changes = compare_reports(file, file);
  CHECK(changes.setup.empty());
  CHECK(changes.layers.empty());
  for (const Change& change : changes.cases) {
    CHECK((change.verdict == Verdict::Same || change.verdict == Verdict::NotJudged));
  }
}
