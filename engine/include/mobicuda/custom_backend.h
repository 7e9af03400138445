#pragma once

#include <memory>

#include <mobicuda/engine.h>

namespace mobicuda {

/// The engine this project is about: hand-written CUDA kernels, no cuDNN, no cuBLAS. Precisions Fp32
/// (exact), Fp16 and Fp64. Throws Error(device_unavailable) when the library was built without CUDA.
MOBICUDA_API std::unique_ptr<Backend> make_custom_backend();

}  // namespace mobicuda
