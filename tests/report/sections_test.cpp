// Sections that text and page have alike.

#include <sstream>

#include "report/loading_section.h"
#include "report/report_activities.h"
#include "report/report_text.h"
#include "run_document.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench::report;

namespace {

std::string loading_of(const Report& report) {
  std::ostringstream text;
  print_loading(text, report);
  return text.str();
}

}  // namespace

TEST_CASE("the parts of loading are told", "[report]") {
  Report report = timed_run().report;
  const std::string text = loading_of(report);
  CHECK_THAT(text, contains("read 3.00, check 0.50, parse 0.25 ms"));
  CHECK_THAT(text, contains("Upload to the GPU, part of compile: custom fp32, batch 2 0.75 ms"));
  CHECK_THAT(text, contains(" 2    9.00  9.00  10.00  8.00     3 "));
  CHECK_THAT(loading_details(report), contains("<td>9.00</td>"));
  report.model.plan.reset();
  report.cases[0].upload_ms = 0;
  report.cases[0].reload = {};
  CHECK(loading_of(report).empty());
  CHECK(loading_details(report).empty());
}

TEST_CASE("hot are the first rows that together make 90 %", "[report]") {
  const auto rows = [](const std::vector<double>& totals) {
    std::vector<ActivityRow> result;
    for (const double total : totals) result.push_back({"x", "kernel", 1, total, total, total});
    return result;
  };
  CHECK(count_hot(rows({50, 41, 9})) == 2);
  CHECK(count_hot(rows({50, 39, 11})) == 3);
  CHECK(count_hot(rows({100})) == 1);
  CHECK(count_hot({}) == 0);
}

TEST_CASE("traced runs are told of the cases that have them", "[report]") {
  Report report = timed_run().report;
  ActivityTables tables{
      2, {{"gemm", "kernel", 2, 220e-6, 110e-6, 110e-6}, {"conv", "kernel", 2, 340e-6, 170e-6, 170e-6}}, {}, 0};
  CHECK(tables.gpu[0].mean_ms() == Approx(110e-6));
  CHECK(total_ms(tables.gpu) == Approx(560e-6));
  report.cases[0].activities = tables;
  std::ostringstream text;
  print_activities(text, report.cases[0]);
  print_activities(text, report.cases[1]);
  CHECK_THAT(text.str(), contains("GPU activities of custom fp32, batch 2, 2 staged runs"));
  CHECK_THAT(text.str(), contains("39.29 %"));
  CHECK_THAT(text.str(), !contains("cpu fp32"));
  CHECK_THAT(activities_section(report), contains("gemm"));
  report.cases[0].activities.reset();
  CHECK(activities_section(report).empty());
}

TEST_CASE("layer times are told with the run that they are part of", "[report]") {
  LayerProfile profile{{3, 1}, 3.2, 0};
  CHECK(layers_sum(profile) == "4.0000 ms in sum, 3.2000 ms as a whole: 125.0 %");
  profile.boundary_ms = 0.0015;
  CHECK_THAT(layers_sum(profile), contains("(1.50 us for a reading of the clock are taken off)"));
  profile = {{3, 1}, 0, 0};
  CHECK(layers_sum(profile) == "4.0000 ms in sum");
}

TEST_CASE("layers are shown with the shapes that the file has", "[report]") {
  std::ostringstream text;
  print_cases(text, timed_run(), {true, true, false});
  CHECK_THAT(text.str(), contains("Profile of custom fp32, batch 2, 2 layers"));
  CHECK_THAT(text.str(), contains("conv2d/direct  1x8x4x4"));
  CHECK_THAT(text.str(), contains("reason: measured 2.10 us"));
  std::ostringstream brief;
  print_cases(brief, timed_run(), Shown());
  CHECK_THAT(brief.str(), !contains("\nProfile of"));
  CHECK_THAT(brief.str(), contains("\nSerialized profile of custom fp32, batch 8"));
}
