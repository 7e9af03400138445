#include "bench_engine/export/report_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench_engine/measure/statistics.h"
#include "bench_engine/terminal/run_text.h"
#include "bench_engine/thresholds.h"
#include "bench_report.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda;
using namespace mobicuda::bench;
using nlohmann::json;

TEST_CASE("the JSON document holds every case with its numbers", "[report]") {
  const json document = json::parse(json_report(Options(), report_of_two()));
  REQUIRE(document["results"].size() == 2);
  const json& cpu = document["results"][1];
  CHECK(cpu["impl"] == "cpu");
  CHECK(cpu["batch"] == 2);
  CHECK(cpu["latencyMs"]["median"] == 4);
  CHECK(cpu["picturesPerSecond"] == 500);
  CHECK(cpu["comparison"]["maxAbs"] == 0.25);
  CHECK(cpu["layers"][0]["name"] == "features.0+features.1");
  CHECK(document["results"][0]["comparison"].is_null());
  CHECK(document["images"].is_null());
}

TEST_CASE("a number that is not finite becomes null", "[report]") {
  Report report = report_of_two();
  report.cases[1].comparison->max_abs = std::numeric_limits<double>::infinity();
  const json document = json::parse(json_report(Options(), report));
  CHECK(document["results"][1]["comparison"]["maxAbs"].is_null());
}

TEST_CASE("golden comparisons and threads are in every report", "[report]") {
  Report report = report_of_two();
  CaseResult& cpu = report.cases[1];
  cpu.threads = 3;
  cpu.golden = GoldenComparison{4, 2, 0.5, 0.25, 0.125, 0.75, 7, 1};
  const json document = json::parse(json_report(Options(), report));
  CHECK_FALSE(document["results"][0].contains("golden"));
  CHECK_FALSE(document["results"][0].contains("threads"));
  const json& result = document["results"][1];
  CHECK(result["threads"] == 3);
  CHECK(result["golden"] == json{{"elements", 4},
                                 {"pictures", 2},
                                 {"maxAbs", 0.5},
                                 {"meanAbs", 0.25},
                                 {"relativeL2", 0.125},
                                 {"cosine", 0.75},
                                 {"maxUlp", 7},
                                 {"top1Equal", 1}});
  CHECK_THAT(csv_report(report), contains(",3,0.5,0.25,0.125,0.75,7,"));
  std::ostringstream text;
  print_results(text, Options(), report);
  CHECK_THAT(text.str(), contains("against --golden"));
  CHECK_THAT(text.str(), contains("cpu fp32, 3 threads"));
  CHECK_THAT(text.str(), contains("0.750000000"));
}

TEST_CASE("comparisons layer by layer are in every report", "[report]") {
  Report report = report_of_two();
  report.cases[0].layer_comparisons = {layers_that_diverge()};
  const json document = json::parse(json_report(Options(), report));
  CHECK_FALSE(document["results"][1].contains("layerComparisons"));
  const json& comparison = document["results"][0]["layerComparisons"][0];
  CHECK(comparison["reference"] == "cpu fp32");
  CHECK(comparison["threshold"] == 0.125);
  CHECK(comparison["firstDiverging"] == "t1<");
  CHECK(comparison["tensors"][0] == json{{"tensor", "t0"},
                                         {"layer", "features.0"},
                                         {"kernel", "conv2d/direct"},
                                         {"referenceKernel", "conv2d/fp32"},
                                         {"shape", "1x8x4x4"},
                                         {"maxAbs", 0.5},
                                         {"meanAbs", 0.25},
                                         {"relativeL2", 0.0625},
                                         {"cosine", 0.75},
                                         {"maxUlp", 7},
                                         {"diverged", false}});
  CHECK(comparison["tensors"][1]["relativeL2"].is_null());
  CHECK(comparison["notCompared"][0]["layer"] == "to_fp32(t1)");
  CHECK_THAT(csv_report(report), contains(",2,1,inf,inf,nan,inf,"));
  std::ostringstream text;
  print_results(text, Options(), report);
  CHECK_THAT(text.str(), contains("Layer by layer: custom fp32, batch 2, against cpu fp32"));
  CHECK_THAT(text.str(), contains("FIRST BEYOND"));
  CHECK_THAT(text.str(), contains("left out: to_fp32(t1): finishes no tensor"));
  CHECK_THAT(text.str(), contains("1 are beyond 1.2e-01, first 't1<' of"));
  const std::vector<std::string> missed = missed_thresholds(Options(), report);
  REQUIRE(missed.size() == 1);
  CHECK_THAT(missed[0], contains("custom fp32, batch 2: layer 'features.1' (conv2d/direct) is the first that differs"));
  report.cases[0].layer_comparisons[0].layers.pop_back();
  CHECK(missed_thresholds(Options(), report).empty());
}

TEST_CASE("evaluations of fewer pictures come before the last one", "[report]") {
  Report report = report_of_two();
  CHECK_FALSE(json::parse(json_report(Options(), report)).contains("fewerImages"));
  report.images.emplace();
  report.images->found = 100;
  report.images->evaluated = 100;
  AccuracyResult result;
  result.implementation = "cpu";
  result.threads = 2;
  result.inference_ms = 500;
  report.images->results = {result};
  report.fewer_images = {*report.images};
  report.fewer_images[0].found = 10;
  const json document = json::parse(json_report(Options(), report));
  REQUIRE(document["fewerImages"].size() == 1);
  CHECK(document["fewerImages"][0]["found"] == 10);
  CHECK(document["images"]["found"] == 100);
  CHECK(document["images"]["results"][0]["threads"] == 2);
  std::ostringstream text;
  print_results(text, Options(), report);
  CHECK(text.str().find("10 found") < text.str().find("100 found"));
  CHECK_THAT(text.str(), contains("cpu fp32, 2 threads       200.0"));
}

TEST_CASE("exports have the fields of trtexec", "[report]") {
  const Report report = report_of_two();
  const json profile = json::parse(json_profile(report));
  CHECK(profile[0]["count"] == 2);
  CHECK(profile[1]["name"] == "features.0+features.1");
  CHECK(profile[1]["percentage"] == 75);
  const json times = json::parse(json_times(report));
  CHECK(times.size() == 4);
  CHECK(times[0]["computeMs"] == 0.5);
  const json output = json::parse(json_output(report));
  CHECK(output[0]["name"] == "logits");
  CHECK(output[0]["dimensions"] == "2x2");
  CHECK(output[0]["values"].size() == 4);
}

TEST_CASE("every row of the CSV has as many cells as its header", "[report]") {
  Report report = report_of_two();
  report.cases[1].golden = GoldenComparison();
  report.cases[1].layer_comparisons = {layers_that_diverge()};
  std::istringstream csv(csv_report(report));
  std::string header;
  std::getline(csv, header);
  int rows = 0;
  for (std::string row; std::getline(csv, row); ++rows) {
    CHECK(std::count(row.begin(), row.end(), ',') == std::count(header.begin(), header.end(), ','));
  }
  CHECK(rows == 2);
}

TEST_CASE("the text report has the tables", "[report]") {
  Options options;
  options.dump_profile = true;
  std::ostringstream text;
  print_results(text, options, report_of_two());
  for (const char* part : {"cpu fp32", "500.0", "0.12x", "2.5e-01", "1/2", "features.0+features.1", "conv2d/direct"}) {
    CHECK_THAT(text.str(), contains(part));
  }
}

TEST_CASE("layer information says why a kernel was chosen, for every batch", "[report]") {
  Report report = report_of_two();
  report.cases[1] = case_of("custom", 4);
  report.cases[1].batch = 8;
  Options options;
  options.dump_layer_info = true;
  std::ostringstream text;
  print_results(text, options, report);
  for (const char* part : {"reason", "measured 2.10 us", "batch 2, 2 layers", "batch 8, 2 layers"}) {
    CHECK_THAT(text.str(), contains(part));
  }
  CHECK(json::parse(json_layer_info(report))[0]["layers"][0]["reason"] == "measured 2.10 us");
}

TEST_CASE("unstable timings are warned of", "[report]") {
  Report report = report_of_two();
  report.cases[0].device_statistics = summarize(std::vector<double>{1, 2});
  std::ostringstream text;
  print_results(text, Options(), report);
  CHECK_THAT(text.str(), contains("warning: custom fp32"));
}

TEST_CASE("thresholds are judged one by one", "[report]") {
  const Report report = report_of_two();
  Options options;
  CHECK(missed_thresholds(options, report).empty());
  options.accuracy_threshold = 0.25;
  options.agreement_threshold = 50;
  CHECK(missed_thresholds(options, report).empty());
  options.accuracy_threshold = 0.2;
  CHECK(missed_thresholds(options, report).size() == 1);
  options.agreement_threshold = 51;
  CHECK(missed_thresholds(options, report).size() == 2);
}

TEST_CASE("with pictures, thresholds judge the pictures", "[report]") {
  Report report = report_of_two();
  Options options;
  options.images = "pictures";
  options.accuracy_threshold = 0.1;
  options.top1_threshold = 75;
  report.images.emplace();
  report.images->labelled = 4;
  report.images->results.resize(1);
  report.images->results[0].top1 = 3;
  CHECK(missed_thresholds(options, report).empty());
  options.top1_threshold = 75.5;
  CHECK(missed_thresholds(options, report).size() == 1);
  report.images->labelled = 0;
  CHECK(missed_thresholds(options, report).size() == 1);
  options.top1_threshold.reset();
  report.images->results[0].with_reference.emplace();  // of no picture
  CHECK(missed_thresholds(options, report).size() == 1);
  options.accuracy_threshold.reset();
  CHECK(missed_thresholds(options, report).empty());
  options.agreement_threshold = 50;
  CHECK(missed_thresholds(options, report).size() == 1);
}
