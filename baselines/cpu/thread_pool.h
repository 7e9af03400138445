#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace mobicuda::cpu {

/// Splits loops over a fixed set of threads, of which the caller is one. Workers look for the next loop for 100 us,
/// then sleep on a condition variable. One caller at a time; for_ranges() allocates nothing and must not be nested.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller. Throws Error(out_of_memory) when the system gives no more threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(first, last, worker) for consecutive ranges of at most `grain` items that cover 0..items, in no
  /// particular order, and waits for all of them. 0 <= worker < threads() is unique among concurrent calls. `body`
  /// must not throw, and its result must not depend on how the ranges are cut.
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

  void run(const Loop& loop);
  void work(const Loop& loop, int worker);
  void worker_main(int worker);
  void stop() noexcept;

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable finished_;
  Loop loop_;                                 // guarded by mutex_
  std::atomic<std::uint64_t> generation_{0};  // written under mutex_
  bool open_ = false;                         // guarded by mutex_: loop_ still has work for a worker that wakes up
  std::atomic<int> active_{0};                // written under mutex_: workers inside loop_
  bool stopping_ = false;                     // guarded by mutex_
  std::atomic<std::int64_t> next_{0};
  std::vector<std::thread> workers_;
};

}  // namespace mobicuda::cpu
