#pragma once

#include <array>
#include <cstddef>

namespace mobicuda::kernels {

// For a kernel's table of variants, whose entries have a member `variant`.

template <class Entry, std::size_t kCount>
constexpr auto variants_of(const Entry (&entries)[kCount]) {
  std::array<decltype(Entry::variant), kCount> variants{};
  for (std::size_t i = 0; i < kCount; ++i) variants[i] = entries[i].variant;
  return variants;
}

/// Whether a variant is the index of its entry.
template <class Entry, std::size_t kCount>
constexpr bool in_order_of_variants(const Entry (&entries)[kCount]) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (static_cast<std::size_t>(entries[i].variant) != i) return false;
  }
  return true;
}

}  // namespace mobicuda::kernels
