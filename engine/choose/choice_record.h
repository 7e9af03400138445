#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobicuda/error.h>
#include <mobicuda/saved_engine.h>

#include "choose/choices.h"
#include "kernels/common/device_traits.h"
#include "timing/confirm_choices.h"

namespace mobicuda {

/// The choices of a network in the order in which they are asked for: kept as they are made, or those made before
/// (SavedEngine::choices). One of these that does not exist or does not run its layer throws Error(invalid_model).
class ChoiceRecord {
 public:
  /// `saved` is null where choices are made now.
  explicit ChoiceRecord(const std::vector<SavedChoice>* saved) : saved_(saved) {}

  bool replays() const { return saved_ != nullptr; }

  void keep(std::string_view what, std::string variant, std::string reason);
  /// The same for an answer, and its rival where it has one.
  template <class Answer>
  void keep_answer(std::string_view kernel, const std::string& layer, const Answer& answer);
  /// The last choice, a variant of `kernel`, has a rival. `reason_at`: see ContestedChoice.
  void contest(const std::string& layer, std::string_view kernel, std::string rival, std::string reason,
               std::size_t reason_at);
  /// Position of the last choice.
  std::size_t last() const { return made_.choices.size() - 1; }

  /// The next saved choice, which must be of `what`.
  const SavedChoice& next(std::string_view what, const std::string& layer);
  /// The variant that it names.
  template <class Params>
  VariantOf<Params> find(const SavedChoice& choice, const std::string& layer, const Params& params,
                         const kernels::DeviceTraits& gpu) const;
  [[noreturn]] void refuse(const std::string& layer, const std::string& why) const;

  /// After the last one: no saved choice may be left.
  void finish() const;
  ChosenLayers take() && { return std::move(made_); }

 private:
  const std::vector<SavedChoice>* saved_;
  std::size_t position_ = 0;
  ChosenLayers made_;
};

template <class Variant>
std::string name_of(Variant variant) {
  return std::string(name(variant));
}

/// Empty: none.
template <class Variant>
std::string name_of(const std::optional<Variant>& variant) {
  return variant ? name_of(*variant) : std::string();
}

template <class Answer>
void ChoiceRecord::keep_answer(std::string_view kernel, const std::string& layer, const Answer& answer) {
  keep(kernel, name_of(answer.variant), answer.reason);
  if (answer.rival) contest(layer, kernel, name_of(answer.rival->variant), answer.rival->reason, last());
}

template <class Params>
VariantOf<Params> ChoiceRecord::find(const SavedChoice& choice, const std::string& layer, const Params& params,
                                     const kernels::DeviceTraits& gpu) const {
  const auto& kernel = kernels::kernel_of(params);
  const auto found = kernels::find_variant(kernel, choice.variant);
  if (!found) refuse(layer, choice.kernel + " has no variant '" + choice.variant + "'");
  if (!kernel.supports(*found, params, gpu)) {
    refuse(layer, choice.kernel + " variant '" + choice.variant + "' does not run this shape");
  }
  return *found;
}

}  // namespace mobicuda
