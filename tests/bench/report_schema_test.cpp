// The document of --json, its schema, and the document that the tests of the report read.

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench_engine/export/report_json.h"
#include "bench_report.h"
#include "support/catch.h"
#include "support/folders.h"

using namespace mobicuda;
using namespace mobicuda::bench;
using nlohmann::json;

namespace {

json read(const char* path) {  // in the project's folder
  std::ifstream stream(test::source_folder() / path);
  return json::parse(stream);
}

json schema() { return read("docs/bench_engine.schema.json"); }

json written(const Report& report) { return json::parse(json_report(Options(), report)); }

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

}  // namespace

TEST_CASE("the document that tests of the report read is one of bench_engine", "[report]") {
  json document = read("tests/report/run.json");
  json ours = written(report_of_everything());
  document.erase("version");
  ours.erase("version");
  CHECK(json::diff(document, ours) == json::array());
}

TEST_CASE("what Ctrl-C came before is written as null or left out", "[report]") {
  Report report = profiled_report();
  report.cases[0].single_calls->after_rest = report.cases[0].single_calls->swept = Statistics();
  report.cases[0].sustained = Sustained();
  json document = written(report);
  json& first = document["results"][0];
  CHECK(first["singleCallMs"]["warm"]["count"] == 3);
  CHECK(first["singleCallMs"]["afterRest"].is_null());
  CHECK(first["singleCallMs"]["l2Swept"].is_null());
  CHECK_FALSE(first.contains("sustained"));
  CHECK(document["results"][1].contains("sustained"));
  const json rules = schema();
  CHECK(violation(rules, rules, document, "document") == "");
  first["singleCallMs"]["warm"] = 3;
  CHECK(violation(rules, rules, document, "document") != "");
}

TEST_CASE("reports follow the schema, and the schema is no blank cheque", "[report]") {
  const json rules = schema();
  CHECK(violation(rules, rules, written(report_of_everything()), "document") == "");
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
  const json filled = written(full);
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
