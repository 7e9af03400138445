#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include <mobicuda/engine.h>

namespace mobicuda {

/// Enqueues one inference of n pictures on `stream` between device buffers (16-byte aligned, in the types and layouts
/// of Engine::input() and Engine::output()) that the caller owns. Does not wait. Throws Error(invalid_argument) when
/// the session's engine is not a GPU engine, or takes the other type of input.
MOBICUDA_API void run_on_device(Session& session, std::int64_t n, const float* input, float* output,
                                cudaStream_t stream);
MOBICUDA_API void run_on_device(Session& session, std::int64_t n, const std::uint8_t* pictures, float* output,
                                cudaStream_t stream);

}  // namespace mobicuda
