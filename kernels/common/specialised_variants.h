// Variants of a kernel that are made for a shape: their code is compiled when an engine asks for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mobicuda::kernels {

inline constexpr std::size_t kMostConfigValues = 24;

/// What a family's Config is made of, in the order of its members; zeros behind them.
using ConfigValues = std::array<int, kMostConfigValues>;

/// The specialised variants that a process has met, each once. An index stays valid; so do references and names. Safe
/// from several threads.
class SpecialisedVariants {
 public:
  struct Variant {
    std::size_t family = 0;
    ConfigValues values{};
    std::string name;
  };

  explicit SpecialisedVariants(std::size_t most) : most_(most) {}

  /// The index of the variant, which is added where it is new; nothing where there are `most` others.
  std::optional<std::size_t> intern(std::size_t family, const ConfigValues& values, const std::string& name);
  const Variant& at(std::size_t index) const;

  /// Gives the variant's kernel for GPUs of a capability: a cudaKernel_t, or a function, which stays loaded.
  void provide(std::size_t index, int capability, const void* kernel);
  /// Null where none was given.
  const void* kernel(std::size_t index, int capability) const;

 private:
  std::size_t most_;
  mutable std::mutex mutex_;
  std::deque<Variant> variants_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::map<std::pair<std::size_t, int>, const void*> kernels_;
};

/// "cluster_1_32_192": a family's name and so many values.
std::string specialised_name(std::string_view family, const ConfigValues& values, std::size_t count);

/// No Config has a larger value, so that products of two of them and of the size of an operand are ints.
inline constexpr int kMostConfigValue = 8192;

/// The values in such a name, from 0 to kMostConfigValue; nothing where it is not of that family, or has another number
/// of them or larger ones.
std::optional<ConfigValues> specialised_values(std::string_view name, std::string_view family, std::size_t count);

}  // namespace mobicuda::kernels
