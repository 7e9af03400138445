#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace mobicuda::pictures {

/// Time that several threads spend on one thing, added up.
class Stopwatch {
 public:
  /// Runs while it lives.
  class Span {
   public:
    explicit Span(Stopwatch& watch) : watch_(watch) {}
    ~Span() { watch_.add(std::chrono::steady_clock::now() - start_); }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Stopwatch& watch_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  };

  void add(std::chrono::nanoseconds time) noexcept { nanoseconds_.fetch_add(time.count(), std::memory_order_relaxed); }
  double ms() const noexcept { return static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) / 1e6; }

 private:
  std::atomic<std::int64_t> nanoseconds_{0};
};

}  // namespace mobicuda::pictures
