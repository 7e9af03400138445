#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <mobicuda/engine.h>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/options.h"
#include "bench_engine/trace/tracer.h"

namespace mobicuda::bench {

/// How many staged runs are traced.
inline constexpr int kTracedRuns = 20;

/// The tracer that the options ask for; none when they do not. Throws UsageError when it cannot work here, or nothing
/// runs on a GPU.
std::unique_ptr<Tracer> make_tracer(const Options& options, const Selection& selection);

/// What happened during `work`, as Tracer::record().
using Recorder = std::function<GpuTrace(const std::function<void()>& work)>;

/// Runs a new session of a GPU engine under the tracer; `prepare` gives it its input.
TracedCase trace_case(Tracer& tracer, const Engine& engine, std::int64_t batch, const std::string& label,
                      const std::function<void(Session&)>& prepare);
TracedCase trace_case(const Recorder& record, const Engine& engine, std::int64_t batch, const std::string& label,
                      const std::function<void(Session&)>& prepare);

}  // namespace mobicuda::bench
