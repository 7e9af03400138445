#pragma once

#include <string>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/options.h"

namespace mobicuda::bench {

/// Throws UsageError where an option is one that none of the implementations has which run or are compared with.
void require_effects(const Options& options, const Selection& selection);

/// Throws UsageError where --shapes or --loadInputs names another input than the model's.
void require_input_name(const Options& options, const std::string& input);

}  // namespace mobicuda::bench
