#pragma once

#include <iosfwd>
#include <vector>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/options.h"
#include "bench_engine/model/results.h"

namespace mobicuda::bench {

/// Machine, model and what was left out; before anything is measured.
void print_header(std::ostream& out, const Report& report);

/// Bytes of a compiled case; before its session allocates them.
void print_memory(std::ostream& out, const CaseResult& result);

/// Load and first-run times, after the first run.
void print_load(std::ostream& out, const ModelInfo& model, const CaseResult& result);

/// Everything measured: the document of --json as `bench_engine report` shows it, and what it does not hold
/// (--dumpOutput).
void print_results(std::ostream& out, const Options& options, const Report& report);

/// --listImpls.
void print_implementations(std::ostream& out, const std::vector<Implementation>& implementations);

/// --listOps.
void print_operators(std::ostream& out);

}  // namespace mobicuda::bench
