// A rule is a table of rows: the first row whose condition holds, and one of whose variants runs the layer, decides.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mobicuda {

/// SMs of the GPU that rules were measured on: where a rule counts tiles or images, elsewhere as many for each SM.
inline constexpr double kMeasuredMultiprocessors = 132;

/// What a row asks of the shape `s`, as text and as code, so that the pages' tables tell what the code does.
#define MOBICUDA_WHEN(...) #__VA_ARGS__, [](const auto& s) -> bool { return __VA_ARGS__; }
#define MOBICUDA_ALWAYS "", [](const auto&) -> bool { return true; }

/// A few variants, the preferred first; none: the row is about the form of a layer only.
template <class Variant>
class VariantList {
 public:
  template <class... Variants>
  requires(std::same_as<Variants, Variant>&&...) constexpr VariantList(Variants... variants)
      : variants_{variants...}, size_(sizeof...(variants)) {}  // NOLINT(google-explicit-constructor): written as a list
  constexpr const Variant* begin() const { return variants_.data(); }
  constexpr const Variant* end() const { return variants_.data() + size_; }
  constexpr bool empty() const { return size_ == 0; }

 private:
  std::array<Variant, 6> variants_;
  std::size_t size_;
};

template <class Shape, class Variant>
struct Row {
  std::string_view condition;  ///< empty: always
  bool (*holds)(const Shape&);
  VariantList<Variant> variants;
  std::string_view why;  ///< LayerInfo::reason
};

/// A variant that a rule would take if it runs the layer.
template <class Variant>
struct Preference {
  Variant variant{};
  std::string_view why;
};
template <class Variant>
using Preferences = std::vector<Preference<Variant>>;

/// Adds the variants of the rows that hold for `shape`.
template <class Shape, class Variant, std::size_t kRows>
void append(const Row<Shape, Variant> (&rows)[kRows], const Shape& shape, Preferences<Variant>& found) {
  for (const Row<Shape, Variant>& row : rows) {
    if (!row.holds(shape)) continue;
    for (const Variant variant : row.variants) found.push_back({variant, row.why});
  }
}

/// Why of the first row that holds and one of whose variants runs the layer (`runs(variant)`), if it names any; empty
/// where there is none.
template <class Shape, class Variant, std::size_t kRows, class Runs>
std::string_view first_why(const Row<Shape, Variant> (&rows)[kRows], const Shape& shape, const Runs& runs) {
  for (const Row<Shape, Variant>& row : rows) {
    if (!row.holds(shape)) continue;
    if (row.variants.empty() || std::any_of(row.variants.begin(), row.variants.end(), runs)) return row.why;
  }
  return {};
}

/// A table of rows for people.
struct RuleText {
  struct Line {
    std::string condition;
    std::string variants;  ///< names, the preferred first
    std::string why;
  };
  std::string title;  ///< "gemm, fp16"
  std::vector<Line> lines;
};

inline constexpr std::string_view kAlways = "always";
/// Of Row::condition.
std::string condition_text(std::string_view condition);

template <class Shape, class Variant, std::size_t kRows>
RuleText text_of(std::string title, const Row<Shape, Variant> (&rows)[kRows]) {
  RuleText text{std::move(title), {}};
  for (const Row<Shape, Variant>& row : rows) {
    std::string names;
    for (const Variant variant : row.variants) names += (names.empty() ? "" : ", ") + std::string(name(variant));
    text.lines.push_back({condition_text(row.condition), names, std::string(row.why)});
  }
  return text;
}

}  // namespace mobicuda
