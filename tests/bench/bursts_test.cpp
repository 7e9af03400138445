#include "bench_engine/measure/bursts.h"

#include <chrono>
#include <functional>
#include <numeric>

#include "bench_engine/measure/sustained.h"
#include "fake_session.h"
#include "support/catch.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

constexpr double kReadingMs = 0.3;  // what a reading of a GPU's clock shall be short against

double wall_ms(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The second burst of a GPU's session whose runs take `ms`: the first one finds out that they do.
FakeCalls::Timed second_burst(double ms, int iterations) {
  const auto engine = fake_engine({ms});
  const auto session = engine->create_session();
  const TimedBurst burst = device_burst(*session, 1, true);
  burst(iterations);
  const std::vector<double> times = burst(iterations);
  const FakeCalls::Timed timed = engine->calls().timed.back();
  CHECK(times == std::vector<double>(static_cast<std::size_t>(timed.iterations), ms));
  CHECK(engine->calls().timed.size() == 2);
  CHECK(engine->calls().executed == 2);  // an untimed one ahead of each burst
  return timed;
}

}  // namespace

TEST_CASE("a GPU's short runs are timed several at a time", "[timing]") {
  for (const double ms : {0.0005, 0.04, 0.1, 0.25, 0.299}) {
    CAPTURE(ms);
    const FakeCalls::Timed timed = second_burst(ms, 1000);
    CHECK(timed.runs * std::max(ms, 1e-3) >= kReadingMs);
    CHECK((timed.runs - 1) * std::max(ms, 1e-3) < kReadingMs);
    CHECK(timed.iterations == 1000 / timed.runs);
  }
  CHECK(second_burst(0.04, 5).runs == 5);  // never more than were asked for
  CHECK(second_burst(0.04, 5).iterations == 1);
}

TEST_CASE("long runs, and those of the CPU, are timed one by one", "[timing]") {
  for (const double ms : {0.3, 0.5, 20.0}) {
    CAPTURE(ms);
    const FakeCalls::Timed timed = second_burst(ms, 50);
    CHECK(timed.runs == 1);
    CHECK(timed.iterations == 50);
  }
  const auto engine = fake_engine({0.04});
  const auto session = engine->create_session();
  const TimedBurst burst = device_burst(*session, 1, false);
  burst(50);
  CHECK(burst(50).size() == 50);
  CHECK(engine->calls().timed.back().runs == 1);
  CHECK(engine->calls().executed == 0);
}

TEST_CASE("how many runs a reading takes follows their time", "[timing]") {
  const auto engine = fake_engine({0.1, 0.05, 1});
  const auto session = engine->create_session();
  const TimedBurst burst = device_burst(*session, 1, true);
  for (int i = 0; i < 4; ++i) burst(100);
  std::vector<int> runs;
  for (const FakeCalls::Timed& timed : engine->calls().timed) runs.push_back(timed.runs);
  CHECK(runs == std::vector<int>{1, 3, 6, 1});
}

TEST_CASE("a burst by the host's clock is shared evenly by its runs", "[timing]") {
  constexpr double kRunMs = 2;
  const auto engine = fake_engine({kRunMs});
  const auto session = engine->create_session();
  std::vector<double> times;
  const double outside = wall_ms([&] { times = wall_burst(*session, 1)(8); });
  REQUIRE(times.size() == 8);
  CHECK(times == std::vector<double>(8, times.front()));
  CHECK(times.front() >= kRunMs);
  CHECK(std::accumulate(times.begin(), times.end(), 0.0) <= Approx(outside));
  CHECK(engine->calls().executed == 8);
  CHECK(engine->calls().waits == 1);
}

TEST_CASE("a case alone counts its runs and the time that they took", "[timing]") {
  constexpr double kRunMs = 0.02;
  const auto engine = fake_engine({kRunMs});
  const auto session = engine->create_session();
  Schedule schedule;
  schedule.warm_up_ms = 0;
  schedule.duration_ms = 30;
  schedule.iterations = 1;
  schedule.idle_ms = 20;  // not for a processor that is to be kept busy
  Sustained result;
  const double outside = wall_ms([&] {
    result = measure_sustained(
        *session, 4, schedule, [] { return false; }, Recording());
  });
  CHECK(result.runs == engine->calls().executed - 1);  // but the warm-up's
  CHECK(result.runs > 10);
  CHECK(result.seconds * 1e3 >= schedule.duration_ms);
  CHECK(result.seconds * 1e3 >= static_cast<double>(result.runs) * kRunMs);
  CHECK(result.seconds * 1e3 <= outside);
  CHECK(result.pictures_per_second(4) == Approx(4 * static_cast<double>(result.runs) / result.seconds));
  CHECK_FALSE(result.utilisation);
}

TEST_CASE("a case alone that is stopped has measured nothing", "[timing]") {
  const auto engine = fake_engine();
  const auto session = engine->create_session();
  const Sustained result = measure_sustained(
      *session, 4, Schedule(), [] { return true; }, Recording());
  CHECK(result.runs == 0);
  CHECK(result.seconds == 0);
  CHECK(result.pictures_per_second(4) == 0);
}
