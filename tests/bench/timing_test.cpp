#include "bench_engine/measure/timing.h"

#include <chrono>
#include <numeric>
#include <thread>

#include "bench_engine/model/exit_codes.h"
#include "bench_engine/tensors/inputs.h"
#include "support/catch.h"

using namespace mobicuda::bench;

namespace {

// Writes its letter to `order` for each burst, and claims that every iteration took `ms`.
TimedBurst subject(char letter, double ms, std::string& order) {
  return [letter, ms, &order](int iterations) {
    order += letter;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::vector<double>(static_cast<std::size_t>(iterations), ms);
  };
}

bool never() { return false; }

Schedule short_schedule(int iterations) {
  Schedule schedule;
  schedule.warm_up_ms = 0;
  schedule.duration_ms = 0;
  schedule.iterations = iterations;
  return schedule;
}

}  // namespace

TEST_CASE("bursts alternate after one warm-up each", "[timing]") {
  std::string order;
  const std::vector<TimedBurst> subjects{subject('a', 1, order), subject('b', 2, order)};
  const auto samples = measure_interleaved(subjects, short_schedule(50), never);
  REQUIRE(samples.size() == 2);
  REQUIRE(order.size() > 4);
  CHECK(order.size() % 2 == 0);
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == (i % 2 == 0 ? 'a' : 'b'));
  CHECK(samples[0].burst_medians_ms.size() == samples[1].burst_medians_ms.size());
  CHECK(samples[0].burst_medians_ms.size() == order.size() / 2 - 1);
  CHECK(samples[0].times_ms.size() >= 50);
  CHECK(samples[0].times_ms.front() == 1);
  CHECK(samples[1].times_ms.front() == 2);
  CHECK(samples[1].burst_medians_ms.back() == 2);
}

TEST_CASE("who watches is told of each timed burst before it, and of no warm-up", "[timing]") {
  std::string order;
  const std::vector<TimedBurst> subjects{subject('a', 1, order), subject('b', 1, order)};
  measure_interleaved(subjects, short_schedule(50), never, [&](std::size_t i) { order += i == 0 ? 'A' : 'B'; });
  REQUIRE(order.size() > 6);
  CHECK(order.substr(0, 2) == "ab");
  for (std::size_t i = 2; i < order.size(); ++i) CHECK(order[i] == "AaBb"[(i - 2) % 4]);
}

TEST_CASE("measuring lasts as long as asked", "[timing]") {
  std::string order;
  const std::vector<TimedBurst> subjects{subject('a', 1, order)};
  Schedule schedule = short_schedule(1);
  schedule.duration_ms = 30;
  const auto start = std::chrono::steady_clock::now();
  measure_interleaved(subjects, schedule, never);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(30));
}

TEST_CASE("bursts are as long as asked, and what they take together is known", "[timing]") {
  std::vector<int> lengths;
  const std::vector<TimedBurst> subjects{[&](int iterations) {
    lengths.push_back(iterations);
    std::this_thread::sleep_for(std::chrono::milliseconds(iterations));
    return std::vector<double>(static_cast<std::size_t>(iterations), 1.0);
  }};
  Schedule schedule = short_schedule(300);
  schedule.burst_ms = 100;  // far more than an iteration takes on a busy machine
  const Samples samples = measure_interleaved(subjects, schedule, never).front();
  REQUIRE(lengths.size() > 2);
  CHECK(lengths[1] > 1);
  CHECK(lengths[1] <= 100);
  const double slept = std::accumulate(lengths.begin() + 1, lengths.end(), 0.0);
  CHECK(samples.wall_ms >= slept);
}

TEST_CASE("idle time makes bursts of one iteration", "[timing]") {
  std::string order;
  const std::vector<TimedBurst> subjects{subject('a', 1, order)};
  Schedule schedule = short_schedule(5);
  schedule.idle_ms = 0.1;
  const auto samples = measure_interleaved(subjects, schedule, never);
  CHECK(samples[0].times_ms.size() == samples[0].burst_medians_ms.size());
}

TEST_CASE("measuring stops when told to, with what it has", "[timing]") {
  std::string order;
  const std::vector<TimedBurst> subjects{subject('a', 1, order), subject('b', 1, order)};
  const auto samples = measure_interleaved(subjects, short_schedule(1 << 20), [&] { return order.size() >= 6; });
  CHECK(order.size() == 6);
  CHECK(samples[0].burst_medians_ms.size() == 2);
  CHECK(measure_interleaved({}, short_schedule(1), never).empty());
}

TEST_CASE("random input is the same for a seed, from -1 up to 1", "[inputs]") {
  const std::vector<float> input = random_input(1000, 7);
  CHECK(input == random_input(1000, 7));
  CHECK(input != random_input(1000, 8));
  for (const float x : input) CHECK((x >= -1.0F && x < 1.0F));
}

TEST_CASE("an input of fewer pictures than the batch starts over", "[inputs]") {
  CHECK(tile_input({1, 2, 3, 4}, 2, 3) == std::vector<float>{1, 2, 3, 4, 1, 2});
  CHECK_THROWS_AS(tile_input({1, 2, 3}, 2, 3), UsageError);
}
