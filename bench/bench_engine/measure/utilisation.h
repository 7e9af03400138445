#pragma once

#include <vector>

#include "bench_engine/measure/nvml.h"
#include "bench_engine/model/utilisation.h"

namespace mobicuda::bench {

struct GpuSample {
  double at_ms = 0;
  GpuReading reading;
};

/// What was recorded of one case: samples in order, and the time that its bursts and their pauses took.
struct Usage {
  std::vector<GpuSample> samples;
  double wall_ms = 0;
  double cpu_ms = 0;
};

Utilisation summarize(const Usage& usage, bool alternated);

/// Energy of pictures that follow each other without a pause, `ms_per_picture` apart: mean power times that. The power
/// is that of the energy counter where there is one, enough samples, and no other case between; else the mean of
/// samples.
void add_energy(const Usage& usage, double ms_per_picture, Utilisation& utilisation);

}  // namespace mobicuda::bench
