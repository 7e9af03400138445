#pragma once

#include <cstdint>

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
std::int64_t live_allocations();        ///< pieces of memory that nobody has given back yet
AllocationCount aligned_allocations();  ///< those with an alignment of their own: engines' and sessions' buffers

}  // namespace mobicuda::test
