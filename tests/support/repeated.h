#pragma once

#include <cstddef>
#include <string>

namespace mobicuda::test {

/// `text` so often, made of few large copies: a sanitizer looks at each.
inline std::string repeated(const std::string& text, std::size_t count) {
  if (count == 0) return {};
  std::string half = repeated(text, count / 2);
  half += half;
  return count % 2 == 0 ? half : half + text;
}

}  // namespace mobicuda::test
