// Launches of kernels on many streams at a time, of random numbers of pictures, every output compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/common/launch.h"

namespace mobicuda::stress {

/// Memory of the device.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  unsigned char* at(std::size_t offset) const { return static_cast<unsigned char*>(data_) + offset; }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

/// A variant on a shape, with inputs on the device for some pictures.
struct KernelCase {
  std::string name;
  int pictures = 1;              ///< that a launch takes at most
  std::size_t output_bytes = 0;  ///< of a picture
  int aligned = 1;               ///< launches begin at multiples of this picture: where x is aligned to 16 bytes
  /// Enqueues the kernel for n pictures from `first` on.
  std::function<cudaError_t(int n, int first, void* y, const kernels::Launch& where)> enqueue;
  /// Of one launch of all pictures with nothing beside it; run_alone() makes it.
  std::shared_ptr<const DeviceBytes> expected;
};

struct KernelConditions {
  double seconds = 0.1;
  std::uint32_t seed = 1;
  int streams = 8;  ///< a host thread each
};

/// What was launched, and what came of it.
struct KernelTally {
  std::int64_t launches = 0;
  std::int64_t wrong = 0;  ///< 16-bit words
  std::string where;       ///< kernels of the first row with wrong words
};

/// Runs each once and keeps what it computes.
void run_alone(std::vector<KernelCase>& cases);

/// Launches kernels on all streams for that long: on every second one a case at random, on the others a neighbour, or a
/// case as well where there are no neighbours. What a launch computes for a picture must be what it computed alone, in
/// every bit. Throws std::runtime_error on an error of CUDA, with the names of the kernels that the stream had last:
/// after a fault nothing else can run in the process.
KernelTally launch_side_by_side(const std::vector<KernelCase>& cases, const std::vector<KernelCase>& neighbours,
                                const KernelConditions& conditions);

}  // namespace mobicuda::stress
