// In place of cuda_memory.cpp, in builds without CUDA.
#include <stdexcept>

#include "serving/cuda_memory.h"

namespace mobicuda::bench {

CudaMemory::CudaMemory(int /*device*/, const std::vector<std::string>& /*sets*/) {
  throw std::runtime_error("--memory cuda: this program was built without CUDA");
}

}  // namespace mobicuda::bench
