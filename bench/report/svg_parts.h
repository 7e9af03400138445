#pragma once

#include <limits>
#include <string>
#include <vector>

/// What the charts are drawn of.
namespace mobicuda::bench::report::svg {

// User units; small enough that 12 units are still read when the page is as wide as a phone.
inline constexpr double kWidth = 440;
inline constexpr double kHeight = 280;
inline constexpr double kLeft = 54;
inline constexpr double kRight = 14;
inline constexpr double kTop = 24;
inline constexpr double kBottom = 42;

std::string at(double coordinate);
std::string attribute(const char* name, const std::string& value);
std::string line(const char* style, double x1, double y1, double x2, double y2);
std::string label(const char* style, double x, double y, const std::string& text);
std::string rectangle(const std::string& style, double x, double y, double width, double height,
                      const std::string& tip);
std::string circle(const std::string& style, double x, double y, double radius, const std::string& tip);
std::string picture(const std::string& title, double height, const std::string& content);

/// How wide a label is, about.
double text_width(const std::string& text);

/// Maps values to coordinates.
struct Axis {
  double low;
  double high;
  double from;
  double to;
  bool logarithmic;

  double place(double value) const;
  std::vector<double> ticks() const;
};

/// The range of values, never empty and with room around it.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;

  void add(double value);
  Range widened(double factor) const { return {low / factor, high * factor}; }
};

bool drawable(double value);
Axis across(const Range& range, bool logarithmic);
Axis upward(const Range& range, bool logarithmic);

/// The frame of a chart: lines and labels at the ticks, the axes' names.
std::string grid(const Axis& x, const std::vector<double>& x_ticks, const std::string& x_name, const Axis& y,
                 const std::string& y_name);

}  // namespace mobicuda::bench::report::svg
