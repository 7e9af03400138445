#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench_engine/pictures/dataset.h"
#include "bench_engine/pictures/images.h"

namespace mobicuda::bench {

/// What to classify, and what to compare with.
struct ImageSet {
  std::filesystem::path folder;
  std::vector<Sample> samples;
  Labels labels;
  bool labels_given = false;
  Preprocessing preprocessing;
  bool bytes = false;                 ///< sessions take pictures in bytes
  std::vector<float> reference_rows;  ///< --referenceLogits, by Sample::row; may be empty
};

/// Pictures ready for a network, without gaps for broken ones.
struct PictureBatch {
  std::vector<Sample> samples;
  std::span<const float> input;                             ///< of samples; or
  std::span<const std::uint8_t> bytes;                      ///< where sessions take bytes
  std::vector<std::pair<std::string, std::string>> broken;  ///< path and reason
};

/// `threads`, or one for each core when that is 0.
std::size_t decoding_threads(std::size_t threads);

/// Reads and prepares the pictures of a set, batch after batch in their order, by threads of its own that work a few
/// batches ahead and no further: memory is bounded whatever the number of pictures. What it gives does not depend on
/// the number of threads. The set must outlive it.
class PictureStream {
 public:
  PictureStream(const ImageSet& set, std::size_t batch, std::size_t threads);
  ~PictureStream();  // what nobody took is not waited for
  PictureStream(const PictureStream&) = delete;
  PictureStream& operator=(const PictureStream&) = delete;

  /// The next batch of pictures, which is less than a batch where some are broken. Null after the last. It is valid
  /// until the next call.
  const PictureBatch* next();

  /// Time that all threads together spent on decoding so far.
  double busy_ms() const;

  /// Batches in memory at once.
  std::size_t batches_in_memory() const noexcept { return slots_.size(); }

 private:
  // A batch on its way: sample i of it is picture i of `input` or `bytes`, or has a reason for being absent.
  struct Slot {
    std::vector<float> input;
    std::vector<std::uint8_t> bytes;
    std::vector<std::string> broken;
    std::size_t waiting = 0;  // pictures not decoded yet
  };

  void work();
  void decode(std::size_t index);
  void prepare(std::size_t batch);
  std::size_t size_of(std::size_t batch) const;
  void keep_whole(Slot& slot);

  const ImageSet& set_;
  const std::size_t batch_;
  const std::size_t elements_;
  std::vector<Slot> slots_;
  PictureBatch current_;

  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable decoded_;
  std::size_t next_sample_ = 0;
  std::size_t next_batch_ = 0;
  std::size_t released_ = 0;  // batches that nobody needs any more
  double busy_ms_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace mobicuda::bench
