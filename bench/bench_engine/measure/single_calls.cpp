#include "bench_engine/measure/single_calls.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "bench_engine/measure/statistics.h"
#include "bench_engine/process/clock.h"

#ifdef MOBICUDA_WITH_CUDA
#include "l2_sweep.h"
#endif

namespace mobicuda::bench {
namespace {

constexpr std::size_t kMostCalls = 500;
constexpr std::size_t kLeastCalls = 20;
constexpr double kLongestMs = 500;  // of timed calls of one kind, once there are enough

void sweep() {
#ifdef MOBICUDA_WITH_CUDA
  sweep_l2(nullptr);
  static_cast<void>(cudaStreamSynchronize(nullptr));  // an error stays, and the session's next call throws it
#endif
}

Statistics measure(Session& session, std::int64_t n, const std::function<bool()>& stop,
                   const std::function<void()>& before_each) {
  std::vector<double> times;
  double spent = 0;
  while (times.size() < kMostCalls && (spent < kLongestMs || times.size() < kLeastCalls) && !stop()) {
    before_each();
    const auto start = Clock::now();
    session.execute(n);
    session.synchronize();
    times.push_back(since_ms(start));
    spent += times.back();
  }
  return summarize(times);
}

}  // namespace

SingleCalls measure_single_calls(Session& session, std::int64_t n, const std::function<bool()>& stop) {
  SingleCalls result;
  session.execute(n);  // what ran before has left its own data in the caches
  session.synchronize();
  result.warm = measure(session, n, stop, [] {});
  result.after_rest = measure(session, n, stop,
                              [] { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(kRestMs)); });
  result.swept = measure(session, n, stop, sweep);
  return result;
}

}  // namespace mobicuda::bench
