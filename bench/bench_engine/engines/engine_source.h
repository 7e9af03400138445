#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/graph.h>
#include <mobicuda/saved_engine.h>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/options.h"
#include "bench_engine/model/results.h"

namespace mobicuda::bench {

/// With --loadEngine: takes implementation, precision, batch and input from the plan file where the command line leaves
/// them open. Throws UsageError where it asks for others, Error where the file cannot be read.
void take_from_plan(Options& options);

/// Throws UsageError where an implementation's engines cannot be saved.
void require_savable(const std::vector<Case>& cases);

/// --saveEngine: writes the plan file, with the result's name in its own where there are `several`, and says so.
void save_engine(const Engine& engine, const Options& options, const CaseResult& result, bool several,
                 std::ostream& out);

/// How a case's engine is compiled, as the command line says.
EngineOptions engine_options(const Options& options, const Case& one, std::int64_t batch, LogCallback log);

/// Where engines come from: --model, which is compiled, or --loadEngine.
class EngineSource {
 public:
  EngineSource(const Options& options, LogCallback log);

  /// Reads the file. The functions below are for afterwards.
  void read(ModelInfo& model);
  /// An engine out of what was read.
  std::shared_ptr<const Engine> make(const Backend& backend, EngineOptions options) const;

 private:
  const Graph& graph() const { return saved_ ? saved_->graph : *imported_; }

  const Options& options_;
  LogCallback log_;
  std::optional<Graph> imported_;
  std::optional<SavedEngine> saved_;
};

}  // namespace mobicuda::bench
