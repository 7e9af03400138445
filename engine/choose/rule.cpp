#include "choose/rule.h"

#include <cctype>

namespace mobicuda {

std::string condition_text(std::string_view condition) {
  if (condition.empty()) return std::string(kAlways);
  std::string text;
  for (std::size_t at = 0; at < condition.size();) {
    const bool starts_word = at == 0 || (std::isalnum(static_cast<unsigned char>(condition[at - 1])) == 0 &&
                                         condition[at - 1] != '_' && condition[at - 1] != '.');
    if (starts_word && condition.substr(at, 2) == "s.") {
      at += 2;  // the shape is understood
    } else {
      text += condition[at++];
    }
  }
  return text;
}

}  // namespace mobicuda
