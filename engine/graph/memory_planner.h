#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <mobicuda/export.h>

namespace mobicuda {

/// A buffer that is live from the step that writes it to the last step that reads it, both inclusive.
struct BufferRequest {
  std::int64_t bytes = 0;
  int first_step = 0;
  int last_step = 0;
};

/// Where each buffer lies in one arena.
struct MemoryPlan {
  std::vector<std::int64_t> offsets;  ///< one for each request, multiples of kBufferAlignment; 0 for no bytes
  std::int64_t arena_bytes = 0;
};

inline constexpr std::int64_t kBufferAlignment = 256;

/// Places buffers so that no two live at the same time overlap: greedy by size, best fit (Pisarchyk and
/// Lee, "Efficient memory management for deep neural net inference", 2020). Deterministic. Throws
/// Error(invalid_argument) on a negative size or a last step before the first, and on overflow.
MOBICUDA_API MemoryPlan plan_memory(std::span<const BufferRequest> requests);

}  // namespace mobicuda
