#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "stream/assignment.h"
#include "stream/items.h"

namespace mobicuda::stream {

/// Deals the items of a stream to workers: units of one model each, as large as a worker does in about a second by
/// what was measured of it, smaller towards the end, so that all end together. What a worker gives back goes to the
/// others. Thread-safe.
class Schedule {
 public:
  struct Options {
    Item items = 0;
    std::size_t batch = 1;
    bool one_batch = false;  ///< units are a batch each
    std::size_t workers = 1;
    std::function<bool(Item)> was_done;  ///< items that are left out
  };

  Schedule(Options options, std::size_t models, Assignment assignment);

  /// What worker `worker` is to do next. Waits while there is nothing left but what others have in hand, as they may
  /// give it back. Nothing: all is done, or stop() was called.
  std::optional<Unit> next(std::size_t worker);
  /// The worker did its unit, in so many seconds.
  void finish(std::size_t worker, const Unit& unit, double seconds);
  /// The worker takes no more units; `left` of its last one are for others.
  void leave(Unit left);
  /// No more units, for anybody.
  void stop();

 private:
  std::size_t wanted(std::size_t worker, std::size_t model) const;
  void take_one();
  void look_ahead(std::size_t model, std::size_t count);
  std::optional<std::size_t> model_with_first_item() const;

  Options options_;
  Assignment assignment_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Item next_item_ = 0;
  std::vector<std::deque<Item>> waiting_;  ///< by model, in the stream's order
  std::size_t waiting_count_ = 0;
  std::vector<std::vector<double>> rates_;  ///< items a second, by worker and model; 0: not measured
  std::size_t in_hand_ = 0;                 ///< units
  bool stopped_ = false;
};

}  // namespace mobicuda::stream
