#pragma once

#include <cstdint>
#include <functional>

namespace mobicuda::test {

/// Calls of operator new in this program so far, and the bytes they asked for.
struct AllocationCount {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

/// The call of operator new after so many more finds no memory, once. A negative number: none does. Returns whether the
/// one asked for before came.
bool fail_allocation_after(std::int64_t calls);

AllocationCount all_allocations();
std::int64_t live_allocations();  ///< pieces of memory that nobody has given back yet
/// The most bytes that were allocated at once while `action` ran, above what was before.
std::int64_t peak_bytes_of(const std::function<void()>& action);
AllocationCount aligned_allocations();  ///< those with an alignment of their own: engines' and sessions' buffers

}  // namespace mobicuda::test
