#pragma once

#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/picture_source.h>

#include "stream/config.h"
#include "stream/summary.h"
#include "stream/worker.h"

namespace mobicuda::stream {

using PictureFiles = std::vector<pictures::PictureFile>;

/// How many GPUs this process sees; 0 in a build without CUDA and where there is no driver.
int gpu_count();

/// The processors that the configuration asks for: GPUs 0 to gpu_num - 1 with the custom engine, or the CPU. Each has
/// the models loaded, where they are preloaded, and every worker a classifier of its own for each. Throws
/// Error(device_unavailable) on more GPUs than there are, and what loading a model throws, with its file named.
/// `models` is filled: sizes of files and weights. `pictures` must stay as long as the processors.
std::vector<Processor> make_processors(const Config& config, const PictureFiles& pictures,
                                       std::vector<ModelSummary>& models, const LogCallback& log);

}  // namespace mobicuda::stream
