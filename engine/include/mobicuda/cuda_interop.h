#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include <mobicuda/engine.h>

namespace mobicuda {

/// Enqueues one inference of n images on `stream`, between buffers that the caller owns, and returns without waiting.
/// The stream is one of EngineOptions::device; 0 is that device's legacy default stream.
///
/// Buffers hold n images in the types and layouts of Engine::input() and Engine::output(), start at a multiple of 16
/// bytes, and stay as they are until the run has ended. Their memory is one that the engine's device uses at the same
/// address: its own, managed, or page-locked host memory, which is slower. Pageable host memory and another device's
/// are refused, also on systems where a GPU could reach them. Bytes are read in words of 4: where n images are not
/// whole words, the rest of the last one must be readable, as it is behind any memory that CUDA allocated.
///
/// Order: runs of one session follow each other in the order of the calls, on whichever streams, also those of run(),
/// execute() and enqueue_staged(); a stream may be destroyed right after a call. Session::synchronize() waits for all
/// of them. The session's own buffers may be used on the way (docs/architecture.md, "Captured runs"): what set_input()
/// and execute() left there is gone, and execute(), execute_layer() and get_output() throw Error(invalid_argument)
/// until set_input() or execute() was called again.
///
/// Capture: on a stream that is being captured into a CUDA graph, the kernels become part of that graph, with the
/// pointers of this call, and with programmatic dependencies between them if EngineOptions::programmatic_launch is set.
/// The session must outlive the graph. The session does not see when the graph runs: the caller must not let a replay
/// overlap with another one, or with other runs of the session.
///
/// Not thread-safe, as any call on a session: one session for each thread. The thread's current device stays as it was.
/// Throws Error(invalid_argument), before anything is enqueued, when the session's engine is not a GPU engine or takes
/// the other type of input, when n is not in 1..max_batch, and when a buffer is not as described.
MOBICUDA_API void run_on_device(Session& session, std::int64_t n, const float* input, float* output,
                                cudaStream_t stream);
MOBICUDA_API void run_on_device(Session& session, std::int64_t n, const std::uint8_t* pictures, float* output,
                                cudaStream_t stream);

}  // namespace mobicuda
