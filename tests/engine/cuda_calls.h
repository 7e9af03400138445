#pragma once

#include <map>
#include <string>

#include <cuda_runtime_api.h>

namespace mobicuda::test {

/// What the CUDA runtime was asked for by everything in this program, the library included: the linker leads calls to
/// cuda_calls.cpp, which counts them, lets one of them fail, and passes the others on.
struct CudaCalls {
  /// The call after so many more that may fail returns `failure` instead of being made; negative: none does.
  int before_failure = -1;
  cudaError_t failure = cudaSuccess;
  std::string only;  ///< count for `before_failure` only calls of this name; empty: all that may fail

  std::string failed;                ///< the name of the call that failed; empty: none did
  std::map<std::string, int> made;   ///< calls, by name
  std::map<std::string, int> alive;  ///< device memory, host memory, streams, events, graphs: pieces

  int all_alive() const;
};

CudaCalls& cuda_calls();

}  // namespace mobicuda::test
