#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mobicuda::bench {

/// Bytes in a GPU's memory that another process may open.
class CudaMemory {
 public:
  /// The sets one after the other. Throws std::runtime_error, in a build without CUDA always.
  CudaMemory(int device, const std::vector<std::string>& sets);

  /// What another process opens it by, as CUDA has it (cudaIpcMemHandle_t).
  const std::string& handle() const noexcept { return handle_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<void> memory_;
  std::string handle_;
  std::size_t bytes_ = 0;
};

}  // namespace mobicuda::bench
