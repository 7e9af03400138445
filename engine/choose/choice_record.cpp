#include "choose/choice_record.h"

#include <utility>

namespace mobicuda {

void ChoiceRecord::refuse(const std::string& layer, const std::string& why) const {
  throw Error(ErrorCode::invalid_model, "saved engine, choice " + std::to_string(position_) + ", layer '" + layer + "'",
              why, "make it again from the model with this version, on this machine");
}

void ChoiceRecord::keep(std::string_view what, std::string variant, std::string reason) {
  made_.choices.push_back({std::string(what), std::move(variant), std::move(reason)});
}

void ChoiceRecord::contest(const std::string& layer, std::string_view kernel, std::string rival, std::string reason,
                           std::size_t reason_at) {
  made_.contested.push_back({last(), layer, std::string(kernel), std::move(rival), std::move(reason), reason_at});
}

const SavedChoice& ChoiceRecord::next(std::string_view what, const std::string& layer) {
  if (position_ >= saved_->size()) refuse(layer, "no choice is left");
  const SavedChoice& choice = (*saved_)[position_];
  if (choice.kernel != what) {
    refuse(layer, "should be of '" + std::string(what) + "', is of '" + choice.kernel + "'");
  }
  ++position_;
  made_.choices.push_back(choice);
  return choice;
}

void ChoiceRecord::finish() const {
  if (saved_ != nullptr && position_ != saved_->size()) refuse("", "belongs to no layer");
}

}  // namespace mobicuda
