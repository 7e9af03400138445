#pragma once

#include <memory>

#include <mobicuda/engine.h>

namespace mobicuda {

/// Portable implementation on the CPU with Eigen. Precisions Fp32, and Fp64: the oracle that all tests
/// compare with, plain loops in double precision. EngineOptions::threads sets the number of workers.
MOBICUDA_API std::unique_ptr<Backend> make_cpu_backend();

}  // namespace mobicuda
