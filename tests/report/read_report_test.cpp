#include "report/read_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "report/report_error.h"
#include "run_document.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench::report;
using nlohmann::json;

namespace {

std::string error_of(const std::string& text) {
  try {
    parse_report(text, "r.json");
  } catch (const ReportError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a run's document is read", "[report]") {
  const ReportFile file = run();
  CHECK(file.version == "1.2.3");
  CHECK(file.streams == 3);
  CHECK_FALSE(file.pictures);
  const Report& report = file.report;
  CHECK(report.machine.gpu == "a GPU");
  CHECK(report.reference == "custom fp32");
  REQUIRE(report.model.plan);
  CHECK(report.model.plan->read_ms == 3);
  CHECK(report.model.plan->check_ms == 0.5);
  CHECK(report.model.plan->parse_ms == 0.25);
  REQUIRE(report.cases.size() == 4);
  const CaseResult& first = report.cases[0];
  CHECK(first.label() == "custom fp32, 2 threads");
  CHECK(first.gpu_memory_used == -5);
  CHECK(first.upload_ms == 0.75);
  CHECK(first.reload.median == 9);
  CHECK(first.latency().median == 0.5);
  CHECK(first.pictures_per_second() == 4000);
  REQUIRE(first.histogram);
  CHECK(first.histogram->counts == std::vector<std::size_t>{2});
  REQUIRE(first.layers.size() == 2);
  CHECK(first.layers[0].output == "1x8x4x4");
  CHECK(first.layers[0].reason == "measured 2.10 us");
  CHECK(first.layers[1].weight_bytes == 6);
  CHECK(first.profile.layer_ms == std::vector<double>{3, 1});
  CHECK(first.profile.whole_ms == 3.5);
  CHECK(first.serialized_profile.boundary_ms == 0.0015);
  REQUIRE(first.single_calls);
  CHECK(first.single_calls->swept.median == 0.7);
  REQUIRE(first.sustained);
  CHECK(first.sustained->utilisation->energy_per_picture_j == 0.0025);
  REQUIRE(first.activities);
  CHECK(first.activities->gpu.at(0).name == "gemm");
  CHECK(first.activities->dropped == 1);
  CHECK_FALSE(first.comparison);
  REQUIRE(report.cases[1].comparison);
  CHECK(report.cases[1].comparison->max_abs == 0.25);
  CHECK(report.cases[1].speed_up.ratio == 0.125);
  CHECK(report.cases[1].reload.count == 0);
  REQUIRE(first.layer_comparisons.size() == 1);
  const LayerComparison& comparison = first.layer_comparisons[0];
  CHECK(comparison.layers.at(0).difference.cosine == 0.75);
  CHECK(comparison.first_diverging() == &comparison.layers[1]);
  CHECK(comparison.worst() == &comparison.layers[1]);
  CHECK(comparison.diverging() == 1);
  CHECK(std::isinf(comparison.layers[1].difference.relative_l2));
  CHECK(std::isnan(comparison.layers[1].difference.cosine));
  CHECK(comparison.not_compared.at(0).layer == "to_fp32(t1)");
  REQUIRE(report.images);
  CHECK(report.images->reference() == "cpu fp32");
  CHECK(report.images->results.at(1).by_class.at(0).top5 == 3);
  CHECK(report.images->results[1].confusion_file.at(0).own_name == "eel");
  CHECK(report.fewer_images.size() == 1);
}

TEST_CASE("numbers that are not finite are null in a file", "[report]") {
  json document = run_document();
  document["results"][1]["comparison"]["maxAbs"] = nullptr;
  document["results"][1]["golden"] = {{"pictures", 2}, {"maxUlp", nullptr}, {"cosine", nullptr}, {"relativeL2", 0.5}};
  const Report report = read_document(document, "r.json").report;
  CHECK(std::isinf(report.cases[1].comparison->max_abs));
  REQUIRE(report.cases[1].golden);
  CHECK(std::isinf(report.cases[1].golden->difference.max_ulp));
  CHECK(std::isnan(report.cases[1].golden->difference.cosine));
  CHECK(report.cases[1].golden->difference.relative_l2 == 0.5);
}

TEST_CASE("a case of no particular number of threads is one of all cores", "[report]") {
  json document = run_document();
  document["results"][0]["threads"] = 0;
  document["results"][1]["threads"] = 1;
  const Report report = read_document(document, "r.json").report;
  CHECK(report.cases[0].label() == "custom fp32, all cores");
  CHECK(report.cases[1].label() == "cpu fp32, 1 thread");
  CHECK(report.cases[2].label() == "custom fp32");
}

TEST_CASE("what a record has beside its cases is theirs, and older layer times are those of one by one", "[report]") {
  json record = run_document();
  record.erase("program");
  record["latency"] = record["results"];
  record.erase("results");
  json& first = record["latency"][0];
  const json calls = first["singleCallMs"];
  for (json& result : record["latency"]) {
    result.erase("singleCallMs");
    result.erase("sustained");
    result["profile"] = result["serializedProfile"];
    result.erase("serializedProfile");
    result.erase("asRunProfile");
    for (json& layer : result["layers"]) {
      layer["ms"] = layer["serializedMs"];
      layer.erase("serializedMs");
      layer.erase("asRunMs");
    }
  }
  const json apart{{"impl", first["impl"]}, {"precision", first["precision"]}, {"batch", first["batch"]}};
  record["sustained"]["cases"] = json::array({apart, apart});
  record["sustained"]["cases"][0].update({{"seconds", 60.5}, {"runs", 121}, {"energyPerPictureJ", 0.5}});
  record["sustained"]["cases"][1]["batch"] = 77;  // of a batch that was not timed
  record["singleCalls"] = json::array({apart});
  record["singleCalls"][0]["singleCallMs"] = calls;
  const Report report = parse_report(record.dump(), "r.json").report;
  const CaseResult& result = report.cases.front();
  CHECK(result.profile.empty());
  CHECK(result.serialized_profile.layer_ms == std::vector<double>{4, 2});
  CHECK(result.serialized_profile.boundary_ms == 0.0015);
  REQUIRE(result.sustained);
  CHECK(result.sustained->pictures_per_second(result.batch) == 4);
  CHECK(result.sustained->utilisation->energy_per_picture_j == 0.5);
  REQUIRE(result.single_calls);
  CHECK(result.single_calls->swept.median == 0.7);
  CHECK_FALSE(report.cases[1].sustained);
}

TEST_CASE("what Ctrl-C came before is null or left out", "[report]") {
  json document = run_document();
  json& first = document["results"][0];
  first["singleCallMs"]["afterRest"] = nullptr;
  first["sustained"] = {
      {"seconds", 0}, {"runs", 0}, {"picturesPerSecond", 0}, {"utilisation", nullptr}};  // older documents
  const Report report = read_document(document, "r.json").report;
  REQUIRE(report.cases[0].single_calls);
  CHECK(report.cases[0].single_calls->warm.median == 0.7);
  CHECK(report.cases[0].single_calls->after_rest.count == 0);
  CHECK_FALSE(report.cases[0].sustained);
  CHECK(report.cases[1].sustained);
  first["singleCallMs"]["warm"] = 3;
  CHECK_THAT(error_of(document.dump()), contains("singleCallMs.warm: must be an object"));
}

TEST_CASE("the record of a machine is read", "[report]") {
  const std::string text = R"({"latency": [{"impl": "custom", "precision": "fp16", "batch": 8}],
      "accuracy": {"batch": 50, "labelled": 4, "results": [{"impl": "cpu", "precision": "fp32", "top1Pictures": 3}]}})";
  const ReportFile file = parse_report(text, "record.json");
  CHECK(file.report.cases.at(0).label() == "custom fp16");
  CHECK(file.report.images->results.at(0).top1 == 3);
}

TEST_CASE("a file that is no report is refused with file and field", "[report]") {
  CHECK_THAT(error_of("{"), contains("r.json: is no JSON"));
  CHECK_THAT(error_of(""), contains("is no JSON"));
  CHECK_THAT(error_of("{\"x\": 1e999}"), contains("is no JSON"));
  CHECK_THAT(error_of("[]"), contains("must be an object"));
  CHECK_THAT(error_of("{}"), contains("document.latency: must be there"));
  CHECK_THAT(error_of(R"({"program": "trtexec"})"), contains("must be \"bench_engine\", got \"trtexec\""));
  const auto changed = [](const char* pointer, const json& value) {
    json one = run_document();
    one[json::json_pointer(pointer)] = value;
    return error_of(one.dump());
  };
  CHECK_THAT(changed("/results", 3), contains("document.results: must be an array, got 3"));
  CHECK_THAT(changed("/results/1/batch", 0), contains("document.results[1].batch: must be a batch, at least 1, got 0"));
  CHECK_THAT(changed("/results/1/threads", -1), contains("must be a number of threads, at least 0"));
  CHECK_THAT(changed("/results/1/batch", 1e300), contains("must be a whole number"));
  CHECK_THAT(changed("/results/0/precision", "int4"),
             contains("must be fp32, fp32_split, tf32, fp16 or fp64, got \"int4\""));
  CHECK_THAT(changed("/results/0/latencyHistogram/counts/0", -1), contains("counts[0]: must be at least 0"));
  CHECK_THAT(changed("/results/0/memoryBytes/arena", 18446744073709551615U), contains("must be a whole number"));
  CHECK_THAT(changed("/results/0/layers/1/asRunMs", nullptr), contains("timed all or not at all"));
  CHECK_THAT(changed("/model", "m.onnx"), contains("document.model: must be an object"));
  CHECK(changed("/results/0/comparison", nullptr) == "no error");
  CHECK_THAT(changed("/images/results/0/top1ByClass", json::array({1})),
             contains("top1ByClass: must be one for each of images.classes, got an array"));
  CHECK_THAT(changed("/images/results/0/top5ByClass", json::array()), contains("must be as long as top1ByClass"));
  CHECK_THAT(changed("/images/classes/0/pictures", -1), contains("classes[0].pictures: must be at least 0"));
  std::string deep(100000, '[');
  CHECK_THAT(error_of("{\"results\": [{\"impl\": " + deep + std::string(deep.size(), ']') +
                      "}], \"program\": " + "\"bench_engine\"}"),
             contains("must be a string, got an array"));
}
