#include "bench_engine/engines/reload.h"

#include "bench_engine/process/clock.h"

namespace mobicuda::bench {

Samples measure_reload(const Options& options, const LogCallback& log, const Case& what, const EngineOptions& engine,
                       const TimedInput& input, std::size_t outputs, const std::function<bool()>& stop) {
  std::vector<float> output(outputs);
  const auto once = [&] {
    const auto start = Clock::now();
    EngineSource source(options, log);
    ModelInfo model;
    source.read(model);
    const auto loaded = source.make(*what.make(), engine);
    const auto session = loaded->create_session();
    input.run(*session, output);
    return since_ms(start);
  };
  const std::vector<TimedBurst> burst{[&](int iterations) {
    std::vector<double> times(static_cast<std::size_t>(iterations));
    for (double& time : times) time = once();
    return times;
  }};
  Schedule schedule;
  schedule.warm_up_ms = 0;  // the loading before has warmed up what can be
  schedule.duration_ms = options.duration_s * 1e3;
  schedule.iterations = options.iterations;
  return measure_interleaved(burst, schedule, stop).front();
}

}  // namespace mobicuda::bench
