#pragma once

#include <cstdint>

namespace mobicuda::stress {

/// In bytes.
struct MemoryUse {
  std::int64_t host;    ///< resident, of this process
  std::int64_t device;  ///< of all processes on the current device; 0 without CUDA or a device
};

/// At this moment. Thread-safe. Throws std::runtime_error where the system does not say.
MemoryUse memory_use();

}  // namespace mobicuda::stress
