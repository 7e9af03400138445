#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <mobicuda/engine.h>

#include "bench_engine/implementations.h"
#include "bench_engine/options.h"
#include "bench_engine/trace/tracer.h"

namespace mobicuda::bench {

/// How many staged runs are traced.
inline constexpr int kTracedRuns = 20;

/// The tracer that the options ask for; none when they do not. Throws UsageError when it cannot work here, or nothing
/// runs on a GPU.
std::unique_ptr<Tracer> make_tracer(const Options& options, const Selection& selection);

/// Runs a session of a GPU engine, whose inputs are in place and staged, under the tracer.
TracedCase trace_case(Tracer& tracer, Session& session, std::int64_t batch, const std::string& label);

}  // namespace mobicuda::bench
