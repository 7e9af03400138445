#include "graph/huge_pages.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace mobicuda {

void ask_for_huge_pages([[maybe_unused]] std::byte* block, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef __linux__
  // A system that has none refuses, and nothing else changes.
  if (bytes >= kHugePage) (void)::madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
}

}  // namespace mobicuda
