#include "choose/specialised_choices.h"

#include <set>
#include <string>

#include "choose/kernels.h"

namespace mobicuda {

std::vector<WantedKernel> wanted_kernels(const std::vector<SavedPlan>& plans) {
  std::vector<WantedKernel> wanted;
  for_each_kernel([&](const auto& kernel) {
    if (kernel.specialised_by_name == nullptr) return;
    std::set<std::string> seen;
    for (const SavedPlan& plan : plans) {
      for (const SavedChoice& choice : plan.choices) {
        if (choice.kernel != kernel.name || !seen.insert(choice.variant).second) continue;
        const auto variant = kernels::find_variant(kernel, choice.variant);
        if (!variant) continue;  // of a damaged plan, which lowering refuses
        if (auto one = wanted_kernel(kernel, *variant)) wanted.push_back(std::move(*one));
      }
    }
  });
  return wanted;
}

}  // namespace mobicuda
