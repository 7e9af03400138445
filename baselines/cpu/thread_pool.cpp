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

ThreadPool::ThreadPool(int threads) {
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
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
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
  {
    const std::scoped_lock lock(mutex_);
    loop_ = loop;
    next_.store(0, std::memory_order_relaxed);
    open_ = true;
    ++generation_;
  }
  start_.notify_all();
  work(loop, 0);
  // Nothing is left to begin: wait for the workers that are inside, not for those that are still waking up.
  {
    const std::scoped_lock lock(mutex_);
    open_ = false;
  }
  const auto done = [this] { return active_.load(std::memory_order_acquire) == 0; };
  if (came_soon(done)) return;
  std::unique_lock lock(mutex_);
  finished_.wait(lock, done);
}

void ThreadPool::work(const Loop& loop, int worker) {
  while (true) {
    const std::int64_t first = next_.fetch_add(loop.grain, std::memory_order_relaxed);
    if (first >= loop.items) return;
    loop.call(loop.body, first, std::min(first + loop.grain, loop.items), worker);
  }
}

void ThreadPool::worker_main(int worker) {
  std::uint64_t seen = 0;
  while (true) {
    Loop loop;
    static_cast<void>(came_soon([&] { return generation_.load(std::memory_order_relaxed) != seen; }));
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || (open_ && generation_ != seen); });
      if (stopping_) return;
      seen = generation_;
      ++active_;
      loop = loop_;
    }
    work(loop, worker);
    {
      const std::scoped_lock lock(mutex_);
      active_.fetch_sub(1, std::memory_order_release);
    }
    finished_.notify_one();
  }
}

}  // namespace mobicuda::cpu
