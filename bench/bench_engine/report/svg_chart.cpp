#include "bench_engine/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench_engine/report/html.h"
#include "bench_engine/report/report_style.h"
#include "bench_engine/report/text_table.h"

namespace mobicuda::bench {
namespace {

// User units; small enough that 12 units are still read when the page is as wide as a phone.
constexpr double kWidth = 440;
constexpr double kHeight = 280;
constexpr double kLeft = 54;
constexpr double kRight = 14;
constexpr double kTop = 24;
constexpr double kBottom = 42;

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

// Maps values to coordinates.
struct Axis {
  double low;
  double high;
  double from;
  double to;
  bool logarithmic;

  double place(double value) const {
    const double share = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  }
};

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

std::vector<double> logarithmic_ticks(double low, double high) {
  std::vector<double> ticks;
  const double decades = std::log10(high / low);
  const auto last = static_cast<int>(std::floor(std::log10(high)));
  for (auto exponent = static_cast<int>(std::floor(std::log10(low))); exponent <= last; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && decades > 2) break;
      const double tick = factor * std::pow(kDecade, exponent);
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push_back(tick);
    }
  }
  // Labels of too many decades would overlap.
  constexpr std::size_t kMost = 8;
  if (ticks.size() > kMost) {
    std::vector<double> fewer;
    const std::size_t stride = (ticks.size() + kMost - 1) / kMost;
    for (std::size_t i = 0; i < ticks.size(); i += stride) fewer.push_back(ticks[i]);
    return fewer;
  }
  return ticks;
}

std::vector<double> ticks_of(const Axis& axis) {
  return axis.logarithmic ? logarithmic_ticks(axis.low, axis.high) : linear_ticks(axis.low, axis.high);
}

// Neighbours on a linear axis may differ in more digits than compact() has.
std::string tick_text(const std::vector<double>& ticks, double tick, bool logarithmic) {
  constexpr double kLong = 1e5;
  if (logarithmic || ticks.size() < 2 || std::abs(tick) >= kLong) return compact(tick);
  return fixed(tick, std::max(0, -static_cast<int>(std::floor(std::log10(ticks[1] - ticks[0]) + 1e-9))));
}

std::string grid(const Axis& x, const std::vector<double>& x_ticks, const std::string& x_name, const Axis& y,
                 const std::string& y_name) {
  constexpr double kTextGap = 6;
  constexpr double kTickText = 16;
  std::string svg;
  const std::vector<double> y_ticks = ticks_of(y);
  for (const double tick : y_ticks) {
    svg += line("grid", kLeft, y.place(tick), kWidth - kRight, y.place(tick));
    svg += label("end", kLeft - kTextGap, y.place(tick) + 4, tick_text(y_ticks, tick, y.logarithmic));
  }
  for (const double tick : x_ticks) {
    svg += line("grid", x.place(tick), kTop, x.place(tick), kHeight - kBottom);
    svg += label("mid", x.place(tick), kHeight - kBottom + kTickText, tick_text(x_ticks, tick, x.logarithmic));
  }
  svg += line("axis", kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom);
  svg += label("mid", (kLeft + kWidth - kRight) / 2, kHeight - kTextGap, x_name);
  svg += label("start", 2, kTop - 12, y_name);
  return svg;
}

// The range of values, never empty and with room around it.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Range widened(double factor) const { return {low / factor, high * factor}; }
};

bool drawable(double value) { return std::isfinite(value) && value > 0; }

Axis across(const Range& range, bool logarithmic) {
  return {range.low, range.high, kLeft, kWidth - kRight, logarithmic};
}
Axis upward(const Range& range, bool logarithmic) {
  return {range.low, range.high, kHeight - kBottom, kTop, logarithmic};
}

std::string style_of(std::size_t series) { return "s" + std::to_string(series % kSeriesColours); }

// Lines over a logarithmic axis; empty where it would have one place only.
std::string lines_over(const std::string& x_name, const std::string& unit, bool logarithmic,
                       const std::vector<Series>& series) {
  Range batches;
  Range values;
  std::vector<double> ticks;
  for (const Series& one : series) {
    for (const auto& [x, y] : one.points) {
      if (!drawable(x) || !drawable(y)) continue;
      batches.add(x);
      values.add(y);
      ticks.push_back(x);
    }
  }
  if (!(batches.high > batches.low)) return {};
  const Axis x = across(batches.widened(1.1), true);
  constexpr double kLeastShare = 0.02;  // of the value that the axis spans at least
  const double room = std::max(0.1 * (values.high - values.low), kLeastShare * values.high);
  const Axis y = logarithmic ? upward(values.widened(1.4), true)
                             : upward({std::max(0.0, values.low - room), values.high + room}, false);
  std::sort(ticks.begin(), ticks.end());
  std::vector<double> apart;
  constexpr double kTickGap = 26;
  for (const double tick : ticks) {
    if (apart.empty() || x.place(tick) - x.place(apart.back()) >= kTickGap) apart.push_back(tick);
  }
  std::string svg = grid(x, apart, x_name, y, unit);
  for (std::size_t i = 0; i < series.size(); ++i) {
    std::string path;
    std::string points;
    for (const auto& [batch, value] : series[i].points) {
      if (!drawable(batch) || !drawable(value)) continue;
      path += (path.empty() ? "M" : "L") + at(x.place(batch)) + ' ' + at(y.place(value));
      points += circle(style_of(i), x.place(batch), y.place(value), 3.5,
                       series[i].label + ", " + x_name + ' ' + compact(batch) + ": " + compact(value) + ' ' + unit);
    }
    if (!path.empty()) svg += "<path" + attribute("class", style_of(i) + " curve") + attribute("d", path) + "/>\n";
    svg += points;
  }
  return svg;
}

}  // namespace

std::string legend(const std::vector<std::string>& labels) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    html += "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"s" + std::to_string(i % kSeriesColours) +
            "\" width=\"12\" height=\"12\"/></svg>" + escaped(labels[i]) + "</li>";
  }
  return html + "</ul>\n";
}

std::string histogram_chart(const std::string& title, const Histogram& histogram, const Statistics& statistics) {
  if (histogram.counts.empty()) return {};
  // Equal samples have no width of their own.
  const double bin = histogram.bin > 0 ? histogram.bin : std::max(histogram.low, 1e-6) / 100;
  const double end = histogram.low + bin * static_cast<double>(histogram.counts.size());
  const std::size_t most =
      std::max<std::size_t>(1, *std::max_element(histogram.counts.begin(), histogram.counts.end()));
  const Axis x = across({histogram.low, end}, false);
  const Axis y = upward({0, static_cast<double>(most) * 1.12}, false);
  std::string svg = grid(x, linear_ticks(x.low, x.high), "latency of a batch, ms", y, "runs");
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    const double from = histogram.low + bin * static_cast<double>(i);
    const double top = y.place(static_cast<double>(histogram.counts[i]));
    svg += rectangle(
        "s0", x.place(from) + 0.5, top, std::max(1.0, x.place(from + bin) - x.place(from) - 1), y.from - top,
        compact(from) + " to " + compact(from + bin) + " ms: " + std::to_string(histogram.counts[i]) + " runs");
  }
  double free_from = 0;
  constexpr double kLabelWidth = 26;
  for (const auto& [name, value] :
       {std::pair{"p50", statistics.median}, {"p90", statistics.p90}, {"p99", statistics.p99}}) {
    if (value < x.low || value > x.high) continue;
    svg += line("mark", x.place(value), kTop, x.place(value), y.from);
    if (x.place(value) < free_from) continue;
    const bool at_end = x.place(value) + kLabelWidth > kWidth;
    svg += label(at_end ? "end strong" : "start strong", x.place(value) + (at_end ? -3 : 3), kTop + 9, name);
    free_from = x.place(value) + kLabelWidth + (at_end ? 0 : kLabelWidth);
  }
  return picture(title, kHeight, svg);
}

std::string batch_chart(const std::string& title, const std::string& unit, const std::vector<Series>& series) {
  const std::string svg = lines_over("batch", unit, true, series);
  return svg.empty() ? svg : picture(title, kHeight, svg);
}

std::string pictures_chart(const std::string& title, const std::string& unit, const std::vector<Series>& series) {
  const std::string svg = lines_over("pictures", unit, false, series);
  return svg.empty() ? svg : picture(title, kHeight, svg);
}

std::string batch_picture(const std::string& title, const std::string& unit, const std::vector<Series>& series) {
  const std::string chart = lines_over("batch", unit, true, series);
  if (chart.empty()) return {};
  constexpr double kTitle = 22;
  constexpr double kRow = 18;
  constexpr double kColumn = kWidth / 2;
  std::string legend;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double x = 8 + static_cast<double>(i % 2) * kColumn;
    const double y = kHeight + 8 + static_cast<double>(i / 2) * kRow;
    legend += rectangle(style_of(i), x, y, 11, 11, series[i].label);
    legend += label("start", x + 17, y + 10, series[i].label);
  }
  const double height = kTitle + kHeight + 12 + static_cast<double>((series.size() + 1) / 2) * kRow;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\"" +
         attribute("viewBox", "0 0 " + fixed(kWidth, 0) + ' ' + fixed(height, 0)) +
         attribute("width", fixed(kWidth, 0)) + attribute("height", fixed(height, 0)) + " role=\"img\"" +
         attribute("aria-label", title) + ">\n<style>" + kPictureStyle + "</style>\n" +
         "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" + label("title", 2, 15, title) +
         "<g transform=\"translate(0 " + fixed(kTitle, 0) + ")\">\n" + chart + legend + "</g>\n</svg>\n";
}

std::string stacked_bars(const std::string& title, const std::vector<StackedBar>& bars) {
  constexpr double kRow = 38;
  constexpr double kBar = 14;
  double most = 0;
  const auto sum = [](const StackedBar& bar) {
    double total = 0;
    for (const double part : bar.parts) total += part;
    return total;
  };
  for (const StackedBar& bar : bars) most = std::max(most, sum(bar));
  if (!drawable(most)) return {};
  std::string svg;
  double y = 4;
  for (const StackedBar& bar : bars) {
    svg += label("start", 2, y + 10, bar.label);
    svg += label("end", kWidth - 2, y + 10, compact(sum(bar)) + 'B');
    double x = 2;
    for (std::size_t i = 0; i < bar.parts.size(); ++i) {
      const double width = bar.parts[i] / most * (kWidth - 4);
      if (width > 0) svg += rectangle(style_of(i), x, y + 15, width, kBar, compact(bar.parts[i]) + 'B');
      x += width;
    }
    y += kRow;
  }
  return picture(title, y, svg);
}

std::string roofline_chart(const std::string& title, const Roof& roof, const std::vector<RooflinePoint>& points) {
  Range intensities;
  Range speeds;
  for (const RooflinePoint& point : points) {
    if (!drawable(point.intensity) || !drawable(point.flops_per_second)) continue;
    intensities.add(point.intensity);
    speeds.add(point.flops_per_second);
  }
  if (speeds.high <= 0 || !drawable(roof.bytes_per_second) || !drawable(roof.flops_per_second)) return {};
  const double ridge = roof.flops_per_second / roof.bytes_per_second;
  intensities.add(ridge);
  speeds.add(roof.flops_per_second);
  const Axis x = across(intensities.widened(1.6), true);
  const Axis y = upward(speeds.widened(1.8), true);
  std::string svg = grid(x, ticks_of(x), "FLOP per byte", y, "FLOP/s");
  std::string numbers;
  // The slope enters the plot at its left edge or at its foot.
  const double start = std::max(x.low, y.low / roof.bytes_per_second);
  svg += "<path class=\"roof\"" +
         attribute("d", "M" + at(x.place(start)) + ' ' + at(y.place(start * roof.bytes_per_second)) + 'L' +
                            at(x.place(ridge)) + ' ' + at(y.place(roof.flops_per_second)) + 'L' + at(x.to) + ' ' +
                            at(y.place(roof.flops_per_second))) +
         "/>\n";
  for (const RooflinePoint& point : points) {
    if (!drawable(point.intensity) || !drawable(point.flops_per_second)) continue;
    constexpr double kSmallest = 3;
    constexpr double kLargest = 14;
    const double radius = kSmallest + kLargest * std::sqrt(std::clamp(point.share, 0.0, 1.0));
    svg += circle("s0 dot", x.place(point.intensity), y.place(point.flops_per_second), radius, point.label);
    if (!point.number.empty()) {
      numbers += label("start strong", x.place(point.intensity) + radius + 1, y.place(point.flops_per_second) + 4,
                       point.number);
    }
  }
  // Above all dots.
  return picture(title, kHeight, svg + numbers);
}

}  // namespace mobicuda::bench
