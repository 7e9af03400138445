#include "baselines/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>

#include <mobicuda/error.h>

namespace mobicuda::cpu {
namespace {

// Tells the processor that a loop waits.
void relax() noexcept {
#ifdef MOBICUDA_CPU_X86
  __builtin_ia32_pause();
#endif
}

// Waits a little for what another thread is about to do: to sleep and be woken takes as long as a small layer, and to
// yield may give the core away for longer. Returns whether it came.
template <class Condition>
bool came_soon(const Condition& condition) {
  constexpr std::chrono::microseconds kSoon{100};
  const auto now = std::chrono::steady_clock::now;
  for (const auto start = now(); now() - start < kSoon; relax()) {
    if (condition()) return true;
  }
  return condition();
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : sections_(static_cast<std::size_t>(threads)), seats_(static_cast<std::size_t>(threads - 1)) {
  try {
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { worker_main(worker); });
  } catch (const std::exception& error) {
    stop();
    throw Error(ErrorCode::out_of_memory, "CPU session",
                "could not start " + std::to_string(threads) + " threads: " + error.what(),
                "ask for fewer with EngineOptions::threads");
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() noexcept {
  stopping_.store(true);
  {
    const std::scoped_lock lock(mutex_);  // a worker that has looked at the gate sleeps by now
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Loop& loop) {
  if (loop.items <= 0) return;
  if (workers_.empty() || loop.items <= loop.grain) {
    loop.call(loop.body, 0, loop.items, 0);
    return;
  }
  loop_ = loop;
  const std::int64_t ranges = (loop.items + loop.grain - 1) / loop.grain;
  const std::int64_t count = std::ssize(sections_);
  for (std::int64_t i = 0; i < count; ++i) {
    Section& section = sections_[static_cast<std::size_t>(i)];
    section.next.store(ranges / count * i + std::min(ranges % count, i), std::memory_order_relaxed);
    section.end = ranges / count * (i + 1) + std::min(ranges % count, i + 1);
  }
  gate_.exchange((gate_.load(std::memory_order_relaxed) / kNumber + 1) * kNumber | kOpen);
  if (sleeping_.load() > 0) {
    {
      const std::scoped_lock lock(mutex_);
      for (std::size_t i = 0; i < seats_.size(); ++i) seats_[i].keep_off_this_core(workers_[i]);
    }
    start_.notify_all();
  }
  work(0);
  // Nothing is left to begin: wait for the workers that are inside, not for those that are still waking up.
  gate_.fetch_and(~kOpen);
  const auto done = [this] { return (gate_.load() & kInside) == 0; };
  if (came_soon(done)) return;
  std::unique_lock lock(mutex_);
  caller_sleeps_.exchange(true);
  finished_.wait(lock, done);
  caller_sleeps_.store(false);
}

void ThreadPool::work(int worker) {
  const Loop loop = loop_;
  const std::size_t count = sections_.size();
  for (std::size_t i = 0; i < count; ++i) {
    Section& section = sections_[(static_cast<std::size_t>(worker) + i) % count];
    while (section.next.load(std::memory_order_relaxed) < section.end) {
      const std::int64_t range = section.next.fetch_add(1, std::memory_order_relaxed);
      if (range >= section.end) break;
      const std::int64_t first = range * loop.grain;
      loop.call(loop.body, first, std::min(first + loop.grain, loop.items), worker);
    }
  }
}

// Whether there is a loop that a worker which has `seen` one may enter.
bool ThreadPool::waits_for(std::uint64_t seen) const noexcept {
  const std::uint64_t gate = gate_.load();
  return (gate & kOpen) != 0 && gate / kNumber != seen;
}

// Enters the loop that is open; false where none is, or the one that was seen.
bool ThreadPool::enter(std::uint64_t& seen) noexcept {
  std::uint64_t gate = gate_.load();
  while ((gate & kOpen) != 0 && gate / kNumber != seen) {
    if (!gate_.compare_exchange_weak(gate, gate + 1)) continue;
    seen = gate / kNumber;
    return true;
  }
  return false;
}

void ThreadPool::leave() noexcept {
  const bool last = (gate_.fetch_sub(1) & kInside) == 1;
  if (!last || !caller_sleeps_.load()) return;
  { const std::scoped_lock lock(mutex_); }
  finished_.notify_one();
}

void ThreadPool::worker_main(int worker) {
  std::uint64_t seen = 0;
  const auto wanted = [&] { return stopping_.load() || waits_for(seen); };
  while (true) {
    if (!came_soon(wanted)) {
      std::unique_lock lock(mutex_);
      Seat& seat = seats_[static_cast<std::size_t>(worker - 1)];
      seat.sleeps();
      sleeping_.fetch_add(1);
      start_.wait(lock, wanted);
      sleeping_.fetch_sub(1);
      seat.is_awake();
    }
    if (stopping_.load()) return;
    if (!enter(seen)) continue;
    work(worker);
    leave();
  }
}

}  // namespace mobicuda::cpu
