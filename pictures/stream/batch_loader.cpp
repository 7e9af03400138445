#include "pictures/stream/batch_loader.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "pictures/stream/thread_name.h"

namespace mobicuda::pictures {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

BatchLoader::BatchLoader(PictureSource source, const Settings& settings, Work work)
    : reader_(source.take()), settings_(settings), work_(std::move(work)) {
  for (std::size_t i = 0; i < settings.slots; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->batch.slot = i;
    slots_.back()->batch.items.resize(settings.batch);
  }
  for (std::size_t i = 0; i < settings.threads; ++i) threads_.emplace_back([this, i] { run(i); });
}

BatchLoader::~BatchLoader() { stop(); }

void BatchLoader::stop() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  room_.notify_all();
  ready_.notify_all();
}

bool BatchLoader::has_room() const {
  const Slot& slot = *slots_[filling_ % slots_.size()];
  return slot.free || (slot.batch.sequence == filling_ && !slot.claimed);
}

// How many pictures a thread takes at a time: its share of a batch, so that all threads work on one, but of pictures
// that are done in no time as many as are worth waking a thread for, in equal parts of a batch.
std::size_t BatchLoader::at_once() const {
  constexpr double kWorthwhile = 250e-6;  // seconds
  const auto batch = static_cast<double>(settings_.batch);
  const double parts = seconds_ > 0 ? std::max(1.0, std::round(batch * seconds_ / kWorthwhile)) : batch;
  const auto cheap = static_cast<std::size_t>(std::ceil(batch / parts));
  return std::max({std::size_t{1}, settings_.batch / settings_.threads / 2, cheap});
}

// Takes a few pictures of the batch that is being filled. False when there is nothing left to do. Of the threads that
// wait for room one is woken, which wakes the next one where it leaves some: as many as there is work for, and not all
// for each batch.
bool BatchLoader::claim(std::vector<std::size_t>& places, Slot*& slot, std::unique_lock<std::mutex>& lock) {
  const std::size_t most = at_once();
  for (;;) {
    ++idle_;
    room_.wait(lock, [&] { return stopped_ || ended_ || has_room(); });
    --idle_;
    if (stopped_ || ended_) return false;
    slot = slots_[filling_ % slots_.size()].get();
    Batch& batch = slot->batch;
    if (slot->free) {
      slot->free = slot->claimed = false;
      slot->waiting = 0;
      batch.sequence = filling_;
      batch.first = claimed_;
      batch.size = 0;
    }
    places.clear();
    while (places.size() < most && batch.size < settings_.batch) {
      Entry& entry = batch.items[batch.size].entry;
      entry = {};
      if (!reader_->next(entry)) {
        ended_ = true;
        break;
      }
      places.push_back(batch.size++);
      ++claimed_;
      ++slot->waiting;
    }
    slot->claimed = ended_ || batch.size == settings_.batch;
    if (slot->claimed && !ended_) ++filling_;
    if (ended_) {
      room_.notify_all();
      ready_.notify_all();
    } else if (idle_ > 0 && has_room()) {
      room_.notify_one();
    }
    if (!places.empty()) return true;
  }
}

void BatchLoader::run(std::size_t thread) {
  name_thread("pictures-read");
  std::vector<std::size_t> places;
  Slot* slot = nullptr;
  std::unique_lock lock(mutex_);
  try {
    while (claim(places, slot, lock)) {
      lock.unlock();
      const auto start = Clock::now();
      for (const std::size_t place : places) work_(slot->batch, place, thread);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      lock.lock();
      constexpr double kNewest = 0.2;  // its weight beside what was measured before
      const double mean = seconds / static_cast<double>(places.size());
      seconds_ = seconds_ > 0 ? kNewest * mean + (1 - kNewest) * seconds_ : mean;
      slot->waiting -= places.size();
      if (is_ready(*slots_[taken_ % slots_.size()])) ready_.notify_one();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    if (!failure_) failure_ = std::current_exception();
    stopped_ = true;
    lock.unlock();
    room_.notify_all();
    ready_.notify_all();
  }
}

// Whether no batch beyond those taken will come.
bool BatchLoader::over() const {
  if (stopped_) return true;
  if (!ended_ || taken_ < filling_) return false;
  const Slot& last = *slots_[filling_ % slots_.size()];
  return taken_ > filling_ || last.free || last.batch.sequence != filling_ || last.batch.size == 0;
}

bool BatchLoader::is_ready(const Slot& slot) const {
  return !slot.free && slot.batch.sequence == taken_ && slot.claimed && slot.waiting == 0 && slot.batch.size > 0;
}

BatchLoader::Batch* BatchLoader::take_ready() {
  Slot& slot = *slots_[taken_ % slots_.size()];
  if (!is_ready(slot)) return nullptr;
  ++taken_;
  // Of those who wait one was woken, even if the next batch is there already, or none will come.
  if (over()) {
    ready_.notify_all();
  } else if (is_ready(*slots_[taken_ % slots_.size()])) {
    ready_.notify_one();
  }
  return &slot.batch;
}

BatchLoader::Batch* BatchLoader::take() {
  std::unique_lock lock(mutex_);
  Batch* batch = nullptr;
  ready_.wait(lock, [&] { return over() || (batch = take_ready()) != nullptr; });
  if (failure_) std::rethrow_exception(failure_);
  return batch;
}

BatchLoader::Batch* BatchLoader::try_take() {
  const std::scoped_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return stopped_ ? nullptr : take_ready();
}

void BatchLoader::release(const Batch& batch) {
  {
    const std::scoped_lock lock(mutex_);
    slots_[batch.slot]->free = true;
  }
  room_.notify_one();
}

}  // namespace mobicuda::pictures
