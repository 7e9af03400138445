#pragma once

#include <cstddef>
#include <new>

namespace mobicuda {

/// Of x86-64, and the most common elsewhere.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Where a block of host memory begins: at a huge page, if it has one, else at `least`.
constexpr std::align_val_t block_alignment(std::size_t bytes, std::size_t least) noexcept {
  return std::align_val_t{bytes >= kHugePage ? kHugePage : least};
}

/// Asks the system, where it gives huge pages on request, for such behind all of a block's that are whole: reading on
/// at the end of a page is slow, and an engine's weights are all read in each run. No more memory is taken than the
/// block has.
void ask_for_huge_pages(std::byte* block, std::size_t bytes) noexcept;

}  // namespace mobicuda
