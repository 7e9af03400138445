#include "baselines/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

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

#ifdef __linux__

namespace {

cpu_set_t allowed_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  REQUIRE(pthread_getaffinity_np(pthread_self(), sizeof cores, &cores) == 0);
  return cores;
}

void stay_on(const cpu_set_t& cores) { REQUIRE(pthread_setaffinity_np(pthread_self(), sizeof cores, &cores) == 0); }

}  // namespace

TEST_CASE("thread pool: a worker that slept takes part beside a caller that stays on a core, and may run anywhere") {
  const cpu_set_t all = allowed_cores();
  if (CPU_COUNT(&all) < 2) MOBICUDA_SKIP("needs two cores");
  ThreadPool pool(2);
  // The caller stays on one core, the worker where it may: on both.
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  stay_on(one);
  std::atomic<int> restricted{0};
  std::atomic<int> woken{0};
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the worker looks for 100 us, then it sleeps
    std::atomic<int> inside{0};
    pool.for_ranges(2, 1, [&](std::int64_t, std::int64_t, int worker) {
      if (worker == 1) {
        ++woken;
        cpu_set_t mine;
        CPU_ZERO(&mine);
        if (pthread_getaffinity_np(pthread_self(), sizeof mine, &mine) != 0 || !CPU_EQUAL(&mine, &all)) ++restricted;
      }
      // Each waits for the other a while, so that both take part.
      ++inside;
      const auto start = std::chrono::steady_clock::now();
      while (inside < 2 && std::chrono::steady_clock::now() - start < std::chrono::milliseconds(200)) {
        std::this_thread::yield();
      }
    });
  }
  stay_on(all);
  CHECK(woken > 0);
  CHECK(restricted == 0);
}

TEST_CASE("thread pool: a seat keeps a sleeping thread off the core of the one that wakes it, and no other thread") {
  const cpu_set_t all = allowed_cores();
  if (CPU_COUNT(&all) < 2) MOBICUDA_SKIP("needs two cores");
  mobicuda::cpu::Seat seat;
  std::atomic<int> step{0};
  const auto wait_for = [&](int value) {
    while (step != value) std::this_thread::yield();
  };
  cpu_set_t awake;
  CPU_ZERO(&awake);
  std::thread sleeper([&] {
    wait_for(1);
    seat.is_awake();
    pthread_getaffinity_np(pthread_self(), sizeof awake, &awake);
  });
  const auto cores_of = [&] {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    REQUIRE(pthread_getaffinity_np(sleeper.native_handle(), sizeof cores, &cores) == 0);
    return cores;
  };
  seat.keep_off_this_core(sleeper);  // it does not sleep
  cpu_set_t cores = cores_of();
  CHECK(CPU_EQUAL(&cores, &all));
  seat.sleeps();
  int checked = 0;
  for (int core = 0; core < CPU_SETSIZE && checked < 4; ++core) {  // the one that wakes it has moved meanwhile
    if (!CPU_ISSET(core, &all)) continue;
    ++checked;
    CAPTURE(core);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    stay_on(one);
    seat.keep_off_this_core(sleeper);
    cores = cores_of();
    CHECK(!CPU_ISSET(core, &cores));
    CHECK(CPU_COUNT(&cores) == CPU_COUNT(&all) - 1);
  }
  stay_on(all);
  step = 1;
  sleeper.join();
  CHECK(CPU_EQUAL(&awake, &all));
}

#endif
