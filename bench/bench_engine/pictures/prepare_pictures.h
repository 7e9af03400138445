#pragma once

#include "bench_engine/options.h"
#include "bench_engine/pictures/picture_stream.h"
#include "bench_engine/results.h"

namespace mobicuda::bench {

/// What --images, --labels and --referenceLogits name, checked against the model. Throws UsageError.
ImageSet prepare_pictures(const Options& options, const ModelInfo& model);

}  // namespace mobicuda::bench
