#include "bench_engine/trace/trace_case.h"

#include <algorithm>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

// The first runs under a profiler pay for its set-up.
constexpr int kWarmUpRuns = 3;

}  // namespace

std::unique_ptr<Tracer> make_tracer(const Options& options, const Selection& selection) {
  if (!options.traced()) return nullptr;
  const bool gpu = std::any_of(selection.cases.begin(), selection.cases.end(),
                               [](const Case& one) { return one.processor == Processor::Gpu; });
  if (!gpu) throw UsageError("--dumpKernels and --exportTrace are about GPUs, and nothing that runs here is on one");
  return std::make_unique<Tracer>();
}

TracedCase trace_case(Tracer& tracer, const Engine& engine, std::int64_t batch, const std::string& label,
                      const std::function<void(Session&)>& prepare) {
  const Recorder record = [&tracer](const std::function<void()>& work) { return tracer.record(work); };
  return trace_case(record, engine, batch, label, prepare);
}

TracedCase trace_case(const Recorder& record, const Engine& engine, std::int64_t batch, const std::string& label,
                      const std::function<void(Session&)>& prepare) {
  TracedCase result;
  result.label = label;
  std::unique_ptr<Session> session;
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) session->run_staged(batch);
  };
  // The profiler is there before the session captures its CUDA graphs.
  record([&] {
    session = engine.create_session();
    prepare(*session);
    run(kWarmUpRuns);
  });
  // Only this one marks layers with the ranges that the rows of layers are made of.
  result.profile = record([&] { session->profile(batch, 1, ProfileMode::Serialized); });
  result.runs = record([&] { run(kTracedRuns); });
  return result;
}

}  // namespace mobicuda::bench
