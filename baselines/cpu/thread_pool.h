#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "baselines/cpu/seat.h"

namespace mobicuda::cpu {

/// Splits loops over a fixed set of threads, of which the caller is one. Workers look for the next loop for 100 us,
/// then sleep on a condition variable, and wake up on other cores than the caller's; while they look, a loop takes no
/// lock. One caller at a time; for_ranges()
/// allocates nothing and must not be nested.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller. Throws Error(out_of_memory) when the system gives no more threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(first, last, worker) for consecutive ranges of at most `grain` items that cover 0..items, in no
  /// particular order, and waits for all of them; one thread has them as one range. A worker begins with those that lie
  /// where it lies among the workers. 0 <= worker < threads() is unique among concurrent calls. `body` must not throw,
  /// and its result must not depend on how the ranges are cut.
  template <class Body>
  void for_ranges(std::int64_t items, std::int64_t grain, const Body& body) {
    run({[](const void* object, std::int64_t first, std::int64_t last, int worker) {
           (*static_cast<const Body*>(object))(first, last, worker);
         },
         &body, items, grain});
  }

 private:
  struct Loop {
    void (*call)(const void*, std::int64_t, std::int64_t, int) = nullptr;
    const void* body = nullptr;
    std::int64_t items = 0;
    std::int64_t grain = 1;
  };

  // Ranges of a loop that a thread begins with, so that it finds in its own cache what it left there in the loop
  // before; those who are through take what is left of the others'. On a cache line of its own, more or less.
  struct Section {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
    char padding[64 - 2 * sizeof(std::int64_t)];
  };

  // Of gate_: how many workers are inside the loop, whether there may be work for one that comes, and its number.
  static constexpr std::uint64_t kInside = 0xFFFF;
  static constexpr std::uint64_t kOpen = kInside + 1;
  static constexpr std::uint64_t kNumber = kOpen << 1U;

  void run(const Loop& loop);
  void work(int worker);
  void worker_main(int worker);
  bool waits_for(std::uint64_t seen) const noexcept;
  bool enter(std::uint64_t& seen) noexcept;
  void leave() noexcept;
  void stop() noexcept;

  std::atomic<std::uint64_t> gate_{0};
  Loop loop_;  // written while the gate is shut and nobody is inside
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable finished_;
  std::vector<Section> sections_;  // of loop_, one for each thread
  // Who sleeps: each is set before the gate is looked at for the last time, and read after the gate was changed, all of
  // it in one order (seq_cst), so that either the one is seen or the other. By exchanges: a load may pass a
  // store in emulators of ARM64 that translate the two one by one; under QEMU all threads once slept for good.
  std::atomic<int> sleeping_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stopping_{false};
  std::vector<Seat> seats_;  // of workers_; under mutex_
  std::vector<std::thread> workers_;
};

}  // namespace mobicuda::cpu
