#pragma once

#include "bench_engine/model/options.h"

namespace CLI {
class App;
}

namespace mobicuda::bench {

/// --loadEngine, --saveEngine, --reload.
void add_engine_options(CLI::App& app, Options& options);

/// Throws UsageError unless there is a model or a plan file, and nothing that contradicts it.
void check_engine_options(const Options& options);

}  // namespace mobicuda::bench
