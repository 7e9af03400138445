#pragma once

#include <vector>

#include <mobicuda/saved_engine.h>

#include "specialise/specialiser.h"

namespace mobicuda {

/// What the plans' choices need compiled, each once.
std::vector<WantedKernel> wanted_kernels(const std::vector<SavedPlan>& plans);

}  // namespace mobicuda
