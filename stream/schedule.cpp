#include "stream/schedule.h"

#include <algorithm>
#include <utility>

namespace mobicuda::stream {
namespace {

constexpr double kUnitSeconds = 1;
constexpr std::size_t kFirstBatches = 8;         // of a worker that was not measured
constexpr std::size_t kMostUnit = 1U << 16U;     // items
constexpr std::size_t kMostWaiting = 1U << 20U;  // items that were looked at; one of each model may come beyond

}  // namespace

Schedule::Schedule(Options options, std::size_t models, Assignment assignment)
    : options_(std::move(options)),
      assignment_(std::move(assignment)),
      waiting_(models),
      rates_(options_.workers, std::vector<double>(models)) {}

std::size_t Schedule::wanted(std::size_t worker, std::size_t model) const {
  if (options_.one_batch) return options_.batch;
  const double rate = rates_[worker][model];
  const double by_rate = rate > 0 ? rate * kUnitSeconds : static_cast<double>(kFirstBatches * options_.batch);
  // Half of a fair share of what is left, so that nobody ends long after the others.
  const double left = static_cast<double>(options_.items - next_item_) + static_cast<double>(waiting_count_);
  const double fair = left / static_cast<double>(2 * options_.workers);
  const double count = std::clamp(std::min(by_rate, fair), 1.0, static_cast<double>(kMostUnit));
  const std::size_t batches = (static_cast<std::size_t>(count) + options_.batch - 1) / options_.batch;
  return std::min(batches * options_.batch, kMostUnit);
}

// Takes items from the stream until `count` wait for the model.
void Schedule::look_ahead(std::size_t model, std::size_t count) {
  while (next_item_ < options_.items && waiting_[model].size() < count && waiting_count_ < kMostWaiting) {
    take_one();
  }
}

// The next item of the stream waits for its model now, unless it was done.
void Schedule::take_one() {
  const Item item = next_item_++;
  if (options_.was_done && options_.was_done(item)) return;
  waiting_[assignment_.model_of(item)].push_back(item);
  ++waiting_count_;
}

std::optional<std::size_t> Schedule::model_with_first_item() const {
  std::optional<std::size_t> first;
  for (std::size_t model = 0; model < waiting_.size(); ++model) {
    if (waiting_[model].empty()) continue;
    if (!first || waiting_[model].front() < waiting_[*first].front()) first = model;
  }
  return first;
}

std::optional<Unit> Schedule::next(std::size_t worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopped_) return {};
    while (waiting_count_ == 0 && next_item_ < options_.items) take_one();
    if (const auto model = model_with_first_item()) {
      const std::size_t count = wanted(worker, *model);
      look_ahead(*model, count);
      std::deque<Item>& waiting = waiting_[*model];
      const auto taken = static_cast<std::ptrdiff_t>(std::min(count, waiting.size()));
      Unit unit{*model, {waiting.begin(), waiting.begin() + taken}};
      waiting.erase(waiting.begin(), waiting.begin() + taken);
      waiting_count_ -= unit.items.size();
      ++in_hand_;
      return unit;
    }
    if (in_hand_ == 0) return {};
    changed_.wait(lock);
  }
}

void Schedule::finish(std::size_t worker, const Unit& unit, double seconds) {
  const std::scoped_lock lock(mutex_);
  constexpr double kNewest = 0.5;  // its weight beside what was measured before
  double& rate = rates_[worker][unit.model];
  if (seconds > 0) {
    const double measured = static_cast<double>(unit.items.size()) / seconds;
    rate = rate > 0 ? kNewest * measured + (1 - kNewest) * rate : measured;
  }
  --in_hand_;
  changed_.notify_all();
}

void Schedule::leave(Unit left) {
  const std::scoped_lock lock(mutex_);
  std::deque<Item>& waiting = waiting_[left.model];
  waiting.insert(waiting.begin(), left.items.begin(), left.items.end());
  std::ranges::sort(waiting);
  waiting_count_ += left.items.size();
  --in_hand_;
  changed_.notify_all();
}

void Schedule::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace mobicuda::stream
