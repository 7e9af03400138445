#include "bench_engine/measure/gpu_sampler.h"

#include <sys/resource.h>

namespace mobicuda::bench {
namespace {

double milliseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

// `who`: RUSAGE_SELF, RUSAGE_THREAD.
double cpu_ms(int who) {
  rusage usage{};
  if (getrusage(who, &usage) != 0) return 0;
  return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
}

// A turn's number and subject in one word: who reads it twice sees whether the turn has ended meanwhile.
constexpr int kTurnShift = 32;

std::optional<std::size_t> subject_of(std::uint64_t turn) {
  const auto subject = static_cast<std::uint32_t>(turn);
  if (subject == 0) return std::nullopt;
  return subject - 1;
}

std::uint64_t turn_after(std::uint64_t turn, std::optional<std::size_t> subject) {
  return (((turn >> kTurnShift) + 1) << kTurnShift) | (subject ? *subject + 1 : 0);
}

}  // namespace

GpuSampler::GpuSampler(std::function<GpuReading()> read, double interval_ms, std::size_t subjects)
    : read_(std::move(read)), interval_(interval_ms), usages_(subjects) {
  if (read_) thread_ = std::thread([this] { sample_until_stopped(); });
}

GpuSampler::~GpuSampler() { stop(); }

void GpuSampler::watch(std::optional<std::size_t> subject) {
  const double wall = std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  const double cpu = process_cpu_ms();
  const std::uint64_t turn = turn_.load();
  const auto before = subject_of(turn);
  if (before != subject) turn_ = turn_after(turn, subject);
  if (before) {
    usages_[*before].wall_ms += wall - switched_wall_ms_;
    usages_[*before].cpu_ms += cpu - switched_cpu_ms_;
  }
  switched_wall_ms_ = wall;
  switched_cpu_ms_ = cpu;
}

std::vector<Usage> GpuSampler::finish() {
  watch(std::nullopt);
  stop();
  return std::move(usages_);
}

double GpuSampler::process_cpu_ms() const { return cpu_ms(RUSAGE_SELF) - sampler_cpu_ms_.load(); }

void GpuSampler::sample_until_stopped() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval_, [this] { return stopped_; })) {
    lock.unlock();
    sample();
    lock.lock();
  }
}

void GpuSampler::sample() {
  const std::uint64_t turn = turn_.load();
  const auto subject = subject_of(turn);
  if (!subject) return;
  const double at_ms = std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  const GpuReading reading = read_();
  sampler_cpu_ms_ = cpu_ms(RUSAGE_THREAD);
  if (turn_.load() == turn) usages_[*subject].samples.push_back({at_ms, reading});
}

void GpuSampler::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace mobicuda::bench
