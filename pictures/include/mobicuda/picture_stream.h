#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/export.h>
#include <mobicuda/picture_preparation.h>
#include <mobicuda/picture_source.h>

namespace mobicuda::pictures {

/// A picture of a source that could not be read or decoded.
struct FailedPicture {
  std::size_t index = 0;  ///< in the source, from 0
  std::string name;
  std::string reason;
};

/// Pictures ready for a network, without gaps for those that failed.
struct PreparedBatch {
  std::vector<std::size_t> indices;     ///< in the source, from 0: those of the pictures below, in their order
  std::span<const float> input;         ///< of the pictures; or
  std::span<const std::uint8_t> bytes;  ///< with StreamOptions::bytes
  std::vector<FailedPicture> failed;
};

struct StreamOptions {
  Preprocessing preprocessing;
  bool bytes = false;     ///< sessions take pictures in bytes (EngineOptions::picture_input)
  std::size_t batch = 1;  ///< at least 1
  int threads = 0;        ///< that read and decode, 0: one for each core
  DecodeOptions decode;
};

/// `threads`, or one for each core when that is 0.
MOBICUDA_API std::size_t decoding_threads(int threads);

/// Reads and prepares the pictures of a source on the CPU, batch after batch in their order, by threads of its own that
/// work a few batches ahead and no further: memory is bounded whatever the number of pictures. What it gives does not
/// depend on the number of threads. Not thread-safe: one thread calls it.
class MOBICUDA_API PictureStream {
 public:
  /// Throws Error(invalid_argument) on options out of range and on a source that is used up.
  PictureStream(PictureSource source, const StreamOptions& options);
  ~PictureStream();  ///< what nobody took is not waited for
  PictureStream(const PictureStream&) = delete;
  PictureStream& operator=(const PictureStream&) = delete;

  /// The next `batch` pictures, less those that failed; the last batch may be smaller. Null after the last. It is valid
  /// until the next call. Throws what a thread ran into beside a picture's own faults: Error(out_of_memory).
  const PreparedBatch* next();

  /// Milliseconds that all threads together spent on reading and decoding so far.
  double busy_ms() const;

  /// Batches in memory at once, at most.
  std::size_t batches_in_memory() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mobicuda::pictures
