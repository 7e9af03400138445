#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/pictures.h>

#include "bench_engine/pictures/classifier.h"

namespace mobicuda::bench {

/// Pictures a second, from files to logits; 0 where nothing was measured.
struct PipelineRates {
  double decode = 0;                  ///< decoding alone
  std::vector<double> inference;      ///< by classifier: pictures that are decoded already
  std::vector<double> pipeline;       ///< by classifier: decoding and inference at the same time
  std::vector<std::string> decoders;  ///< by classifier: what decoded JPEG then, as pictures::to_string() says
};

/// Measures each for at most so many pictures and so long.
constexpr std::size_t kRatePictures = 1000;
constexpr double kRateMs = 1500;

/// Runs the first pictures of `set` through each classifier alone, `batch` at a time. `stop` ends it early. `decode` is
/// for classifiers with an engine of a GPU. Throws Error(device_unavailable) where it asks for a GPU without nvJPEG.
PipelineRates measure_pipeline(const ImageSet& set, std::span<const Classifier> classifiers, std::size_t batch,
                               std::size_t classes, std::size_t decode_threads, pictures::DecodeOn decode,
                               const std::function<bool()>& stop);

}  // namespace mobicuda::bench
