#pragma once

#include <thread>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

namespace mobicuda::cpu {

/// Where a sleeping thread wakes up. A system may start it on the core of the one that wakes it, where it waits for
/// that one's next pause, while another core is idle: with two threads every loop then takes as long as with one. Its
/// functions are called under one lock. Does nothing where the system has no such call, or does not allow it.
class Seat {
 public:
  /// By the thread itself: before it sleeps, and when it is awake, after which it may run wherever it might before.
  void sleeps() noexcept { asleep_ = true; }
  void is_awake() noexcept {
    asleep_ = false;
#ifdef __linux__
    if (kept_off_) pthread_setaffinity_np(pthread_self(), sizeof allowed_, &allowed_);
    kept_off_ = false;
#endif
  }

  /// By the one that is about to wake it: it shall not begin on this one's core, unless it is allowed no other.
  void keep_off_this_core([[maybe_unused]] std::thread& thread) noexcept {
#ifdef __linux__
    if (!asleep_) return;
    const int core = sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE) return;
    // One that was woken for nothing may be kept off another core still.
    if (!kept_off_ && pthread_getaffinity_np(thread.native_handle(), sizeof allowed_, &allowed_) != 0) return;
    cpu_set_t others = allowed_;
    CPU_CLR(core, &others);
    if (CPU_COUNT(&others) == 0) return;
    if (pthread_setaffinity_np(thread.native_handle(), sizeof others, &others) == 0) kept_off_ = true;
#endif
  }

 private:
  bool asleep_ = false;
#ifdef __linux__
  bool kept_off_ = false;
  cpu_set_t allowed_{};
#endif
};

}  // namespace mobicuda::cpu
