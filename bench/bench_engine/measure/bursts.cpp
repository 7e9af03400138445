#include "bench_engine/measure/bursts.h"

#include <chrono>

namespace mobicuda::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

TimedBurst device_burst(Session& session, std::int64_t batch, bool settle) {
  return [&session, batch, settle](int iterations) {
    // What ran before, perhaps another implementation, has left its own data in the caches.
    if (settle) session.execute(batch);
    return session.time_executions(batch, iterations);
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
