#include "baselines/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/catch.h"

using mobicuda::cpu::ThreadPool;

namespace {

using std::chrono::microseconds;

// How often each item came, which workers are in the body, and how many ranges had a wrong size or a worker that was in
// it already.
struct Seen {
  Seen(std::int64_t count, int threads)
      : items(static_cast<std::size_t>(count)), busy(static_cast<std::size_t>(threads)) {}

  bool each_once() const {
    return std::ranges::all_of(items, [](const auto& count) { return count == 1; });
  }

  std::vector<std::atomic<int>> items;
  std::vector<std::atomic<int>> busy;
  std::atomic<int> wrong{0};
};

void loop(ThreadPool& pool, std::int64_t items, std::int64_t grain, Seen& seen, microseconds work = {}) {
  pool.for_ranges(items, grain, [&](std::int64_t first, std::int64_t last, int worker) {
    std::atomic<int>& busy = seen.busy.at(static_cast<std::size_t>(worker));
    if (busy.fetch_add(1) != 0 || last - first < 1 || (last - first > grain && pool.threads() > 1)) ++seen.wrong;
    for (std::int64_t i = first; i < last; ++i) ++seen.items.at(static_cast<std::size_t>(i));
    if (work.count() > 0) std::this_thread::sleep_for(work);
    --busy;
  });
}

}  // namespace

TEST_CASE("thread pool: every item comes once, however the loop is cut") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const std::int64_t items : {0, 1, 2, 7, 8, 9, 100, 1001}) {
      for (const std::int64_t grain : {1, 2, 3, 100, 2000}) {
        CAPTURE(threads, items, grain);
        Seen seen(items, threads);
        loop(pool, items, grain, seen);
        CHECK(seen.each_once());
        CHECK(seen.wrong == 0);
      }
    }
  }
}

TEST_CASE("thread pool: loops begin and end, whoever sleeps meanwhile") {
  // Workers sleep after 100 us without a loop, and so does the caller where others are not through: pauses and work
  // around that.
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Seen seen(kThreads + 1, kThreads);
    loop(pool, kThreads + 1, 1, seen, microseconds(round % 4 == 3 ? 250 : 0));
    REQUIRE(seen.each_once());
    REQUIRE(seen.wrong == 0);
    if (round % 2 == 1) std::this_thread::sleep_for(microseconds(70 + round % 90));
  }
}
