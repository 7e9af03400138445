#include "report/svg_parts.h"

#include <algorithm>
#include <cmath>

#include "report/html.h"
#include "text/numbers.h"

namespace mobicuda::bench::report::svg {
std::string at(double coordinate) { return fixed(coordinate, 1); }

std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + escaped(value) + '"';
}

std::string line(const char* style, double x1, double y1, double x2, double y2) {
  return "<line" + attribute("class", style) + attribute("x1", at(x1)) + attribute("y1", at(y1)) +
         attribute("x2", at(x2)) + attribute("y2", at(y2)) + "/>\n";
}

std::string label(const char* style, double x, double y, const std::string& text) {
  return "<text" + attribute("class", style) + attribute("x", at(x)) + attribute("y", at(y)) + '>' + escaped(text) +
         "</text>\n";
}

std::string rectangle(const std::string& style, double x, double y, double width, double height,
                      const std::string& tip) {
  return "<rect" + attribute("class", style) + attribute("x", at(x)) + attribute("y", at(y)) +
         attribute("width", at(width)) + attribute("height", at(height)) + "><title>" + escaped(tip) +
         "</title></rect>\n";
}

std::string circle(const std::string& style, double x, double y, double radius, const std::string& tip) {
  return "<circle" + attribute("class", style) + attribute("cx", at(x)) + attribute("cy", at(y)) +
         attribute("r", at(radius)) + "><title>" + escaped(tip) + "</title></circle>\n";
}

std::string picture(const std::string& title, double height, const std::string& content) {
  return "<figure><figcaption>" + escaped(title) + "</figcaption>\n<svg" +
         attribute("viewBox", "0 0 " + fixed(kWidth, 0) + ' ' + fixed(height, 0)) + " role=\"img\"" +
         attribute("aria-label", title) + ">\n" + content + "</svg></figure>\n";
}

double text_width(const std::string& text) {
  constexpr double kOfLetter = 7;
  return kOfLetter * static_cast<double>(text.size());
}

double Axis::place(double value) const {
  const double share = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + share * (to - from);
}

namespace {

constexpr double kDecade = 10;

std::vector<double> linear_ticks(double low, double high) {
  constexpr double kWanted = 5;
  const double rough = (high - low) / kWanted;
  const double decade = std::pow(kDecade, std::floor(std::log10(rough)));
  double step = kDecade * decade;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * decade >= rough) step = factor * decade;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step);
  for (int i = 0; i <= 2 * kWanted && (first + i) * step <= high * (1 + 1e-9); ++i) ticks.push_back((first + i) * step);
  return ticks;
}

// Each of `factors` in each decade.
std::vector<double> decade_ticks(double low, double high, std::initializer_list<double> factors) {
  std::vector<double> ticks;
  const auto last = static_cast<int>(std::floor(std::log10(high)));
  for (auto exponent = static_cast<int>(std::floor(std::log10(low))); exponent <= last; ++exponent) {
    for (const double factor : factors) {
      const double tick = factor * std::pow(kDecade, exponent);
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push_back(tick);
    }
  }
  return ticks;
}

// As many as are read without overlap.
std::vector<double> logarithmic_ticks(double low, double high) {
  constexpr std::size_t kFewest = 3;
  constexpr std::size_t kMost = 8;
  std::vector<double> ticks = decade_ticks(low, high, {1, 2, 5});
  if (ticks.size() < kFewest) return linear_ticks(low, high);
  if (ticks.size() > kMost) ticks = decade_ticks(low, high, {1, 3});
  if (ticks.size() > kMost) ticks = decade_ticks(low, high, {1});
  if (ticks.size() <= kMost) return ticks;
  std::vector<double> fewer;
  const std::size_t stride = (ticks.size() + kMost - 1) / kMost;
  for (std::size_t i = 0; i < ticks.size(); i += stride) fewer.push_back(ticks[i]);
  return fewer;
}

// Neighbours on a linear scale may differ in more digits than compact() has.
std::string tick_text(const std::vector<double>& ticks, double tick, bool logarithmic) {
  constexpr double kLong = 1e5;
  if (logarithmic || ticks.size() < 2 || std::abs(tick) >= kLong) return compact(tick);
  return fixed(tick, std::max(0, -static_cast<int>(std::floor(std::log10(ticks[1] - ticks[0]) + 1e-9))));
}

}  // namespace

std::vector<double> Axis::ticks() const { return logarithmic ? logarithmic_ticks(low, high) : linear_ticks(low, high); }

std::string grid(const Axis& x, const std::vector<double>& x_ticks, const std::string& x_name, const Axis& y,
                 const std::string& y_name) {
  constexpr double kTextGap = 6;
  constexpr double kTickText = 16;
  std::string svg;
  const std::vector<double> y_ticks = y.ticks();
  for (const double tick : y_ticks) {
    svg += line("grid", kLeft, y.place(tick), kWidth - kRight, y.place(tick));
    svg += label("end", kLeft - kTextGap, y.place(tick) + 4, tick_text(y_ticks, tick, y.logarithmic));
  }
  for (const double tick : x_ticks) {
    svg += line("grid", x.place(tick), kTop, x.place(tick), kHeight - kBottom);
    const std::string text = tick_text(x_ticks, tick, x.logarithmic);
    const double middle = std::min(x.place(tick), kWidth - text_width(text) / 2);  // not beyond the border
    svg += label("mid", middle, kHeight - kBottom + kTickText, text);
  }
  svg += line("axis", kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom);
  svg += label("mid", (kLeft + kWidth - kRight) / 2, kHeight - kTextGap, x_name);
  svg += label("start", 2, kTop - 12, y_name);
  return svg;
}

void Range::add(double value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

bool drawable(double value) { return std::isfinite(value) && value > 0; }

Axis across(const Range& range, bool logarithmic) {
  return {range.low, range.high, kLeft, kWidth - kRight, logarithmic};
}
Axis upward(const Range& range, bool logarithmic) {
  return {range.low, range.high, kHeight - kBottom, kTop, logarithmic};
}

}  // namespace mobicuda::bench::report::svg
