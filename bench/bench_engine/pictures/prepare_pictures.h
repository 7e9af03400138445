#pragma once

#include <cstddef>
#include <vector>

#include "bench_engine/model/options.h"
#include "bench_engine/model/results.h"
#include "bench_engine/pictures/sample_stream.h"

namespace mobicuda::bench {

/// What --images, --labels and --referenceLogits name, checked against the model. Throws UsageError.
ImageSet prepare_pictures(const Options& options, const ModelInfo& model);

/// The first `count` pictures of a set, or all, without those that cannot be read: as the network takes them, 0 to 255
/// where it takes bytes. `threads` decode them, 0: one for each core.
std::vector<float> first_pictures(const ImageSet& images, std::size_t count, std::size_t threads);

}  // namespace mobicuda::bench
