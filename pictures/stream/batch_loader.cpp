#include "pictures/stream/batch_loader.h"

#include <algorithm>
#include <utility>

namespace mobicuda::pictures {

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

// Takes a few pictures of the batch that is being filled. False when there is nothing left to do.
bool BatchLoader::claim(std::vector<std::size_t>& places, Slot*& slot, std::unique_lock<std::mutex>& lock) {
  constexpr std::size_t kAtOnce = 8;  // few enough to share a batch among the threads, enough to lock seldom
  const std::size_t most = std::clamp(settings_.batch / settings_.threads, std::size_t{1}, kAtOnce);
  for (;;) {
    slot = slots_[filling_ % slots_.size()].get();
    room_.wait(lock, [&] {
      slot = slots_[filling_ % slots_.size()].get();
      return stopped_ || ended_ || slot->free || (slot->batch.sequence == filling_ && !slot->claimed);
    });
    if (stopped_ || ended_) return false;
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
    } else if (slot->claimed) {
      room_.notify_one();
    }
    if (!places.empty()) return true;
  }
}

void BatchLoader::run(std::size_t thread) {
  std::vector<std::size_t> places;
  Slot* slot = nullptr;
  std::unique_lock lock(mutex_);
  try {
    while (claim(places, slot, lock)) {
      lock.unlock();
      for (const std::size_t place : places) work_(slot->batch, place, thread);
      lock.lock();
      slot->waiting -= places.size();
      if (slot->claimed && slot->waiting == 0) ready_.notify_all();
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

BatchLoader::Batch* BatchLoader::take_ready() {
  Slot& slot = *slots_[taken_ % slots_.size()];
  if (slot.free || slot.batch.sequence != taken_ || !slot.claimed || slot.waiting > 0 || slot.batch.size == 0) {
    return nullptr;
  }
  ++taken_;
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
  room_.notify_all();
}

}  // namespace mobicuda::pictures
