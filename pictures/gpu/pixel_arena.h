#pragma once

#include <cstdint>
#include <mutex>

#include "runtime/device_buffer.h"

namespace mobicuda::pictures {

/// Device memory for the decoded pictures of one batch, filled with marks (fill_marks()) before each. Grows between two
/// batches where the last one wanted more, up to a limit.
class PixelArena {
 public:
  /// waits_idly: sleeps where it waits for the GPU.
  PixelArena(std::int64_t bytes, std::int64_t most, bool waits_idly);

  /// Memory for so many bytes, or null where there is none left. Thread-safe.
  std::uint8_t* reserve(std::int64_t bytes);
  /// All of it is free again, and is filled. Nothing uses it any more, and no other thread calls.
  void reset();
  /// Returns when it is filled, which it mostly is by then.
  void wait_until_filled() const;
  const std::uint8_t* memory() const noexcept { return static_cast<const std::uint8_t*>(memory_.data()); }

  std::int64_t most() const noexcept { return most_; }

 private:
  void fill(std::int64_t bytes);

  const std::int64_t most_;
  Stream stream_;
  Event filled_;
  std::mutex mutex_;
  DeviceBuffer memory_;
  std::int64_t used_ = 0;
  std::int64_t wanted_ = 0;
};

}  // namespace mobicuda::pictures
