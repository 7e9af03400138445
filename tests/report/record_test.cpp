#include "report/record.h"

#include <sstream>

#include "models/zoo/networks.h"
#include "report/read_report.h"
#include "report/record_networks.h"
#include "report/reference.h"
#include "report/report_changes.h"
#include "report/report_html.h"
#include "report/report_text.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench::report;

namespace {

// Two runs: fp16 and fp32 against fp16, fp64 against fp64.
ReportFile record_of_two_runs() {
  return parse_report(R"({"date": "2026-01-02", "machine": {"gpu": "a GPU"}, "model": {"bytes": 1000000, "nodes": 1},
    "latency": [
      {"impl": "custom", "precision": "fp16", "batch": 1, "deviceMs": {"count": 9, "median": 1},
       "hostMs": {"count": 9, "median": 2}, "streamedPicturesPerSecond": 100},
      {"impl": "cudnn", "precision": "fp16", "batch": 1, "comparison": {"pictures": 1, "maxAbs": 0.5}},
      {"impl": "custom", "precision": "fp64", "batch": 1},
      {"impl": "cudnn", "precision": "fp64", "batch": 1, "comparison": {"pictures": 1, "maxAbs": 0}}],
    "activities": {"runs": 4, "dropped": 0, "gpu": [
      {"name": "a_kernel", "kind": "kernel", "calls": 4, "totalMs": 1, "minMs": 0.25, "maxMs": 0.25}], "calls": []},
    "conformance": {"custom": {"cases": 10, "passed": 3, "failed": 0, "passedAsConstant": 1, "refusedByImporter": 2,
                               "refusedByEngine": 0, "outOfScope": 4}},
    "networks": {"vgg16": {"results": [{"impl": "custom", "batch": 1, "medianUs": 200}]},
                 "caffenet": {"results": [{"impl": "custom", "batch": 1, "medianUs": 100}]},
                 "another": {"results": [{"impl": "custom", "batch": 1, "medianUs": 300}]}},
    "peers": {"pytorch": {"engine": "PyTorch", "results": [
      {"network": "mobilenet_v2", "mode": "eager", "precision": "fp16", "batch": 1, "median_us": 1000, "runs": 4}]}}})",
                      "record.json");
}

std::string text_of(const ReportFile& file) {
  std::ostringstream text;
  print_cases(text, file, Shown());
  return text.str();
}

}  // namespace

TEST_CASE("a record is expected to have the networks of the zoo", "[report]") {
  const auto recorded = recorded_networks();
  const auto all = mobicuda::zoo::networks();
  REQUIRE(recorded.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(recorded[i] == all[i].name);
}

TEST_CASE("networks stand in the zoo's order, and those that a record lacks are named", "[report]") {
  const ReportFile file = record_of_two_runs();
  std::string order;
  for (const NetworkTime& one : file.record->networks) order += one.network + ' ';
  CHECK(order == "caffenet vgg16 another ");
  CHECK(file.record->lacking.size() == recorded_networks().size() - 2);
  CHECK_THAT(html_report(file),
             contains("Networks of models/zoo that this record lacks: lenet, network_in_network, vgg19"));
  CHECK_THAT(html_report(file), contains("No peer has a result of these networks"));
}

TEST_CASE("a record says what it is about, and nothing of what it does not know", "[report]") {
  const ReportFile file = record_of_two_runs();
  const std::string html = html_report(file);
  for (const char* part : {"<title>MobileNetV2 on a GPU: bench_engine</title>", "<h1>MobileNetV2 on a GPU</h1>",
                           "<dt>network</dt><dd>MobileNetV2</dd>", "1.00 MB, 1 node, 0 FLOP a picture"}) {
    CHECK_THAT(html, contains(part));
  }
  CHECK(html.find("CUDA context") == std::string::npos);
  CHECK_THAT(text_of(file), contains("with several sessions in flight"));
  ReportFile run = file;
  run.version = "1.0";
  run.report.model.path = "a.onnx";
  for (const std::string& line : compare_reports(file, run).setup) {
    CHECK(line.find("nothing") == std::string::npos);
  }
}

TEST_CASE("each run in a record has a reference of its own", "[report]") {
  const ReportFile file = record_of_two_runs();
  CHECK(reference_of(file.report, file.report.cases[1]) == "custom fp16");
  CHECK(reference_of(file.report, file.report.cases[3]) == "custom fp64");
  CHECK_THAT(html_report(file), contains("Speed-ups are against custom fp16, of cudnn fp64 against custom fp64."));
  CHECK_THAT(html_report(file), contains("timed input, against custom fp16, of cudnn fp64 against custom fp64."));
  CHECK_THAT(text_of(file), contains("Side by side, against custom fp16, of cudnn fp64 against custom fp64 (logits"));
  Report one = file.report;
  one.cases.resize(2);
  std::swap(one.cases[0], one.cases[1]);  // the reference need not come first
  CHECK(reference_of(one, one.cases[0]) == "custom fp16");
  CHECK(references_text(one) == "custom fp16");
}

TEST_CASE("kernels and counts of ONNX's test models of a record are on the page", "[report]") {
  const std::string html = html_report(record_of_two_runs());
  CHECK_THAT(html, contains("<summary>custom fp16, batch 1: 4 staged runs</summary>"));
  CHECK_THAT(html, contains("<td class=\"l\">a_kernel</td>"));
  CHECK_THAT(html, contains("<td>10</td><td>3</td><td>1</td><td>2</td><td>0</td><td>4</td><td>0</td>"));
}
