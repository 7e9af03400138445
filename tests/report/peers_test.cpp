#include "report/peers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/batch_charts.h"
#include "report/report_error.h"
#include "report/report_html.h"
#include "run_document.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda::bench::report;

namespace {

constexpr const char* kTorch = R"({"engine": "PyTorch", "version": "2.9", "gpu": "a GPU", "results": [
  {"network": "mobilenet_v2", "mode": "graph", "precision": "fp32", "batch": 2, "median_us": 1000, "mean_us": 1100,
   "p90_us": 1200, "runs": 400},
  {"network": "mobilenet_v2", "mode": "graph", "precision": "fp32", "batch": 8, "median_us": 3000, "runs": 400},
  {"network": "vgg16", "mode": "eager", "precision": "fp16", "batch": 8, "median_us": 5000, "runs": 400}],
  "failed": [{"mode": "", "error": "ended"}, {"network": "vgg16", "mode": "compile", "precision": "fp16", "batch": 8, "error": "out of memory"}]})";
constexpr const char* kTensorRt =
    R"({"engine": "TensorRT", "results": [], "absent": [{"mode": "", "reason": "no trtexec on the PATH"}]})";

Peers peers_of(const std::string& text) {
  const Field::Json json = Field::Json::parse(text);
  Peers peers;
  add_peers(Field(json, "document"), peers);
  return peers;
}

std::string error_of(const std::string& text) {
  try {
    peers_of(text);
  } catch (const ReportError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a document of a peer is read", "[report]") {
  const Peers peers = peers_of(kTorch);
  REQUIRE(peers.results.size() == 3);
  CHECK(peers.results[0].label() == "PyTorch CUDA graph fp32");
  CHECK(peers.results[0].median_ms == Approx(1));
  CHECK(peers.results[0].p90_ms == Approx(1.2));
  CHECK(peers.results[1].pictures_per_second() == Approx(8e3 / 3));
  CHECK(peers.setup == std::vector<std::string>{"PyTorch 2.9, a GPU"});
  CHECK(peers.failed ==
        std::vector<std::string>{"PyTorch: ended", "PyTorch compile, vgg16, fp16, batch 8: out of memory"});
  CHECK(peers_of(kTensorRt).absent == std::vector<std::string>{"TensorRT: no trtexec on the PATH"});
}

TEST_CASE("formats and modes of a peer keep their rows, and the fastest stands in charts and among networks",
          "[report]") {
  const auto row = [](const char* network, const char* mode, const char* format, int batch, int us) {
    return std::string(R"({"network": ")") + network + R"(", "mode": ")" + mode + R"(", "format": ")" + format +
           R"(", "precision": "fp16", "batch": )" + std::to_string(batch) + R"(, "median_us": )" + std::to_string(us) +
           R"(, "runs": 9})";
  };
  const std::string document =
      R"({"engine": "PyTorch", "results": [)" + row("mobilenet_v2", "graph", "channels_last", 1, 700) + ',' +
      row("mobilenet_v2", "graph", "nchw", 1, 500) + ',' + row("mobilenet_v2", "graph", "channels_last", 8, 600) + ',' +
      row("mobilenet_v2", "compile", "channels_last", 1, 450) + ',' +
      row("mobilenet_v2", "compile-max-graph", "channels_last", 1, 350) + ',' + row("vgg16", "graph", "nchw", 1, 410) +
      ',' + row("vgg16", "graph", "channels_last", 1, 310) +
      R"(], "failed": [{"mode": "compile-max", "precision": "fp16", "batch": 8, "format": "nchw", "error": "e"}]})";
  const Peers peers = peers_of(document);
  CHECK(peers.results[1].label() == "PyTorch CUDA graph fp16, nchw");
  CHECK(peers.results[4].label() == "PyTorch compile-max in a CUDA graph fp16, channels_last");
  CHECK(peers.failed == std::vector<std::string>{"PyTorch compile-max, fp16, batch 8, nchw: e"});
  const std::vector<PeerResult> fastest = fastest_of_families(peers);
  REQUIRE(fastest.size() == 4);
  CHECK(fastest[0].format == "nchw");
  CHECK(fastest[2].engine == "PyTorch compile-max in a CUDA graph");
  CHECK(fastest[2].family == "PyTorch compile");

  const std::string html = html_report(parse_report(R"({"latency": [{"impl": "custom", "precision": "fp16", "batch": 1},
        {"impl": "custom", "precision": "fp16", "batch": 8}],
        "networks": {"vgg16": {"results": [{"impl": "custom", "batch": 1, "medianUs": 100}]}},
        "peers": {"pytorch": )" + document + "}}",
                                                    "record.json"));
  for (const char* part : {"PyTorch CUDA graph fp16, channels_", "PyTorch CUDA graph fp16, nchw</td><td>1</td>",
                           "PyTorch CUDA graph fp16, batch 1: 0.5 ms", "PyTorch compile fp16, batch 1: 0.35 ms",
                           "<td>310 (3.1x)</td>", "Charts show the fastest memory format of a peer"}) {
    CHECK_THAT(html, contains(part));
  }
  for (const char* part : {"batch 1: 0.7 ms", "batch 1: 0.45 ms", "410 ("}) {
    CHECK(html.find(part) == std::string::npos);
  }
}

TEST_CASE("documents of peers may stand in one object", "[report]") {
  const std::string both = std::string(R"({"pytorch": )") + kTorch + R"(, "tensorrt": )" + kTensorRt + ", \"x\": null}";
  for (const std::string& text : {both, "{\"peers\": " + both + "}"}) {
    const Peers peers = peers_of(text);
    CHECK(peers.results.size() == 3);
    CHECK(peers.absent.size() == 1);
  }
  const Peers old = peers_of(R"({"peer": "pytorch", "torch": "2.1", "results": [
      {"mode": "compile", "precision": "fp16", "batch": 1, "median_us": 5}]})");
  CHECK(old.results.at(0).label() == "PyTorch compile fp16");
}

TEST_CASE("a file that is no peer's is refused with the field", "[report]") {
  CHECK_THAT(error_of(R"({"results": []})"), contains("document.engine: must be the name of an engine"));
  CHECK_THAT(error_of(R"({"a": {"b": 1}})"), contains("document.a.results: must be there"));
  CHECK_THAT(error_of(R"([])"), contains("must be an object"));
  CHECK_THAT(error_of(R"({"engine": "x", "results": [{"precision": "fp32", "batch": 0}]})"),
             contains("results[0].batch"));
  const TemporaryFolder folder;
  folder.write("p.json", "{");
  Peers peers;
  CHECK_THROWS_AS(add_peers(folder.path() / "p.json", peers), ReportError);
  CHECK_THROWS_AS(add_peers(folder.path() / "absent.json", peers), ReportError);
}

TEST_CASE("peers stand in table and charts beside ours, absent ones are named", "[report]") {
  ReportFile file = timed_run();
  file.peers = peers_of(std::string(R"({"a": )") + kTorch + R"(, "b": )" + kTensorRt + "}");
  const std::string html = html_report(file);
  // 0.5 ms of custom fp32 against 1 ms.
  CHECK_THAT(html, contains("PyTorch CUDA graph fp32</td><td>2</td><td>1.1000</td><td>1.0000</td><td>1.2000"));
  CHECK_THAT(html, contains("<td>2000.0</td><td>0.50x"));
  CHECK_THAT(html, contains("PyTorch CUDA graph fp32, batch 8: 3 ms"));
  CHECK_THAT(html, contains("PyTorch eager fp16, vgg16"));
  CHECK_THAT(html, contains("Absent: TensorRT: no trtexec on the PATH"));
  CHECK_THAT(html, contains("Failed: PyTorch compile, vgg16"));
  keep_mobilenet_v2(file.peers);
  CHECK(html_report(file).find("vgg16</td>") == std::string::npos);
}

TEST_CASE("charts by batch are picture files of their own", "[report]") {
  ReportFile file = timed_run();
  file.peers = peers_of(kTorch);
  const auto pictures = batch_pictures(file);
  REQUIRE(pictures.size() == 2);
  CHECK(pictures[0].first == "throughput_fp32.svg");
  CHECK(pictures[1].first == "latency_fp32.svg");
  CHECK_THAT(pictures[0].second, contains("curve dashed\""));
  CHECK_THAT(pictures[0].second, contains(">cpu fp32 (CPU)</text>"));
  for (const auto& [name, svg] : pictures) {
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK_THAT(svg, contains("prefers-color-scheme: dark"));
    CHECK_THAT(svg, contains(">PyTorch CUDA graph fp32</text>"));
    CHECK(svg.find("<script") == std::string::npos);
  }
}

TEST_CASE("an engine keeps its colour, and one on the CPU is marked among those of a GPU", "[report]") {
  const auto row = [](const char* mode, const char* precision, int batch) {
    return std::string(R"({"mode": ")") + mode + R"(", "precision": ")" + precision + R"(", "batch": )" +
           std::to_string(batch) + R"(, "median_us": 100, "runs": 9})";
  };
  ReportFile file;
  CaseResult own;
  own.implementation = "custom";
  for (const char* precision : {"fp16", "fp32"}) {
    for (const std::int64_t batch : {1, 8, 32}) {
      own.precision = precision;
      own.batch = batch;
      own.device_statistics.median = 0.1;
      file.report.cases.push_back(own);
    }
  }
  file.peers =
      peers_of(R"({"engine": "Other", "results": [)" + row("eager", "fp16", 1) + ',' + row("eager", "fp16", 8) + ',' +
               row("cpu", "fp32", 1) + ',' + row("cpu", "fp32", 32) + ',' + row("eager", "fp32", 1) + "]}");
  const std::string html = html_report(file);
  const auto legends_of = [&](const std::string& label) {
    const std::size_t place = html.find("</svg>" + label);
    return place == std::string::npos ? "no " + label : html.substr(html.rfind("class=", place), 10);
  };
  CHECK(legends_of("custom fp16") == "class=\"s0\"");
  CHECK(legends_of("custom fp32") == "class=\"s0\"");
  CHECK(legends_of("Other eager fp16") == "class=\"s1\"");
  CHECK(legends_of("Other eager fp32") == "class=\"s1\"");
  CHECK(legends_of("Other cpu fp32 (CPU)") == "class=\"s2\"");
  CHECK_THAT(html, contains("No result of Other eager fp16, batch 32; Other cpu fp32, batch 8; Other eager fp32, "
                            "batches 8, 32."));
  file.peers.results.erase(file.peers.results.begin());
  const auto dashes = [&] { return html_report(file).find(" curve dashed\""); };
  CHECK(dashes() == std::string::npos);  // two points with a batch of others between them
  file.peers.results[2].batch = 8;
  CHECK(dashes() != std::string::npos);
  file.peers = Peers();
  for (CaseResult& one : file.report.cases) one.implementation = "cpu";
  CHECK(html_report(file).find("(CPU)") == std::string::npos);
}

TEST_CASE("the record of a machine shows networks, checks and requirements", "[report]") {
  const std::string record = std::string(R"({"date": "2026-01-02", "source_hash": "0123456789abcdef",
    "latency": [{"impl": "custom", "precision": "fp16", "batch": 8}],
    "pictures": [{"impl": "custom", "precision": "fp16", "batch": 1, "hostMs": {"median": 0.0625},
                  "deviceMs": {"median": 0.03125}}],
    "tests": [{"program": "kernel_tests", "filter": "*", "exit": 0, "summary": "All tests passed"}],
    "sanitizer": [{"tool": "racecheck", "program": "kernel_tests", "filter": "[gemm]", "exit": 9, "summary": "3 errors"}],
    "conformance": {"gpu": "a GPU", "custom": {"cases": 10, "passed": 8, "failed": 0}},
    "networks": {"vgg16": {"results": [{"impl": "custom", "batch": 1, "medianUs": 200},
                                       {"impl": "cudnn", "batch": 1, "medianUs": 300}],
                           "refused": {"cpu": "no such layer"}}},
    "requirements": [{"name": "fast", "target": "<= 70 us", "measured": "45 us", "met": true},
                     {"name": "clean", "target": "0 reports", "measured": "1 report", "met": false}],
    "peers": {"pytorch": )") +
                             kTorch + "}}";
  const ReportFile file = parse_report(record, "record.json");
  const std::string html = html_report(file);
  for (const char* part : {"Measured on 2026-01-02 with the sources 0123456789ab; 1 of 2 requirements are met.",
                           R"(<td class="l">clean</td><td class="l">0 reports</td><td class="l">1 report</td></tr>)",
                           "<td>0.0312</td><td>0.0625</td>", "<td>300 (1.5x)</td>", "vgg16 on cpu: no such layer",
                           "racecheck", "3 errors</td><td>failed</td>", "<td>10</td><td>8</td><td>-</td>",
                           "PyTorch CUDA graph fp32", "PyTorch eager, batch 8"}) {
    CHECK_THAT(html, contains(part));
  }
  CHECK(file.peers.results.size() == 2);  // vgg16 stands with the networks
}
