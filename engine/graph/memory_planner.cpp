#include "graph/memory_planner.h"

#include <algorithm>
#include <bit>
#include <cstddef>
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

// The requests that have a place already, found by when they live: a network of n layers has n of them, of which few
// live at the same time.
class Placed {
 public:
  Placed(std::span<const BufferRequest> requests, std::span<const std::int64_t> offsets)
      : requests_(requests), offsets_(offsets), turn_(requests.size(), 0) {
    for (const BufferRequest& request : requests) starts_.push_back(request.first_step);
    std::sort(starts_.begin(), starts_.end());
    starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
    leaves_ = std::bit_ceil(std::max<std::size_t>(starts_.size(), 1));
    covering_.resize(2 * leaves_);
    starting_.resize(starts_.size());
  }

  /// After its offset is known.
  void add(std::size_t request) {
    turn_[request] = added_++;
    waiting_.push_back(request);
    const Life life = life_of(request);
    starting_[life.first].push_back(request);
    std::size_t from = life.first + leaves_;
    for (std::size_t to = life.last + 1 + leaves_; from < to; from /= 2, to /= 2) {
      if (from % 2 == 1) covering_[from++].push_back(request);
      if (to % 2 == 1) covering_[--to].push_back(request);
    }
  }

  /// Those that live at the same time as `request`, by offset; of equal offsets, the one that came first.
  std::span<const std::size_t> beside(std::size_t request) {
    found_.clear();
    const Life life = life_of(request);
    // Those that live when it starts, and those that start while it lives.
    for (std::size_t at = life.first + leaves_; at > 0; at /= 2) append(covering_[at]);
    for (std::size_t start = life.first + 1; start <= life.last && few(); ++start) append(starting_[start]);
    if (few()) {
      sort(found_);
    } else {
      found_.clear();
      const BufferRequest& mine = requests_[request];
      for (const std::size_t other : all()) {
        const BufferRequest& theirs = requests_[other];
        if (theirs.first_step <= mine.last_step && mine.first_step <= theirs.last_step) found_.push_back(other);
      }
    }
    return found_;
  }

 private:
  // From the start at that position of starts_ to the one before which it ends.
  struct Life {
    std::size_t first, last;
  };

  Life life_of(std::size_t request) const {
    const auto position = [&](int step) {
      return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), step) - starts_.begin()) - 1;
    };
    return {position(requests_[request].first_step), position(requests_[request].last_step)};
  }

  void append(const std::vector<std::size_t>& requests) {
    found_.insert(found_.end(), requests.begin(), requests.end());
  }

  // Few enough that to sort them costs less than to look at all.
  bool few() const { return found_.size() <= 64 + added_ / 64; }

  // In the order of beside().
  void sort(std::vector<std::size_t>& requests) const {
    std::sort(requests.begin(), requests.end(), [this](std::size_t a, std::size_t b) { return before(a, b); });
  }

  bool before(std::size_t a, std::size_t b) const {
    return offsets_[a] != offsets_[b] ? offsets_[a] < offsets_[b] : turn_[a] < turn_[b];
  }

  // All of them, in that order. Where one was added since the last time, a search for its place is the fastest.
  std::span<const std::size_t> all() {
    const auto order = [this](std::size_t a, std::size_t b) { return before(a, b); };
    if (waiting_.size() == 1) {
      sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), waiting_.front(), order), waiting_.front());
    } else {
      const auto old = static_cast<std::ptrdiff_t>(sorted_.size());
      sort(waiting_);
      sorted_.insert(sorted_.end(), waiting_.begin(), waiting_.end());
      std::inplace_merge(sorted_.begin(), sorted_.begin() + old, sorted_.end(), order);
    }
    waiting_.clear();
    return sorted_;
  }

  std::span<const BufferRequest> requests_;
  std::span<const std::int64_t> offsets_;
  std::vector<std::size_t> turn_;  // of each request, among those added
  std::size_t added_ = 0;
  std::vector<int> starts_;  // the steps at which requests start, each once
  std::size_t leaves_ = 1;
  std::vector<std::vector<std::size_t>> covering_;  // a segment tree over starts_: node i covers what 2i and 2i + 1 do
  std::vector<std::vector<std::size_t>> starting_;  // at each of starts_
  std::vector<std::size_t> sorted_;                 // brought up to date when they are needed
  std::vector<std::size_t> waiting_;                // to be sorted in
  std::vector<std::size_t> found_;
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
  Placed placed(requests, plan.offsets);
  for (const std::size_t current : order) {
    const std::int64_t bytes = aligned(requests[current].bytes);
    std::int64_t best_offset = -1;
    std::int64_t best_gap = 0;
    std::int64_t end_of_previous = 0;
    for (const std::size_t other : placed.beside(current)) {
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
    placed.add(current);
  }
  return plan;
}

}  // namespace mobicuda
