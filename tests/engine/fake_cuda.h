#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace mobicuda::test {

/// What a program linked with fake_cuda.cpp has instead of the CUDA runtime: calls succeed, do nothing but copy, and
/// are written down, so that what sessions ask of CUDA can be looked at without a GPU. There are two devices.
struct FakeCuda {
  /// Of those that enqueue, capture, order or wait, e.g. "wait A". Streams of callers have the names below, others
  /// "own".
  std::vector<std::string> calls;
  std::map<cudaStream_t, std::string> streams;
  std::map<cudaStream_t, unsigned long long> stream_ids;  ///< where they are not the handle's
  cudaStream_t captured = nullptr;                        ///< by the caller
  std::map<const void*, cudaPointerAttributes> memory;    ///< of the rest: device 0's
  std::vector<CUcontext> contexts;                        ///< current ones, as a stack
  int freed_elsewhere = 0;                                ///< resources freed while no context was current
  bool unloading = false;                                 ///< the process is ending, and the driver is gone
  bool called_unloaded = false;                           ///< the driver was, all the same

  /// The call after so many more that may fail returns `failure`, once; negative: none does.
  int calls_before_failure = -1;
  cudaError_t failure = cudaSuccess;
  std::map<std::string, int> live;  ///< pieces of memory, streams, events, graphs that nobody has given back

  /// Whether the call that is to fail came, or was cancelled.
  bool failed() const { return calls_before_failure < 0; }
  /// The calls since the last time.
  std::vector<std::string> take();
};

FakeCuda& fake_cuda();

}  // namespace mobicuda::test
