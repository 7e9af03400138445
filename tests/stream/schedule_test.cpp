#include "stream/schedule.h"

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "support/catch.h"

using namespace mobicuda::stream;

namespace {

Schedule::Options options(Item items, std::size_t workers = 1, std::size_t batch = 8) {
  return {items, batch, false, workers, {}};
}

}  // namespace

TEST_CASE("stream schedule: every item once, of its model", "[stream]") {
  constexpr Item kItems = 10'000;
  const Assignment assignment({1, 3}, 2);
  Schedule schedule(options(kItems), 2, assignment);
  std::set<Item> seen;
  while (const auto unit = schedule.next(0)) {
    REQUIRE_FALSE(unit->items.empty());
    CHECK(std::ranges::is_sorted(unit->items));
    for (const Item item : unit->items) {
      CHECK(assignment.model_of(item) == unit->model);
      CHECK(seen.insert(item).second);
    }
    schedule.finish(0, *unit, 0.01);
  }
  CHECK(seen.size() == kItems);
}

TEST_CASE("stream schedule: done ones are left out", "[stream]") {
  Schedule::Options of = options(1000);
  of.was_done = [](Item item) { return item % 3 != 0; };
  Schedule schedule(of, 1, Assignment({1}, 0));
  std::vector<Item> seen;
  while (const auto unit = schedule.next(0)) {
    seen.insert(seen.end(), unit->items.begin(), unit->items.end());
    schedule.finish(0, *unit, 0.01);
  }
  CHECK(seen.size() == 334);
  CHECK(std::ranges::all_of(seen, [](Item item) { return item % 3 == 0; }));
  of.was_done = [](Item) { return true; };
  Schedule nothing(of, 1, Assignment({1}, 0));
  CHECK_FALSE(nothing.next(0));
}

TEST_CASE("stream schedule: units follow the measured rate and end small", "[stream]") {
  Schedule schedule(options(1'000'000, 2), 1, Assignment({1}, 0));
  auto fast = schedule.next(0);
  auto slow = schedule.next(1);
  CHECK(fast->items.size() == 64);
  schedule.finish(0, *fast, 64 / 4000.0);  // 4,000 a second
  schedule.finish(1, *slow, 64 / 400.0);
  CHECK(schedule.next(0)->items.size() == 4000);
  CHECK(schedule.next(1)->items.size() == 400);

  Schedule ending(options(100, 2), 1, Assignment({1}, 0));
  std::vector<std::size_t> sizes;
  while (const auto unit = ending.next(0)) {
    sizes.push_back(unit->items.size());
    ending.finish(0, *unit, 1e-6);
  }
  CHECK(sizes.front() == 32);
  CHECK(sizes.back() <= 8);
  CHECK(*std::ranges::max_element(sizes) <= 32);
}

TEST_CASE("stream schedule: a batch at a time where models are read anew", "[stream]") {
  Schedule::Options of = options(20);
  of.one_batch = true;
  Schedule schedule(of, 1, Assignment({1}, 0));
  std::vector<std::size_t> sizes;
  while (const auto unit = schedule.next(0)) {
    sizes.push_back(unit->items.size());
    schedule.finish(0, *unit, 1e-6);
  }
  CHECK(sizes == std::vector<std::size_t>{8, 8, 4});
}

TEST_CASE("stream schedule: what a worker gives back goes to one that waits", "[stream]") {
  Schedule schedule(options(8, 2), 1, Assignment({1}, 0));
  auto unit = schedule.next(0);
  REQUIRE(unit);
  REQUIRE(unit->items.size() == 8);
  std::vector<Item> taken;
  std::thread other([&] {
    while (const auto next = schedule.next(1)) {  // waits: all is in hand
      taken.insert(taken.end(), next->items.begin(), next->items.end());
      schedule.finish(1, *next, 0.01);
    }
  });
  unit->items.erase(unit->items.begin(), unit->items.begin() + 3);
  schedule.leave(*unit);
  other.join();
  CHECK(taken == std::vector<Item>{3, 4, 5, 6, 7});
}

TEST_CASE("stream schedule: stop ends those that wait", "[stream]") {
  Schedule schedule(options(8, 2), 1, Assignment({1}, 0));
  const auto unit = schedule.next(0);
  std::thread other([&] { CHECK_FALSE(schedule.next(1)); });
  schedule.stop();
  other.join();
  CHECK_FALSE(schedule.next(0));
}

TEST_CASE("stream schedule: many models and workers side by side", "[stream]") {
  constexpr Item kItems = 20'000;
  constexpr std::size_t kWorkers = 4;
  const std::vector<double> shares(20, 1.0);
  Schedule schedule(options(kItems, kWorkers), shares.size(), Assignment(shares, 3));
  std::vector<std::vector<Item>> taken(kWorkers);
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      while (auto unit = schedule.next(worker)) {
        if (worker == 0 && taken[0].size() > 1000) {  // fails, after a part of its unit
          taken[0].push_back(unit->items.front());
          unit->items.erase(unit->items.begin());
          schedule.leave(*unit);
          return;
        }
        taken[worker].insert(taken[worker].end(), unit->items.begin(), unit->items.end());
        schedule.finish(worker, *unit, 1e-4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Item> all;
  for (const auto& some : taken) all.insert(all.end(), some.begin(), some.end());
  std::ranges::sort(all);
  REQUIRE(all.size() == kItems);
  for (Item item = 0; item < kItems; ++item) REQUIRE(all[item] == item);
}
