#include "plan/memory_planner.h"

#include <algorithm>
#include <numeric>
#include <string>

#include <mobicuda/error.h>

namespace mobicuda {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  std::int64_t padded = 0;
  if (bytes < 0 || __builtin_add_overflow(bytes, kBufferAlignment - 1, &padded)) {
    throw Error(ErrorCode::invalid_argument, "buffer", "size must be >= 0 and plausible, got " + std::to_string(bytes));
  }
  return padded / kBufferAlignment * kBufferAlignment;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferRequest> requests) {
  for (const BufferRequest& request : requests) {
    if (request.last_step < request.first_step) {
      throw Error(ErrorCode::invalid_argument, "buffer",
                  "last step " + std::to_string(request.last_step) + " is before first step " +
                      std::to_string(request.first_step));
    }
  }
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].bytes > requests[b].bytes; });

  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  std::vector<std::size_t> placed;  // sorted by offset
  for (const std::size_t current : order) {
    const std::int64_t bytes = aligned(requests[current].bytes);
    std::int64_t best_offset = -1;
    std::int64_t best_gap = 0;
    std::int64_t end_of_previous = 0;
    for (const std::size_t other : placed) {
      const bool overlaps_in_time = requests[other].first_step <= requests[current].last_step &&
                                    requests[current].first_step <= requests[other].last_step;
      if (!overlaps_in_time) continue;
      const std::int64_t gap = plan.offsets[other] - end_of_previous;
      if (gap >= bytes && (best_offset < 0 || gap < best_gap)) {
        best_offset = end_of_previous;
        best_gap = gap;
      }
      end_of_previous = std::max(end_of_previous, plan.offsets[other] + aligned(requests[other].bytes));
    }
    plan.offsets[current] = best_offset >= 0 ? best_offset : end_of_previous;
    std::int64_t end = 0;
    if (__builtin_add_overflow(plan.offsets[current], bytes, &end)) {
      throw Error(ErrorCode::invalid_argument, "arena", "the buffers' sizes overflow");
    }
    plan.arena_bytes = std::max(plan.arena_bytes, end);
    const auto position = std::upper_bound(placed.begin(), placed.end(), current, [&](std::size_t a, std::size_t b) {
      return plan.offsets[a] < plan.offsets[b];
    });
    placed.insert(position, current);
  }
  return plan;
}

}  // namespace mobicuda
