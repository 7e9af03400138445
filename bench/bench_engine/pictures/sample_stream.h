#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/picture_stream.h>

#include "bench_engine/pictures/dataset.h"

namespace mobicuda::bench {

/// What to classify, and what to compare with.
struct ImageSet {
  std::filesystem::path folder;
  std::vector<Sample> samples;
  Labels labels;
  bool labels_given = false;
  pictures::Preprocessing preprocessing;
  bool bytes = false;                 ///< sessions take pictures in bytes
  std::vector<float> reference_rows;  ///< --referenceLogits, by Sample::row; may be empty
};

/// The set's files, in the order of its samples.
pictures::PictureSource source_of(const ImageSet& set);

/// As the reference labels and logits of data sets are made: pictures are not turned as their EXIF data say.
pictures::DecodeOptions decode_options();

/// Pictures ready for a network, without gaps for broken ones.
struct PictureBatch {
  std::vector<Sample> samples;
  std::span<const float> input;                             ///< of samples; or
  std::span<const std::uint8_t> bytes;                      ///< where sessions take bytes
  std::vector<std::pair<std::string, std::string>> broken;  ///< path and reason
};

/// The samples of a set, prepared by a pictures::PictureStream. The set must outlive it.
class SampleStream {
 public:
  SampleStream(const ImageSet& set, std::size_t batch, std::size_t threads);

  /// The next batch of pictures, which is less than a batch where some are broken. Null after the last. It is valid
  /// until the next call.
  const PictureBatch* next();

  /// Time that all threads together spent on decoding so far.
  double busy_ms() const { return stream_.busy_ms(); }

  /// Batches in memory at once.
  std::size_t batches_in_memory() const noexcept { return stream_.batches_in_memory(); }

 private:
  const ImageSet& set_;
  pictures::PictureStream stream_;
  PictureBatch current_;
};

}  // namespace mobicuda::bench
