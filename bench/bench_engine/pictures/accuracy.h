#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <mobicuda/pictures.h>

#include "bench_engine/model/pictures.h"
#include "bench_engine/pictures/classifier.h"
#include "bench_engine/pictures/sample_stream.h"

namespace mobicuda::bench {

/// How pictures are run.
struct ImageRun {
  std::size_t batch = 1;
  std::size_t classes = 0;                              ///< of the model
  std::size_t reference = 0;                            ///< the classifier that the others are compared with
  std::size_t decode_threads = 0;                       ///< 0: one for each core
  pictures::DecodeOn decode = pictures::DecodeOn::Cpu;  ///< of ImageReport::pipeline_rate
  bool measure_rates = true;  ///< also ImageReport::decode_rate and the like, in further passes
};

/// Runs all pictures through all classifiers, which work while the next pictures are decoded. A picture that cannot be
/// decoded is left out and named in the report. `stop` is asked before each batch how many pictures are done, and ends
/// the evaluation when it gives true.
ImageReport evaluate_images(const ImageSet& set, std::span<const Classifier> classifiers, const ImageRun& run,
                            const std::function<bool(std::size_t done)>& stop);

/// Throws Error(io) where none of the pictures could be decoded: there is nothing to judge.
void require_decoded(const ImageReport& report);

}  // namespace mobicuda::bench
