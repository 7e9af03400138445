#include "graph/memory_planner.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

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

struct Range {
  std::int64_t begin, end;
};

// Addresses that are taken: ranges in rising order that neither overlap nor touch, few where buffers lie side by side.
class Taken {
 public:
  void add(Range range) {
    const auto first = std::lower_bound(ranges_.begin(), ranges_.end(), range.begin,
                                        [](const Range& one, std::int64_t begin) { return one.end < begin; });
    auto last = first;
    for (; last != ranges_.end() && last->begin <= range.end; ++last) {
      range = {std::min(range.begin, last->begin), std::max(range.end, last->end)};
    }
    if (first == last) {
      ranges_.insert(first, range);
    } else {
      *first = range;
      ranges_.erase(first + 1, last);
    }
  }

  const std::vector<Range>& ranges() const noexcept { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// The addresses of the requests that have a place already, found by when these live: of a network of n layers each of
// n buffers is looked for, and neither few nor many that live at the same time may make that n times n.
class Placed {
 public:
  explicit Placed(std::span<const BufferRequest> requests) {
    for (const BufferRequest& request : requests) starts_.push_back(request.first_step);
    std::sort(starts_.begin(), starts_.end());
    starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
    leaves_ = std::bit_ceil(std::max<std::size_t>(starts_.size(), 1));
    covering_.resize(2 * leaves_);
    touching_.resize(2 * leaves_);
  }

  void add(const BufferRequest& request, Range addresses) {
    const Life life = life_of(request);
    for_each_part(life, [&](std::size_t node) {
      covering_[node].add(addresses);
      touching_[node].add(addresses);
    });
    for_each_around(life, [&](std::size_t node) { touching_[node].add(addresses); });
  }

  /// The begin of the smallest gap of at least so many bytes between those that live at the same time as `request`, the
  /// lowest of equal ones; where there is none, their end.
  std::int64_t best_fit(const BufferRequest& request, std::int64_t bytes) {
    const Life life = life_of(request);
    lists_.clear();
    for_each_part(life, [&](std::size_t node) { add_list(touching_[node]); });
    for_each_around(life, [&](std::size_t node) { add_list(covering_[node]); });
    std::int64_t end = 0;
    for (const std::span<const Range> list : lists_) end = std::max(end, list.back().end);
    std::make_heap(lists_.begin(), lists_.end(), begins_later);
    std::int64_t best_offset = end;
    std::int64_t best_gap = std::numeric_limits<std::int64_t>::max();
    std::int64_t end_of_previous = 0;
    for (int looked_at = 0; !lists_.empty() && looked_at < kMostRanges; ++looked_at) {
      const Range taken = next();
      const std::int64_t gap = taken.begin - end_of_previous;
      if (gap >= bytes && gap < best_gap) {
        best_offset = end_of_previous;
        best_gap = gap;
      }
      if (best_gap == bytes) break;
      end_of_previous = std::max(end_of_previous, taken.end);
    }
    return best_offset;
  }

 private:
  // Looked at for each buffer, so that a network made to have gaps everywhere is planned in time as well. Buffers that
  // lie side by side are one range.
  static constexpr int kMostRanges = 512;

  // From the start at that position of starts_ to the one before which it ends.
  struct Life {
    std::size_t first, last;
  };

  Life life_of(const BufferRequest& request) const {
    const auto position = [&](int step) {
      return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), step) - starts_.begin()) - 1;
    };
    return {position(request.first_step), position(request.last_step)};
  }

  // The largest nodes of the tree that make up a life together.
  template <class Visit>
  void for_each_part(const Life& life, Visit&& visit) const {
    std::size_t from = life.first + leaves_;
    for (std::size_t to = life.last + 1 + leaves_; from < to; from /= 2, to /= 2) {
      if (from % 2 == 1) visit(from++);
      if (to % 2 == 1) visit(--to);
    }
  }

  // The nodes over its first and its last start. Those below a part are among them, and hold it as well.
  template <class Visit>
  void for_each_around(const Life& life, Visit&& visit) const {
    for (std::size_t first = life.first + leaves_, last = life.last + leaves_; first > 0; first /= 2, last /= 2) {
      visit(first);
      if (last != first) visit(last);
    }
  }

  void add_list(const Taken& taken) {
    if (!taken.ranges().empty()) lists_.emplace_back(taken.ranges());
  }

  static bool begins_later(std::span<const Range> a, std::span<const Range> b) {
    return a.front().begin > b.front().begin;
  }

  // The range of all lists that begins first, taken out of its list.
  Range next() {
    std::pop_heap(lists_.begin(), lists_.end(), begins_later);
    const Range range = lists_.back().front();
    lists_.back() = lists_.back().subspan(1);
    if (lists_.back().empty()) {
      lists_.pop_back();
    } else {
      std::push_heap(lists_.begin(), lists_.end(), begins_later);
    }
    return range;
  }

  std::vector<int> starts_;  // the steps at which requests start, each once
  std::size_t leaves_ = 1;
  // A segment tree over starts_: node i is over what 2i and 2i + 1 are over.
  std::vector<Taken> covering_;  // by those that live at all of a node's starts, and were not left to the node above
  std::vector<Taken> touching_;  // by those that live at any of them, but for those left to a node above
  std::vector<std::span<const Range>> lists_;  // a heap: the first one begins first
};

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
  Placed placed(requests);
  for (const std::size_t current : order) {
    const std::int64_t bytes = aligned(requests[current].bytes);
    if (bytes == 0) continue;  // lies anywhere
    plan.offsets[current] = placed.best_fit(requests[current], bytes);
    std::int64_t end = 0;
    if (__builtin_add_overflow(plan.offsets[current], bytes, &end)) {
      throw Error(ErrorCode::invalid_argument, "arena", "the buffers' sizes overflow");
    }
    plan.arena_bytes = std::max(plan.arena_bytes, end);
    placed.add(requests[current], {plan.offsets[current], end});
  }
  return plan;
}

}  // namespace mobicuda
