#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mobicuda {

/// Which of the runs that a session meets are kept captured. Capturing one costs as much as tens of replays, so that a
/// run which may not come back must not take the place of one that does: once the cache is full, a run gets in only
/// when it was refused not long ago and the run to give way was not asked for during the last `patience` others.
template <class Key, class Value>
class RunCache {
 public:
  RunCache(std::size_t capacity, std::uint64_t patience) : capacity_(capacity), patience_(patience) {}

  /// What is kept for a run; null where nothing is. To be called for each run, before admits().
  const Value* find(const Key& key) {
    ++runs_;
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& known) { return known.key == key; });
    if (slot == slots_.end()) return nullptr;
    slot->last_run = runs_;
    return &slot->value;
  }

  /// Whether a run that find() did not find is to be kept.
  bool admits(const Key& key) {
    if (slots_.size() < capacity_) return true;
    const bool came_back = std::find(refused_.begin(), refused_.end(), key) != refused_.end();
    if (came_back && runs_ - longest_unused()->last_run > patience_) return true;
    if (!came_back) refuse(key);
    return false;
  }

  /// Keeps what find() did not find, with no room left in the place of the run that rested longest. Only where
  /// admits(key), or the caller knows better.
  const Value& add(Key key, Value value) {
    if (slots_.size() == capacity_) slots_.erase(longest_unused());
    slots_.push_back({std::move(key), std::move(value), runs_});
    return slots_.back().value;
  }

 private:
  struct Slot {
    Key key;
    Value value;
    std::uint64_t last_run;
  };

  typename std::vector<Slot>::iterator longest_unused() {
    return std::min_element(slots_.begin(), slots_.end(),
                            [](const Slot& a, const Slot& b) { return a.last_run < b.last_run; });
  }

  void refuse(const Key& key) {
    if (refused_.size() < capacity_) {
      refused_.push_back(key);
    } else {
      refused_[oldest_refused_] = key;
      oldest_refused_ = (oldest_refused_ + 1) % capacity_;
    }
  }

  std::size_t capacity_;
  std::uint64_t patience_;
  std::uint64_t runs_ = 0;
  std::vector<Slot> slots_;
  std::vector<Key> refused_;  ///< the last `capacity` of them
  std::size_t oldest_refused_ = 0;
};

}  // namespace mobicuda
