#pragma once

#include <array>
#include <cstddef>

namespace mobicuda::kernels {

// For a kernel's table of variants, whose entries have a member `variant`.

/// Whether variants that no rule takes are built, where they have code of their own: they run by name, and where a
/// timing cache finds them faster. Those that are left out keep their entry and name, but support nothing.
#ifdef MOBICUDA_ALL_VARIANTS
inline constexpr bool kAllVariants = true;
#else
inline constexpr bool kAllVariants = false;
#endif

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
