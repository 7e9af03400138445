#include "bench_engine/report/read_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include <mobicuda/error.h>

#include "bench_engine/report/report_json.h"
#include "bench_report.h"
#include "contains.h"
#include "support/catch.h"

using namespace mobicuda;
using namespace mobicuda::bench;
using nlohmann::json;

namespace {

json document() {
  Report report = profiled_report();
  report.images = classified_pictures();
  return json::parse(json_report(Options(), report));
}

std::string error_of(const std::string& text) {
  try {
    parse_report(text, "r.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool has_type(const json& value, const std::string& type) {
  return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
         (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
         (type == "null" && value.is_null()) || (type == "integer" && value.is_number_integer()) ||
         (type == "number" && value.is_number());
}

// What of JSON Schema the file uses.
std::string violation(const json& root, const json& schema, const json& value, const std::string& where) {
  if (schema.contains("$ref")) {
    return violation(root, root.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1))), value, where);
  }
  if (schema.contains("anyOf")) {
    std::string last;
    for (const json& one : schema["anyOf"]) {
      last = violation(root, one, value, where);
      if (last.empty()) return {};
    }
    return last;
  }
  if (schema.contains("const") && schema["const"] != value) return where + ": const";
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end()) {
    return where + ": enum";
  }
  if (schema.contains("type")) {
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    const bool fits = std::any_of(types.begin(), types.end(), [&](const json& type) { return has_type(value, type); });
    if (!fits) return where + ": type";
  }
  if (value.is_number() && schema.contains("minimum") && value < schema["minimum"]) return where + ": minimum";
  if (value.is_number() && schema.contains("maximum") && value > schema["maximum"]) return where + ": maximum";
  if (value.is_array() && schema.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string why = violation(root, schema["items"], value[i], where + '[' + std::to_string(i) + ']');
      if (!why.empty()) return why;
    }
  }
  if (!value.is_object()) return {};
  for (const json& name : schema.value("required", json::array())) {
    if (!value.contains(name.get<std::string>())) return where + ": lacks " + name.get<std::string>();
  }
  for (const auto& [name, member] : value.items()) {
    const json properties = schema.value("properties", json::object());
    if (!properties.contains(name)) {
      if (!schema.value("additionalProperties", true)) return where + ": unknown " + name;
      continue;
    }
    const std::string why = violation(root, properties[name], member, where + '.' + name);
    if (!why.empty()) return why;
  }
  return {};
}

json schema() {
  std::ifstream stream(MOBICUDA_REPORT_SCHEMA);
  return json::parse(stream);
}

}  // namespace

TEST_CASE("a report is read as it was written", "[report]") {
  Report report = profiled_report();
  report.machine.gpu = "a GPU";
  report.cases[1].comparison->max_abs = std::numeric_limits<double>::infinity();
  report.cases[0].gpu_memory_used = -5;
  report.cases[0].threads = 2;
  report.cases[0].layer_comparisons = {layers_that_diverge()};
  report.images = classified_pictures();
  report.fewer_images = {classified_pictures()};
  report.cases[1].golden.emplace();
  report.cases[1].golden->max_ulp = std::numeric_limits<double>::infinity();
  const std::string text = json_report(Options(), report);
  ReportFile file = parse_report(text, "r.json");
  CHECK(std::isinf(file.report.cases[1].golden->max_ulp));
  CHECK(std::isinf(file.report.cases[1].comparison->max_abs));
  CHECK(file.report.cases[0].layers[0].reason == "measured 2.10 us");
  // What the file does not hold: shapes.
  json before = json::parse(text);
  json after = json::parse(json_report(Options(), file.report));
  for (json* one : {&before, &after}) {
    one->at("model").erase("input");
    one->at("model").erase("output");
    for (json& result : one->at("results")) {
      for (json& layer : result["layers"]) layer.erase("output");
    }
  }
  CHECK(before == after);
}

TEST_CASE("what a record has beside its cases is theirs, and older layer times are those of one by one", "[report]") {
  json record = json::parse(json_report(Options(), profiled_report()));
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
  Report report = profiled_report();
  report.cases[0].single_calls->after_rest = report.cases[0].single_calls->swept = Statistics();
  report.cases[0].sustained = Sustained();
  json written = json::parse(json_report(Options(), report));
  json& first = written["results"][0];
  CHECK(first["singleCallMs"]["warm"]["count"] == 3);
  CHECK(first["singleCallMs"]["afterRest"].is_null());
  CHECK(first["singleCallMs"]["l2Swept"].is_null());
  CHECK_FALSE(first.contains("sustained"));
  CHECK(written["results"][1].contains("sustained"));
  const json rules = schema();
  CHECK(violation(rules, rules, written, "document") == "");
  const Report read = parse_report(written.dump(), "r.json").report;
  REQUIRE(read.cases[0].single_calls);
  CHECK(read.cases[0].single_calls->warm.median == 0.7);
  CHECK(read.cases[0].single_calls->after_rest.count == 0);
  CHECK_FALSE(read.cases[0].sustained);
  CHECK(read.cases[1].sustained);
  const json again = json::parse(json_report(Options(), read))["results"];
  CHECK(again[0]["singleCallMs"] == first["singleCallMs"]);
  // As it was written once.
  first["sustained"] = {{"seconds", 0}, {"runs", 0}, {"picturesPerSecond", 0}, {"utilisation", nullptr}};
  CHECK_FALSE(parse_report(written.dump(), "r.json").report.cases[0].sustained);
  first["singleCallMs"]["warm"] = 3;
  CHECK(violation(rules, rules, written, "document") != "");
  CHECK_THAT(error_of(written.dump()), contains("singleCallMs.warm: must be an object"));
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
    json one = document();
    one[json::json_pointer(pointer)] = value;
    return error_of(one.dump());
  };
  CHECK_THAT(changed("/results", 3), contains("document.results: must be an array, got 3"));
  CHECK_THAT(changed("/results/1/batch", 0), contains("document.results[1].batch: must be a batch, at least 1, got 0"));
  CHECK_THAT(changed("/results/1/threads", 0), contains("must be a number of threads, at least 1"));
  CHECK_THAT(changed("/results/1/batch", 1e300), contains("must be a whole number"));
  CHECK_THAT(changed("/results/0/precision", "int4"), contains("must be fp32, tf32, fp16 or fp64, got \"int4\""));
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

TEST_CASE("reports follow the schema, and the schema is no blank cheque", "[report]") {
  const json rules = schema();
  CHECK(violation(rules, rules, document(), "document") == "");
  Report full = profiled_report();
  full.cases[0].speed_up = {1, 1, 1};
  full.gpu_states.push_back({1, GpuState{1, 2, 3, 4}, {}});
  full.images = classified_pictures();
  full.images->results[0].threads = 2;
  full.images->broken = {{"a", "b"}};
  full.fewer_images.push_back(*full.images);
  full.cases[0].threads = 2;
  full.cases[0].golden.emplace();
  full.cases[0].layer_comparisons = {layers_that_diverge()};
  full.cases[0].enqueue_ms = 0.1;
  full.cases[0].utilisation.emplace();
  full.cases[0].utilisation->power_w = SampledRange{3, 1, 5};
  full.cases[0].utilisation->clock_reasons = {"power cap"};
  full.cases[0].utilisation->energy_source = EnergySource::Power;
  full.gpu_not_sampled = "x";
  full.error = "x";
  const json filled = json::parse(json_report(Options(), full));
  CHECK(violation(rules, rules, filled, "document") == "");
  const auto broken = [&](const char* pointer, const json& value) {
    json one = filled;
    one[json::json_pointer(pointer)] = value;
    return violation(rules, rules, one, "document");
  };
  CHECK(broken("/results/0/batch", 0) == "document.results[0].batch: minimum");
  CHECK(broken("/results/0/extra", 0) == "document.results[0]: unknown extra");
  CHECK(broken("/results/0/layers/0/name", 1) == "document.results[0].layers[0].name: type");
  CHECK(broken("/results/0/utilisation/energySource", "wind") == "document.results[0].utilisation.energySource: enum");
  CHECK(broken("/program", "x") == "document.program: const");
  CHECK(broken("/images/results/0/precision", "int8") != "");
}
