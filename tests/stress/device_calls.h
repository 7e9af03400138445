#pragma once

#include <cstdint>
#include <memory>

#include <mobicuda/engine.h>

namespace mobicuda::stress {

class Expected;

/// Calls of run_on_device() by one thread, on a stream and buffers of its own.
class DeviceCalls {
 public:
  /// Copies all inputs to the device. Throws std::runtime_error; always in a build without CUDA, which has no engine
  /// to call so.
  DeviceCalls(const Expected& expected, bool bytes, std::int64_t max_batch);
  ~DeviceCalls();
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  /// The outputs of n pictures from `first` on. What the network does not write is NaN. Throws Error,
  /// std::runtime_error.
  const float* run(Session& session, std::int64_t n, std::int64_t first);

 private:
  struct Memory;

  std::unique_ptr<Memory> memory_;
};

}  // namespace mobicuda::stress
