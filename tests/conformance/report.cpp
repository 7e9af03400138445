#include "report.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mobicuda::conformance {
namespace {

struct Refusal {
  std::int64_t cases = 0;
  std::string example;  ///< the first message, without the place in the model
};

using Refusals = std::map<std::string, Refusal>;

/// What follows "node #4 'bn' (BatchNormalization), " or "...: ".
std::string without_place(const std::string& reason, const std::string& op) {
  const std::size_t place = reason.find("(" + op + ")");
  if (place == std::string::npos) return reason;
  const std::size_t end = reason.find_first_not_of(":, ", place + op.size() + 2);
  return end == std::string::npos ? reason : reason.substr(end);
}

Refusals refusals(const Summary& summary, Verdict verdict) {
  Refusals refused;
  for (const CaseResult& result : summary.results) {
    if (result.judgement.verdict != verdict) continue;
    Refusal& entry = refused[result.judgement.op];
    if (++entry.cases == 1) entry.example = without_place(result.judgement.reason, result.judgement.op);
  }
  return refused;
}

std::map<std::string, std::int64_t> reasons(const Summary& summary) {
  std::map<std::string, std::int64_t> counts;
  for (const CaseResult& result : summary.results) {
    if (result.judgement.verdict == Verdict::OutOfScope) ++counts[result.judgement.reason];
  }
  return counts;
}

void add_row(std::ostringstream& text, const std::string& title, std::int64_t count) {
  text << std::setw(6) << count << "  " << title << '\n';
}

void add_refusals(std::ostringstream& text, const Refusals& refused) {
  for (const auto& [op, entry] : refused)
    text << "          " << op << " (" << entry.cases << "): " << entry.example << '\n';
}

nlohmann::ordered_json refusals_json(const Refusals& refused) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& [op, entry] : refused) json[op] = {{"cases", entry.cases}, {"example", entry.example}};
  return json;
}

bool passes(const Judgement& judgement) {
  return judgement.verdict == Verdict::Passed || judgement.verdict == Verdict::PassedAsConstant;
}

}  // namespace

std::int64_t Summary::count(Verdict verdict) const {
  return std::count_if(results.begin(), results.end(),
                       [&](const CaseResult& result) { return result.judgement.verdict == verdict; });
}

Gate read_gate(const std::filesystem::path& file) {
  constexpr std::string_view kTestModels = "# test models: ";
  std::ifstream lines(file);
  if (!lines) throw std::runtime_error("cannot read " + file.string());
  Gate gate;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kTestModels)) gate.test_models = std::stoul(line.substr(kTestModels.size()));
    if (!line.empty() && line.front() != '#') gate.names.insert(line);
  }
  if (gate.test_models == 0) {
    throw std::runtime_error(file.string() + " has no line '" + std::string(kTestModels) + "N'");
  }
  return gate;
}

std::vector<std::string> complaints(const Summary& summary, const std::set<std::string>& gate, const Demands& demands) {
  std::vector<std::string> lines;
  std::size_t met = 0;
  for (const auto& [name, judgement] : summary.results) {
    if (gate.contains(name)) ++met;
    if (judgement.verdict == Verdict::Failed) {
      lines.push_back(name + ": " + judgement.reason);
    } else if (passes(judgement) && !gate.contains(name)) {
      if (demands.all_listed) lines.push_back(name + ": passes and is not in the gate");
    } else if (!passes(judgement) && gate.contains(name) &&
               !(demands.engine_may_refuse && judgement.verdict == Verdict::RefusedByEngine)) {
      lines.push_back(name + ": is in the gate and does not pass: " + judgement.reason);
    }
  }
  if (2 * met < gate.size()) lines.emplace_back("most cases of the gate are missing in the test data");
  return lines;
}

std::int64_t unlisted(const Summary& summary, const std::set<std::string>& gate) {
  return std::count_if(summary.results.begin(), summary.results.end(), [&](const CaseResult& result) {
    return passes(result.judgement) && !gate.contains(result.name);
  });
}

std::string to_text(const Summary& summary) {
  std::ostringstream text;
  text << summary.implementation << ' ' << summary.precision << ": " << summary.results.size()
       << " test models of ONNX\n";
  add_row(text, "passed", summary.count(Verdict::Passed));
  add_row(text, "passed, computed from constants at import", summary.count(Verdict::PassedAsConstant));
  add_row(text, "refused by the importer, by name", summary.count(Verdict::RefusedByImporter));
  add_refusals(text, refusals(summary, Verdict::RefusedByImporter));
  add_row(text, "refused by the engine, by name", summary.count(Verdict::RefusedByEngine));
  add_refusals(text, refusals(summary, Verdict::RefusedByEngine));
  add_row(text, "out of scope", summary.count(Verdict::OutOfScope));
  for (const auto& [reason, count] : reasons(summary)) text << "          " << reason << ": " << count << '\n';
  add_row(text, "failed", summary.count(Verdict::Failed));
  return text.str();
}

std::string to_json(const std::vector<Summary>& summaries) {
  auto json = nlohmann::ordered_json::object();
  for (const Summary& summary : summaries) {
    json[summary.implementation] = {{"precision", summary.precision},
                                    {"cases", summary.results.size()},
                                    {"passed", summary.count(Verdict::Passed)},
                                    {"passedAsConstant", summary.count(Verdict::PassedAsConstant)},
                                    {"refusedByImporter", summary.count(Verdict::RefusedByImporter)},
                                    {"refusedByEngine", summary.count(Verdict::RefusedByEngine)},
                                    {"outOfScope", summary.count(Verdict::OutOfScope)},
                                    {"failed", summary.count(Verdict::Failed)},
                                    {"importerRefuses", refusals_json(refusals(summary, Verdict::RefusedByImporter))},
                                    {"engineRefuses", refusals_json(refusals(summary, Verdict::RefusedByEngine))},
                                    {"outOfScopeReasons", reasons(summary)}};
  }
  return json.dump(1) + "\n";
}

}  // namespace mobicuda::conformance
