#include "bench_engine/measure/gpu_sampler.h"

#include <chrono>
#include <ctime>

#include "bench_engine/measure/recorded_timing.h"
#include "support/catch.h"

using namespace mobicuda::bench;

namespace {

using Clock = std::chrono::steady_clock;

// A GPU that tells which subject runs, as its power, and counts how often it was asked.
struct FakeGpu {
  std::atomic<int> running{0};
  std::atomic<int> readings{0};

  std::function<GpuReading()> read() {
    return [this] {
      ++readings;
      GpuReading reading;
      reading.power_w = running.load();
      reading.energy_j = readings.load();
      return reading;
    };
  }
};

bool wait_for(const std::function<bool()>& condition) {
  const auto limit = Clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void wait_for_more(const FakeGpu& gpu, int count) {
  const int before = gpu.readings.load();
  REQUIRE(wait_for([&] { return gpu.readings.load() >= before + count; }));
}

bool never() { return false; }

// Bursts as long as the timing asks for; tells the GPU who runs.
TimedBurst subject(int which, FakeGpu& gpu) {
  return [which, &gpu](int iterations) {
    gpu.running = which;
    std::this_thread::sleep_for(std::chrono::milliseconds(iterations));
    return std::vector<double>(static_cast<std::size_t>(iterations), 1.0);
  };
}

Schedule schedule_of(double duration_ms) {
  Schedule schedule;
  schedule.warm_up_ms = 20;
  schedule.duration_ms = duration_ms;
  return schedule;
}

}  // namespace

TEST_CASE("samples belong to the subject that ran", "[sampler]") {
  FakeGpu gpu;
  GpuSampler sampler(gpu.read(), 1, 2);
  for (const int turn : {0, 1, 0}) {
    sampler.watch(std::nullopt);  // a reading between the two is nobody's
    gpu.running = turn;
    sampler.watch(static_cast<std::size_t>(turn));
    wait_for_more(gpu, 5);
  }
  const std::vector<Usage> usages = sampler.finish();
  REQUIRE(usages.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(usages[i].samples.size() >= 3);
    CHECK(usages[i].wall_ms >= 3);
    for (const GpuSample& sample : usages[i].samples) CHECK(sample.reading.power_w == static_cast<double>(i));
  }
  CHECK(usages[0].samples.size() > usages[1].samples.size());
}

TEST_CASE("a reading during which the turn changed is nobody's", "[sampler]") {
  std::atomic<bool> reading{false};
  std::atomic<bool> go_on{false};
  const auto slow = [&] {
    reading = true;
    wait_for([&] { return go_on.load(); });
    return GpuReading();
  };
  GpuSampler sampler(slow, 1, 2);
  sampler.watch(0);
  REQUIRE(wait_for([&] { return reading.load(); }));
  sampler.watch(1);
  sampler.watch(0);
  sampler.watch(std::nullopt);
  go_on = true;
  for (const Usage& usage : sampler.finish()) CHECK(usage.samples.empty());
}

TEST_CASE("the GPU is not asked while nothing is timed", "[sampler]") {
  FakeGpu gpu;
  GpuSampler sampler(gpu.read(), 1, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(gpu.readings == 0);
  CHECK(sampler.finish()[0].samples.empty());
}

TEST_CASE("CPU time is that of the subject that used it", "[sampler]") {
  GpuSampler sampler({}, 1, 2);
  sampler.watch(1);
  // By the process's own clock: a machine with other work gives it less of the wall's time.
  const std::clock_t start = std::clock();
  while (std::clock() - start < 60 * (CLOCKS_PER_SEC / 1000)) {
  }
  sampler.watch(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  sampler.watch(std::nullopt);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::vector<Usage> usages = sampler.finish();
  CHECK(usages[0].wall_ms >= 60);
  CHECK(usages[0].cpu_ms < 20);
  CHECK(usages[1].cpu_ms > 55);
  CHECK(usages[1].wall_ms >= 60);
}

TEST_CASE("alternating bursts have each their own samples", "[sampler]") {
  FakeGpu gpu;
  const std::vector<TimedBurst> subjects{subject(0, gpu), subject(1, gpu)};
  const RecordedSamples recorded = measure_recorded(subjects, schedule_of(200), never, {1, gpu.read(), 4});
  REQUIRE(recorded.samples.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const Utilisation& utilisation = recorded.utilisations[i].value();
    CHECK(utilisation.alternated);
    CHECK(utilisation.samples > 0);
    CHECK_FALSE(utilisation.gpu_percent.has_value());
    // A burst tells who runs a moment after its turn has begun, on a busy machine a longer one.
    CHECK(std::abs(utilisation.power_w.value().mean - static_cast<double>(i)) < 0.5);
    CHECK(utilisation.energy_source == EnergySource::Power);
  }
}

TEST_CASE("nothing is recorded where the interval is 0", "[sampler]") {
  FakeGpu gpu;
  const std::vector<TimedBurst> subjects{subject(0, gpu)};
  const RecordedSamples recorded = measure_recorded(subjects, schedule_of(30), never, {0, gpu.read(), 1});
  CHECK(recorded.samples[0].times_ms.size() >= 10);
  CHECK_FALSE(recorded.utilisations[0].has_value());
  CHECK(gpu.readings == 0);
}

TEST_CASE("without a GPU only the process is recorded, and paced runs have no energy", "[sampler]") {
  FakeGpu gpu;
  const std::vector<TimedBurst> subjects{subject(0, gpu)};
  const RecordedSamples process = measure_recorded(subjects, schedule_of(30), never, {1, {}, 1});
  CHECK(process.utilisations[0].value().cpu_percent.has_value());
  CHECK(process.utilisations[0]->samples == 0);
  Schedule paced = schedule_of(100);
  paced.idle_ms = 5;
  const RecordedSamples idle = measure_recorded(subjects, paced, never, {1, gpu.read(), 1});
  CHECK(idle.utilisations[0].value().samples > 0);
  CHECK_FALSE(idle.utilisations[0]->energy_per_picture_j.has_value());
}
