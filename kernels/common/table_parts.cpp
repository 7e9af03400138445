#include "kernels/common/table_parts.h"

#include <array>
#include <charconv>
#include <utility>

namespace mobicuda::kernels::table {
namespace {

std::string text_of(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string text_of(const Clip& clip) { return "[" + text_of(clip.lo) + "," + text_of(clip.hi) + "]"; }

std::string text_of(const Activation& activation) {
  if (activation.kind == ActivationKind::Clip) return text_of(Clip{activation.lo, activation.hi});
  return std::to_string(static_cast<int>(activation.kind)) + "[" + text_of(activation.alpha) + "]";
}

}  // namespace

ShapeText::ShapeText(std::string_view kernel) : text_(kernel) {}

ShapeText& ShapeText::with(std::string_view what, int value) { return add(what, std::to_string(value)); }
ShapeText& ShapeText::with(std::string_view what, const Clip& clip) { return add(what, text_of(clip)); }
ShapeText& ShapeText::with(std::string_view what, const Activation& activation) {
  return add(what, text_of(activation));
}

std::string ShapeText::take() { return std::move(text_); }

ShapeText& ShapeText::add(std::string_view what, const std::string& value) {
  text_ += " " + std::string(what) + "=" + value;
  return *this;
}

}  // namespace mobicuda::kernels::table
