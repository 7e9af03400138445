#pragma once

#include <optional>

#include <mobicuda/plan_file.h>

#include "bench_engine/measure/statistics.h"

namespace mobicuda::bench {

/// The parts of ModelInfo::import_ms where the model is a plan file.
using PlanTimes = std::optional<plan_file::ReadTimes>;

/// What is known of a case's loading beside ModelInfo::import_ms, CaseResult::compile_ms and session_ms.
struct LoadDetails {
  double upload_ms = 0;  ///< of compile_ms; 0 where an implementation does not tell, or has no device
  Statistics reload;     ///< --reload each: from the file to the outputs; count 0 where it was not measured
};

}  // namespace mobicuda::bench
