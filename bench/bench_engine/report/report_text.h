#pragma once

#include <iosfwd>
#include <vector>

#include "bench_engine/implementations.h"
#include "bench_engine/options.h"
#include "bench_engine/results.h"

namespace mobicuda::bench {

/// Machine, model and what was left out; before anything is measured.
void print_header(std::ostream& out, const Report& report);

/// Bytes of a compiled case; before its session allocates them.
void print_memory(std::ostream& out, const CaseResult& result);

/// Load and first-run times, after the first run.
void print_load(std::ostream& out, const ModelInfo& model, const CaseResult& result);

/// Everything measured: latency, comparison, profile, accuracy, thresholds.
void print_report(std::ostream& out, const Options& options, const Report& report);

/// --listImpls.
void print_implementations(std::ostream& out, const std::vector<Implementation>& implementations);

/// --listOps.
void print_operators(std::ostream& out);

}  // namespace mobicuda::bench
