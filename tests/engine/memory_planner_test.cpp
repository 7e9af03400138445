#include "graph/memory_planner.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include <mobicuda/error.h>

#include "support/catch.h"

namespace mobicuda {
namespace {

bool alive_together(const BufferRequest& a, const BufferRequest& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

void check_valid(const std::vector<BufferRequest>& requests, const MemoryPlan& plan) {
  REQUIRE(plan.offsets.size() == requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CHECK(plan.offsets[i] % kBufferAlignment == 0);
    CHECK(plan.offsets[i] + requests[i].bytes <= plan.arena_bytes);
    for (std::size_t j = i + 1; j < requests.size(); ++j) {
      if (!alive_together(requests[i], requests[j]) || requests[i].bytes == 0 || requests[j].bytes == 0) continue;
      const bool apart = plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + requests[j].bytes <= plan.offsets[i];
      CAPTURE(i, j);
      CHECK(apart);
    }
  }
}

TEST_CASE("buffers that never meet share memory") {
  const std::vector<BufferRequest> chain{{1024, 0, 1}, {512, 1, 2}, {1024, 2, 3}, {512, 3, 4}};
  const MemoryPlan plan = plan_memory(chain);
  check_valid(chain, plan);
  CHECK(plan.arena_bytes == 1536);  // the largest pair that is live at once
}

TEST_CASE("no two live buffers overlap in 500 random plans, and the peak is a lower bound") {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    std::vector<BufferRequest> requests(random() % 40);
    for (BufferRequest& request : requests) {
      request.bytes = static_cast<std::int64_t>(random() % 5000);
      request.first_step = static_cast<int>(random() % 30);
      request.last_step = request.first_step + static_cast<int>(random() % 6);
    }
    const MemoryPlan plan = plan_memory(requests);
    check_valid(requests, plan);
    for (int step = 0; step < 36; ++step) {
      std::int64_t live = 0;
      for (const BufferRequest& request : requests) {
        if (request.first_step <= step && step <= request.last_step) live += request.bytes;
      }
      CHECK(live <= plan.arena_bytes);
    }
  }
}

// Greedy by size, best fit, by looking at all that were placed before.
std::vector<std::int64_t> plain_offsets(const std::vector<BufferRequest>& requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<std::int64_t> offsets(requests.size(), 0);
  std::vector<std::size_t> placed;
  const auto aligned = [](std::int64_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * 256; };
  for (const std::size_t current : order) {
    if (requests[current].bytes == 0) continue;
    std::int64_t best = -1;
    std::int64_t best_gap = 0;
    std::int64_t end = 0;
    for (const std::size_t other : placed) {
      if (!alive_together(requests[other], requests[current])) continue;
      const std::int64_t gap = offsets[other] - end;
      if (gap >= aligned(requests[current].bytes) && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, offsets[other] + aligned(requests[other].bytes));
    }
    offsets[current] = best >= 0 ? best : end;
    placed.push_back(current);
    std::stable_sort(placed.begin(), placed.end(),
                     [&](std::size_t a, std::size_t b) { return offsets[a] < offsets[b]; });
  }
  return offsets;
}

TEST_CASE("places are those of a search among all buffers, whether few or many live together") {
  std::mt19937 random(5);
  for (const auto& [count, steps, longest] :
       {std::array{300, 300, 3}, std::array{300, 100, 40}, std::array{600, 600, 600}, std::array{400, 5, 2}}) {
    for (int round = 0; round < 5; ++round) {
      CAPTURE(count, steps, longest, round);
      std::vector<BufferRequest> requests(static_cast<std::size_t>(count));
      for (BufferRequest& request : requests) {
        request.bytes = static_cast<std::int64_t>(random() % 4 * (random() % 3000));
        request.first_step = static_cast<int>(random() % static_cast<unsigned>(steps)) * 3 - 7;
        request.last_step = request.first_step + static_cast<int>(random() % static_cast<unsigned>(longest));
      }
      CHECK(plan_memory(requests).offsets == plain_offsets(requests));
    }
  }
}

TEST_CASE("impossible requests are refused") {
  CHECK_THROWS_AS(plan_memory(std::vector<BufferRequest>{{-1, 0, 0}}), Error);
  CHECK_THROWS_AS(plan_memory(std::vector<BufferRequest>{{1, 2, 1}}), Error);
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK_THROWS_AS(plan_memory(std::vector<BufferRequest>{{huge, 0, 1}, {huge, 0, 1}, {huge, 0, 1}}), Error);
  CHECK(plan_memory({}).arena_bytes == 0);
}

}  // namespace
}  // namespace mobicuda
