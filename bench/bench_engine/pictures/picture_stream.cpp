#include "bench_engine/pictures/picture_stream.h"

#include <algorithm>

#include "bench_engine/process/clock.h"

namespace mobicuda::bench {
namespace {

// One that the network works on, one that is ready, one that is being decoded.
constexpr std::size_t kLeastBatches = 3;

// Small batches must not leave threads idle.
std::size_t batches_ahead(std::size_t batch, std::size_t threads) {
  return std::max(kLeastBatches, (2 * threads + batch - 1) / batch + 1);
}

// Moves picture `from` to the place of picture `to`.
template <class T>
void move_picture(std::vector<T>& pictures, std::size_t elements, std::size_t from, std::size_t to) {
  if (pictures.empty() || from == to) return;
  std::copy_n(pictures.begin() + static_cast<std::ptrdiff_t>(from * elements), elements,
              pictures.begin() + static_cast<std::ptrdiff_t>(to * elements));
}

}  // namespace

std::size_t decoding_threads(std::size_t threads) {
  return threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
}

PictureStream::PictureStream(const ImageSet& set, std::size_t batch, std::size_t threads)
    : set_(set), batch_(batch), elements_(set.preprocessing.elements()) {
  const std::size_t batches = (set.samples.size() + batch - 1) / batch;
  const std::size_t workers = std::min(decoding_threads(threads), set.samples.size());
  slots_.resize(std::min(batches, batches_ahead(batch, workers)));
  for (std::size_t i = 0; i < slots_.size(); ++i) prepare(i);
  for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
}

PictureStream::~PictureStream() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  room_.notify_all();
}

std::size_t PictureStream::size_of(std::size_t batch) const {
  return std::min(batch_, set_.samples.size() - batch * batch_);
}

// Makes the slot of `batch` ready to be decoded into.
void PictureStream::prepare(std::size_t batch) {
  Slot& slot = slots_[batch % slots_.size()];
  slot.waiting = size_of(batch);
  slot.broken.assign(slot.waiting, {});
  if (set_.bytes) {
    slot.bytes.resize(slot.waiting * elements_);
  } else {
    slot.input.resize(slot.waiting * elements_);
  }
}

void PictureStream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    room_.wait(lock, [this] {
      return stopped_ || next_sample_ == set_.samples.size() || next_sample_ / batch_ < released_ + slots_.size();
    });
    if (stopped_ || next_sample_ == set_.samples.size()) return;
    const std::size_t index = next_sample_++;
    lock.unlock();
    const auto start = Clock::now();
    decode(index);
    const double ms = since_ms(start);
    lock.lock();
    busy_ms_ += ms;
    if (--slots_[index / batch_ % slots_.size()].waiting == 0) decoded_.notify_one();
  }
}

void PictureStream::decode(std::size_t index) {
  Slot& slot = slots_[index / batch_ % slots_.size()];
  const std::size_t place = index % batch_;
  if (const std::string& why = set_.samples[index].unreadable; !why.empty()) {
    slot.broken[place] = why;
    return;
  }
  try {
    const Picture picture = load_picture(set_.folder / set_.samples[index].path);
    if (set_.bytes) {
      preprocess(picture, set_.preprocessing, std::span(slot.bytes).subspan(place * elements_, elements_));
    } else {
      preprocess(picture, set_.preprocessing, std::span(slot.input).subspan(place * elements_, elements_));
    }
  } catch (const std::exception& error) {
    slot.broken[place] = error.what();
  }
}

// Closes the gaps that broken pictures left.
void PictureStream::keep_whole(Slot& slot) {
  current_.samples.clear();
  current_.broken.clear();
  for (std::size_t i = 0; i < slot.broken.size(); ++i) {
    const Sample& sample = set_.samples[next_batch_ * batch_ + i];
    if (!slot.broken[i].empty()) {
      current_.broken.emplace_back(sample.path, slot.broken[i]);
      continue;
    }
    move_picture(slot.input, elements_, i, current_.samples.size());
    move_picture(slot.bytes, elements_, i, current_.samples.size());
    current_.samples.push_back(sample);
  }
  const std::size_t kept = current_.samples.size() * elements_;
  if (set_.bytes) {
    current_.bytes = std::span<const std::uint8_t>(slot.bytes).first(kept);
  } else {
    current_.input = std::span<const float>(slot.input).first(kept);
  }
}

const PictureBatch* PictureStream::next() {
  const std::size_t batches = (set_.samples.size() + batch_ - 1) / batch_;
  std::unique_lock lock(mutex_);
  if (released_ < next_batch_) {
    if (released_ + slots_.size() < batches) prepare(released_ + slots_.size());
    ++released_;
    room_.notify_all();
  }
  if (next_batch_ == batches) return nullptr;
  Slot& slot = slots_[next_batch_ % slots_.size()];
  decoded_.wait(lock, [&slot] { return slot.waiting == 0; });
  lock.unlock();
  keep_whole(slot);
  ++next_batch_;
  return &current_;
}

double PictureStream::busy_ms() const {
  const std::scoped_lock lock(mutex_);
  return busy_ms_;
}

}  // namespace mobicuda::bench
