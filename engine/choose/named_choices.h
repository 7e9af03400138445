#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace mobicuda {

/// EngineOptions::kernel_variants: kernels' variants and layers' forms that are asked for by name.
class NamedChoices {
 public:
  /// Throws Error(invalid_argument) on a kernel, form, or name of one, that does not exist.
  explicit NamedChoices(const std::map<std::string, std::string>& by_name);

  /// Null where nothing is asked for.
  const std::string* find(std::string_view kernel_or_form) const;
  bool has_any(std::initializer_list<std::string_view> kernels_or_forms) const;

 private:
  std::map<std::string, std::string, std::less<>> by_name_;
};

}  // namespace mobicuda
