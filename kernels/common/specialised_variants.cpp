#include "kernels/common/specialised_variants.h"

#include <charconv>

namespace mobicuda::kernels {

std::optional<std::size_t> SpecialisedVariants::intern(std::size_t family, const ConfigValues& values,
                                                       const std::string& name) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = by_name_.find(name); known != by_name_.end()) return known->second;
  if (variants_.size() == most_) return std::nullopt;
  variants_.push_back({family, values, name});
  return by_name_.emplace(name, variants_.size() - 1).first->second;
}

const SpecialisedVariants::Variant& SpecialisedVariants::at(std::size_t index) const {
  const std::scoped_lock lock(mutex_);
  return variants_.at(index);
}

void SpecialisedVariants::provide(std::size_t index, int capability, const void* kernel) {
  const std::scoped_lock lock(mutex_);
  kernels_.try_emplace({index, capability}, kernel);
}

const void* SpecialisedVariants::kernel(std::size_t index, int capability) const {
  const std::scoped_lock lock(mutex_);
  const auto found = kernels_.find({index, capability});
  return found == kernels_.end() ? nullptr : found->second;
}

std::string specialised_name(std::string_view family, const ConfigValues& values, std::size_t count) {
  std::string name(family);
  for (std::size_t i = 0; i < count; ++i) name += '_' + std::to_string(values[i]);
  return name;
}

std::optional<ConfigValues> specialised_values(std::string_view name, std::string_view family, std::size_t count) {
  if (!name.starts_with(family)) return std::nullopt;
  const char* at = name.data() + family.size();
  const char* const end = name.data() + name.size();
  ConfigValues values{};
  for (std::size_t i = 0; i < count; ++i) {
    if (at == end || *at != '_') return std::nullopt;
    const auto [next, error] = std::from_chars(at + 1, end, values[i]);
    // One name for a variant: no "+1" or "01".
    if (error != std::errc() || std::string_view(at + 1, next) != std::to_string(values[i])) return std::nullopt;
    if (values[i] < 0 || values[i] > kMostConfigValue) return std::nullopt;
    at = next;
  }
  if (at != end) return std::nullopt;
  return values;
}

}  // namespace mobicuda::kernels
