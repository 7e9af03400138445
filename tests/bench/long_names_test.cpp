// Reports of a network whose names are as long as PyTorch's.

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench_engine/export/report_json.h"
#include "bench_engine/measure/statistics.h"
#include "bench_engine/terminal/report_command.h"
#include "bench_engine/terminal/run_text.h"
#include "bench_engine/trace/chrome_trace.h"
#include "bench_report.h"
#include "report/report_html.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"
#include "text/text_table.h"

using namespace mobicuda;
using namespace mobicuda::bench;
using nlohmann::json;

namespace {

constexpr std::size_t kLongName = 300;

std::string module_of(int block) {
  const std::string name = "features." + std::to_string(block);
  return "/features/" + name + "/conv/conv.0/";
}

// All nodes of a block, at least kLongName characters.
std::string fused_name(int block) {
  std::string name = module_of(block) + "conv.0.0/Conv+" + module_of(block) + "conv.0.1/Clip";
  for (int i = 2; name.size() < kLongName; ++i) {
    name += '+' + module_of(block) + "conv.0." + std::to_string(i) + "/Conv";
  }
  return name;
}

LayerComparison comparison_of(const std::vector<LayerInfo>& layers) {
  LayerComparison comparison = layers_that_diverge();
  const ComparedLayer pattern = comparison.layers.front();
  comparison.layers.clear();
  for (const LayerInfo& layer : layers) {
    comparison.layers.push_back(pattern);
    comparison.layers.back().layer = layer.name;
    comparison.layers.back().tensor = std::to_string(comparison.layers.size()) + std::string(kLongName, 'x');
    comparison.layers.back().kernel = comparison.layers.back().reference_kernel = layer.kernel;
    comparison.layers.back().difference.max_ulp = 4294967295.0;
  }
  comparison.not_compared = {{layers.back().name, "finishes no tensor of the model"}};
  return comparison;
}

// Everything that a text report has tables of.
Report report_of_long_names() {
  Report report = profiled_report();
  for (CaseResult& one : report.cases) {
    one.threads = 128;
    one.layers.clear();
    for (int block = 1; block < 20; ++block) {
      one.layers.push_back({fused_name(block), "inverted_residual/small_s2_4x8_c96_n24_slice48_" + std::string(80, 'k'),
                            Shape{1, 1280, 112, 112}, 123456789, 123456789, 123456789,
                            "rule: a narrow hidden tensor stays on the multiprocessor; not fused: two launches of few "
                            "multiprocessors each take longer than one of many"});
    }
    one.profile.layer_ms = one.serialized_profile.layer_ms = std::vector<double>(one.layers.size(), 1234.5678);
    one.layer_comparisons = {comparison_of(one.layers)};
    one.golden.emplace();
    one.golden->max_ulp = 4294967295.0;
    one.device_statistics = one.host_statistics = one.streams_statistics = one.loading.reload =
        summarize(std::vector<double>{123456.5, 123456.5});
    one.enqueue_ms = 1234.5678;
    one.utilisation.emplace();
    one.utilisation->samples = 1234567;
    one.utilisation->sm_clock_mhz = SampledRange{1900, 210, 1980};
    one.utilisation->clock_reasons = {"application clocks", "power cap", "hardware slowdown", "thermal (software)"};
    one.utilisation->energy_per_picture_j = 1234.5678;
    one.activities =
        ActivityTables{2,
                       {{"gemm<" + std::string(kLongName, '1') + '>', "kernel", 1234567, 123456, 1, 12345}},
                       {{"cudaGraphLaunch", "call", 1234567, 123456, 1, 12345}},
                       0};
  }
  report.images = classified_pictures();
  for (AccuracyResult& one : report.images->results) {
    one.with_reference_file.emplace();
    one.confusion = {{3, std::string(kLongName, 'a'), 7, std::string(kLongName, 'b'), 1}};
  }
  report.images->classes.front().name = std::string(kLongName, 'n');
  const std::vector<AccuracyResult> two = report.images->results;
  for (int i = 0; i < 3; ++i) {
    report.images->results.insert(report.images->results.end(), two.begin(), two.end());
  }
  return report;
}

std::string text_of(const Report& report) {
  Options options;
  options.dump_profile = options.dump_layer_info = options.per_class = true;
  std::ostringstream text;
  print_results(text, options, report);
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("no table is wider than a terminal, whatever names and numbers it has", "[names]") {
  const std::string text = text_of(report_of_long_names());
  CHECK(lines_of(text).size() > 500);
  for (const std::string& line : lines_of(text)) {
    INFO(line);
    CHECK(count_characters(line) <= kTableWidth);
  }
  for (const char* part : {"  features.1/conv", "  features.19/conv", "123456.5000", "4294967295", "1x1280x112x112",
                           "1234.5678", "reason: rule: a narrow"}) {
    CHECK_THAT(text, contains(part));
  }
}

TEST_CASE("files for programs have whole names", "[names]") {
  const Report report = report_of_long_names();
  const std::string name = fused_name(7);
  REQUIRE(name.size() >= kLongName);
  const json document = json::parse(json_report(Options(), report));
  CHECK(document["results"][0]["layers"][6]["name"] == name);
  CHECK(document["results"][0]["layerComparisons"][0]["tensors"][6]["layer"] == name);
  CHECK(document["results"][0]["activities"]["gpu"][0]["name"].get<std::string>().size() > kLongName);
  CHECK(json::parse(json_profile(report))[7]["name"] == name);
  CHECK(json::parse(json_layer_info(report))[0]["layers"][6]["name"] == name);
  TracedCase traced;
  traced.profile.ranges = {{name, 100, 200, 1, 0}};
  CHECK_THAT(chrome_trace({traced}), contains('"' + name + '"'));
}

TEST_CASE("the page shows short names, and whole ones as titles", "[names]") {
  const Report report = report_of_long_names();
  const std::string html = report::html_report(report::parse_report(json_report(Options(), report), "r.json"));
  CHECK_THAT(html, contains("<td class=\"l\" title=\"" + fused_name(7) + "\">features.7/<wbr/>conv.0: 0 Conv, 1 Clip"));
  CHECK(html.find("<td class=\"l\">/features") == std::string::npos);
  const std::string same =
      report::html_report(report::parse_report(json_report(Options(), profiled_report()), "r.json"));
  CHECK_THAT(same, contains("<td class=\"l\">features.0+<wbr/>features.1</td>"));
}

TEST_CASE("changed layers have short names in text and whole ones as titles", "[names]") {
  Report after = report_of_long_names();
  for (LayerInfo& layer : after.cases[0].layers) layer.kernel = "gemm/" + std::string(100, 'g');
  after.cases[0].profile.layer_ms[6] *= 2;
  const TemporaryFolder folder;
  folder.write("before.json", json_report(Options(), report_of_long_names()));
  folder.write("after.json", json_report(Options(), after));
  const std::string before_file = (folder.path() / "before.json").string();
  const std::string after_file = (folder.path() / "after.json").string();
  const std::string page = (folder.path() / "changes.html").string();
  const std::vector<const char*> words{"report", before_file.c_str(), after_file.c_str(), "--html", page.c_str()};
  std::ostringstream text;
  REQUIRE(report_command(static_cast<int>(words.size()), words.data(), text, text) == 0);
  CHECK(lines_of(text.str()).size() > 50);
  for (const std::string& line : lines_of(text.str())) {
    INFO(line);
    CHECK(count_characters(line) <= kTableWidth);
  }
  CHECK_THAT(text.str(), contains("  custom fp32, "));
  CHECK_THAT(text.str(), contains("+100.0 %"));
  std::ostringstream html;
  html << std::ifstream(page).rdbuf();
  CHECK_THAT(html.str(), contains("title=\"" + fused_name(7) + "\">custom fp32, 128 threads, batch 2: features.7/"));
}
