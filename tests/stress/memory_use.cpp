#include "stress/memory_use.h"

#include <fstream>
#include <stdexcept>

#include <unistd.h>

#ifdef MOBICUDA_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace mobicuda::stress {
namespace {

std::int64_t device_bytes() {
#ifdef MOBICUDA_WITH_CUDA
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return static_cast<std::int64_t>(total - free);
  static_cast<void>(cudaGetLastError());
#endif
  return 0;
}

}  // namespace

MemoryUse memory_use() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  if (!(file >> all >> resident)) throw std::runtime_error("/proc/self/statm does not say how much memory is in use");
  return {resident * sysconf(_SC_PAGESIZE), device_bytes()};
}

}  // namespace mobicuda::stress
