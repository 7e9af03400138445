#include "choose/named_choices.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <mobicuda/error.h>

#include "choose/forms.h"
#include "choose/kernels.h"

namespace mobicuda {
namespace {

struct Nameable {
  std::string_view what;
  std::vector<std::string_view> names;
  std::function<bool(std::string_view)> also{};  ///< whether it is the name of a specialised variant
};

std::vector<Nameable> nameables() {
  std::vector<Nameable> found;
  for_each_kernel([&](const auto& kernel) {
    Nameable& one = found.emplace_back(Nameable{kernel.name, {}});
    for (const auto variant : kernel.variants) one.names.push_back(kernel.variant_name(variant));
    one.also = [&kernel](std::string_view text) { return kernels::find_variant(kernel, text).has_value(); };
  });
  for (const FormOption& form : form_options()) found.push_back({form.option, {form.names.begin(), form.names.end()}});
  return found;
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace

NamedChoices::NamedChoices(const std::map<std::string, std::string>& by_name)
    : by_name_(by_name.begin(), by_name.end()) {
  if (by_name_.empty()) return;
  const std::vector<Nameable> all = nameables();
  for (const auto& [what, wanted] : by_name_) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const Nameable& one) { return one.what == what; });
    if (known == all.end()) {
      std::vector<std::string_view> names;
      for (const Nameable& one : all) names.push_back(one.what);
      throw Error(ErrorCode::invalid_argument, "kernel variant", "no kernel '" + what + "' has variants",
                  "choose one of " + joined(names));
    }
    const bool exists = std::find(known->names.begin(), known->names.end(), wanted) != known->names.end();
    if (!exists && !(known->also && known->also(wanted))) {
      throw Error(ErrorCode::invalid_argument, "kernel variant of '" + what + "'", "there is no '" + wanted + "'",
                  "choose one of " + joined(known->names));
    }
  }
}

const std::string* NamedChoices::find(std::string_view kernel_or_form) const {
  const auto found = by_name_.find(kernel_or_form);
  return found == by_name_.end() ? nullptr : &found->second;
}

bool NamedChoices::has_any(std::initializer_list<std::string_view> kernels_or_forms) const {
  return std::any_of(kernels_or_forms.begin(), kernels_or_forms.end(),
                     [&](std::string_view one) { return by_name_.contains(one); });
}

}  // namespace mobicuda
