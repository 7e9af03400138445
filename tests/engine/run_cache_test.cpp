#include "runtime/run_cache.h"

#include <random>

#include "support/catch.h"

namespace mobicuda {
namespace {

constexpr std::size_t kCapacity = 64;
constexpr std::uint64_t kPatience = 1000;

// As a session uses it; what is kept for a run is the run's own number.
class Runs {
 public:
  // Whether the run was there already.
  bool replayed(int run) {
    if (const int* kept = cache_.find(run)) {
      CHECK(*kept == run);
      return true;
    }
    if (cache_.admits(run)) {
      CHECK(cache_.add(run, run) == run);
      ++captures_;
    }
    return false;
  }

  int captures() const { return captures_; }

 private:
  RunCache<int, int> cache_{kCapacity, kPatience};
  int captures_ = 0;
};

TEST_CASE("captured runs: as many as there is room for are captured once each") {
  Runs runs;
  for (int round = 0; round < 3; ++round) {
    for (int run = 0; run < static_cast<int>(kCapacity); ++run) CHECK(runs.replayed(run) == (round > 0));
  }
  CHECK(runs.captures() == static_cast<int>(kCapacity));
}

TEST_CASE("captured runs: a few more than there is room for are not captured anew") {
  Runs runs;
  constexpr int kRuns = static_cast<int>(kCapacity) + 1;
  int replayed = 0;
  for (int round = 0; round < 100; ++round) {
    for (int run = 0; run < kRuns; ++run) replayed += static_cast<int>(runs.replayed(run));
  }
  CHECK(runs.captures() == static_cast<int>(kCapacity));
  CHECK(replayed == 99 * static_cast<int>(kCapacity));
}

TEST_CASE("captured runs: runs that never come back take no place once the cache is full") {
  Runs runs;
  for (int run = 0; run < 100'000; ++run) CHECK_FALSE(runs.replayed(run));
  CHECK(runs.captures() == static_cast<int>(kCapacity));
}

TEST_CASE("captured runs: drawn from twice as many as there is room for, captures are rare") {
  Runs runs;
  std::mt19937 random(1);
  constexpr int kRuns = 100'000;
  int replayed = 0;
  for (int i = 0; i < kRuns; ++i) {
    replayed += static_cast<int>(runs.replayed(static_cast<int>(random() % (2 * kCapacity))));
  }
  CHECK(runs.captures() < static_cast<int>(kCapacity) + kRuns / 100);
  CHECK(replayed > kRuns / 3);
}

TEST_CASE("captured runs: new ones that come back replace those that do not") {
  Runs runs;
  for (int run = 0; run < static_cast<int>(kCapacity); ++run) runs.replayed(run);
  constexpr int kStays = 7;
  constexpr int kNew = 1000;
  // Refused until the first that is not used any more has rested long enough.
  for (std::uint64_t i = 0; i < kPatience - kCapacity; ++i) {
    CHECK(runs.replayed(i % 2 == 0 ? kStays : kNew) == (i % 2 == 0));
  }
  for (int i = 0; i < 200; ++i) {
    runs.replayed(kNew);
    runs.replayed(kStays);
  }
  CHECK(runs.captures() == static_cast<int>(kCapacity) + 1);
  CHECK(runs.replayed(kNew));
  CHECK(runs.replayed(kStays));
}

}  // namespace
}  // namespace mobicuda
