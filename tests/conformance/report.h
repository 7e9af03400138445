#pragma once

// Counts over all test models, as text and as JSON.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "judge.h"

namespace mobicuda::conformance {

struct CaseResult {
  std::string name;
  Judgement judgement;
};

/// One implementation on all cases.
struct Summary {
  std::string implementation;  ///< "custom"
  std::string precision;       ///< "fp32"
  std::vector<CaseResult> results;

  std::int64_t count(Verdict verdict) const;
};

/// What must pass.
struct Gate {
  std::set<std::string> names;
  std::size_t test_models = 0;  ///< in the version of the test data whose every model that passes is listed
};

/// Names, one a line, after "# test models: N"; other lines with # in front are comments. Throws std::runtime_error.
Gate read_gate(const std::filesystem::path& file);

struct Demands {
  bool engine_may_refuse = false;  ///< a case of the gate, by name
  bool all_listed = true;          ///< nothing passes that is not in the gate
};

/// What makes a run fail, a line each: failed cases, cases of the gate that do not pass, cases that pass and are not in
/// the gate. Cases that this version of the test data lacks are left out, unless most of the gate is missing.
std::vector<std::string> complaints(const Summary& summary, const std::set<std::string>& gate, const Demands& demands);

/// How many pass that are not in the gate.
std::int64_t unlisted(const Summary& summary, const std::set<std::string>& gate);

/// The table of counts, and the operators that are refused.
std::string to_text(const Summary& summary);
/// The same, sorted and without what differs from machine to machine.
std::string to_json(const std::vector<Summary>& summaries);

}  // namespace mobicuda::conformance
