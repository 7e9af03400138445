#include <mobicuda/picture_stream.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include <mobicuda/error.h>

#include "graph/memory_errors.h"
#include "pictures/decode/decode.h"
#include "pictures/decode/picture_error.h"
#include "pictures/prepare/resize.h"
#include "pictures/stream/batch_loader.h"
#include "pictures/stream/stopwatch.h"

namespace mobicuda::pictures {
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

void check(const StreamOptions& options) {
  check(options.preprocessing);
  check(options.decode);
  if (options.batch < 1) throw Error(ErrorCode::invalid_argument, "StreamOptions::batch", "must be at least 1, got 0");
  decoding_threads(options.threads);
}

}  // namespace

std::size_t decoding_threads(int threads) {
  constexpr int kMostThreads = 4096;
  if (threads < 0 || threads > kMostThreads) {
    throw Error(ErrorCode::invalid_argument, "threads",
                "must be from 0 to " + std::to_string(kMostThreads) + ", got " + std::to_string(threads));
  }
  return threads > 0 ? static_cast<std::size_t>(threads) : std::max(1U, std::thread::hardware_concurrency());
}

class PictureStream::Impl {
 public:
  Impl(PictureSource source, const StreamOptions& options)
      : options_(options),
        elements_(options.preprocessing.elements()),
        slots_(batches_ahead(options.batch, decoding_threads(options.threads))),
        loader_(std::move(source), {options.batch, slots_.size(), decoding_threads(options.threads)},
                [this](BatchLoader::Batch& batch, std::size_t place, std::size_t) { decode(batch, place); }) {}

  const PreparedBatch* next() {
    if (taken_ != nullptr) loader_.release(*std::exchange(taken_, nullptr));
    taken_ = loader_.take();
    if (taken_ == nullptr) return nullptr;
    keep_whole(slots_[taken_->slot], *taken_);
    return &current_;
  }

  double busy_ms() const { return busy_.ms(); }
  std::size_t batches() const noexcept { return slots_.size(); }

 private:
  // Picture i of a batch is picture i of `input` or `bytes`, or has a reason for being absent.
  struct Slot {
    std::once_flag ready;
    std::vector<float> input;
    std::vector<std::uint8_t> bytes;
    std::vector<std::string> failures;
  };

  void decode(BatchLoader::Batch& batch, std::size_t place) {
    const Stopwatch::Span span(busy_);
    Slot& slot = slots_[batch.slot];
    // A short source never needs most of the slots.
    std::call_once(slot.ready, [&] {
      slot.failures.resize(options_.batch);
      if (options_.bytes) {
        slot.bytes.resize(options_.batch * elements_);
      } else {
        slot.input.resize(options_.batch * elements_);
      }
    });
    slot.failures[place].clear();
    BatchLoader::Item& item = batch.items[place];
    try {
      item.encoded.read(item.entry, options_.decode.max_bytes);
      const DecodedPicture picture = pictures::decode(item.encoded.span(), options_.decode);
      if (options_.bytes) {
        prepare(picture.view(), options_.preprocessing, std::span(slot.bytes).subspan(place * elements_, elements_));
      } else {
        prepare(picture.view(), options_.preprocessing, std::span(slot.input).subspan(place * elements_, elements_));
      }
    } catch (const PictureError& error) {
      slot.failures[place] = error.what();
    } catch (const std::bad_alloc&) {
      slot.failures[place] = "no host memory to decode it";
    }
  }

  // Closes the gaps that failed pictures left.
  void keep_whole(Slot& slot, const BatchLoader::Batch& batch) {
    current_.indices.clear();
    current_.failed.clear();
    for (std::size_t i = 0; i < batch.size; ++i) {
      if (!slot.failures[i].empty()) {
        current_.failed.push_back({batch.first + i, batch.items[i].entry.name, slot.failures[i]});
        continue;
      }
      move_picture(slot.input, elements_, i, current_.indices.size());
      move_picture(slot.bytes, elements_, i, current_.indices.size());
      current_.indices.push_back(batch.first + i);
    }
    const std::size_t kept = current_.indices.size() * elements_;
    if (options_.bytes) {
      current_.bytes = std::span<const std::uint8_t>(slot.bytes).first(kept);
    } else {
      current_.input = std::span<const float>(slot.input).first(kept);
    }
  }

  const StreamOptions options_;
  const std::size_t elements_;
  Stopwatch busy_;
  std::vector<Slot> slots_;
  PreparedBatch current_;
  const BatchLoader::Batch* taken_ = nullptr;
  BatchLoader loader_;  // last: its threads use what is above
};

PictureStream::PictureStream(PictureSource source, const StreamOptions& options) {
  with_memory_errors("a stream of pictures", [&] {
    check(options);
    impl_ = std::make_unique<Impl>(std::move(source), options);
  });
}

PictureStream::~PictureStream() = default;

const PreparedBatch* PictureStream::next() {
  return with_memory_errors("a stream of pictures", [&] { return impl_->next(); });
}

double PictureStream::busy_ms() const { return impl_->busy_ms(); }

std::size_t PictureStream::batches_in_memory() const noexcept { return impl_->batches(); }

}  // namespace mobicuda::pictures
