#include "bench_engine/measure/bursts.h"

#include <algorithm>
#include <cmath>

#include "bench_engine/measure/statistics.h"
#include "bench_engine/process/clock.h"

namespace mobicuda::bench {
namespace {

// Reading a GPU's clock takes about 1.3 us (H200): not half a percent of this.
constexpr double kReadingMs = 0.3;
constexpr double kLeastRunMs = 1e-3;

}  // namespace

TimedBurst device_burst(Session& session, std::int64_t batch, bool gpu) {
  if (!gpu) return [&session, batch](int iterations) { return session.time_executions(batch, iterations); };
  return [&session, batch, run_ms = kReadingMs](int iterations) mutable {
    const int runs = std::clamp(static_cast<int>(std::ceil(kReadingMs / std::max(run_ms, kLeastRunMs))), 1, iterations);
    // What ran before, perhaps another implementation, has left its own data in the caches.
    session.execute(batch);
    std::vector<double> times = session.time_executions(batch, iterations / runs, runs);
    run_ms = median(times);
    return times;
  };
}

TimedBurst wall_burst(Session& session, std::int64_t batch) {
  return [&session, batch](int iterations) {
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i) session.execute(batch);
    session.synchronize();
    return std::vector<double>(static_cast<std::size_t>(iterations), since_ms(start) / iterations);
  };
}

TimedBurst host_burst(Session& session, std::int64_t batch) {
  return [&session, batch](int iterations) {
    std::vector<double> times(static_cast<std::size_t>(iterations));
    for (double& time : times) {
      const auto start = Clock::now();
      session.run_staged(batch);
      time = since_ms(start);
    }
    return times;
  };
}

TimedBurst streams_burst(std::vector<std::shared_ptr<Session>> sessions, std::int64_t batch) {
  return [sessions = std::move(sessions), batch](int iterations) {
    for (const auto& session : sessions) session->enqueue_staged(batch);
    std::vector<double> times;
    auto last = Clock::now();
    const std::size_t wanted = static_cast<std::size_t>(iterations) + sessions.size();
    for (std::size_t i = 0; i < wanted; ++i) {
      Session& session = *sessions[i % sessions.size()];
      session.synchronize();
      session.enqueue_staged(batch);
      // The first results come from an empty pipeline.
      if (i >= sessions.size()) times.push_back(since_ms(last));
      last = Clock::now();
    }
    for (const auto& session : sessions) session->synchronize();
    return times;
  };
}

}  // namespace mobicuda::bench
