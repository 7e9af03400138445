#include "report/svg_chart.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "report/html.h"
#include "report/report_style.h"
#include "report/svg_parts.h"
#include "text/numbers.h"

namespace mobicuda::bench::report {

using namespace svg;

namespace {

std::string style_of(std::size_t series) { return "s" + std::to_string(series % kSeriesColours); }

std::string legend_text(const Series& series) { return series.label + (series.on_cpu ? " (CPU)" : ""); }

// Through the points of a series, not across an x of `all` that it lacks.
std::string path_of(const Series& series, const std::vector<double>& all, const Axis& x, const Axis& y) {
  std::string path;
  double before = 0;
  for (const auto& [batch, value] : series.points) {
    if (!drawable(batch) || !drawable(value)) continue;
    const bool on = before > 0 && std::none_of(all.begin(), all.end(), [&, here = batch](double other) {
                      return before < other && other < here;
                    });
    path += (on ? "L" : "M") + at(x.place(batch)) + ' ' + at(y.place(value));
    before = batch;
  }
  return path.find('L') == std::string::npos ? std::string() : path;
}

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
  for (const Series& one : series) {
    const std::string style = style_of(one.colour);
    const std::string curve = path_of(one, ticks, x, y);
    if (!curve.empty()) {
      svg += "<path" + attribute("class", style + (one.on_cpu ? " curve dashed" : " curve")) + attribute("d", curve) +
             "/>\n";
    }
    for (const auto& [batch, value] : one.points) {
      if (!drawable(batch) || !drawable(value)) continue;
      svg += circle(style, x.place(batch), y.place(value), 3.5,
                    legend_text(one) + ", " + x_name + ' ' + compact(batch) + ": " + compact(value) + ' ' + unit);
    }
  }
  return svg;
}

// Lines with labels, one below the other: they may be close, and p99 is at the right border. Rounding may place it a
// little beyond.
std::string percentiles(const Statistics& statistics, const Axis& x, double bin, double foot) {
  constexpr double kRow = 13;
  constexpr double kGap = 3;
  std::string lines;
  std::string labels;
  double y = kTop + 9;
  for (const auto& [name, value] :
       {std::pair{"p50", statistics.median}, {"p90", statistics.p90}, {"p99", statistics.p99}}) {
    if (!(value >= x.low && value <= x.high + bin)) continue;
    const double place = x.place(std::min(value, x.high));
    const bool at_end = place + kGap + text_width(name) > kWidth;
    lines += line("mark", place, kTop, place, foot);
    labels += label(at_end ? "end strong" : "start strong", place + (at_end ? -kGap : kGap), y, name);
    y += kRow;
  }
  return lines + labels;
}

}  // namespace

std::string legend(const std::vector<Series>& series) {
  std::string html = "<ul class=\"legend\">";
  for (const Series& one : series) {
    html += "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"" + style_of(one.colour) +
            "\" width=\"12\" height=\"12\"/></svg>" + escaped(legend_text(one)) + "</li>";
  }
  return html + "</ul>\n";
}

std::string legend(const std::vector<std::string>& labels) {
  std::vector<Series> series;
  for (const std::string& label : labels) series.push_back({label, {}, series.size()});
  return legend(series);
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
  std::string svg = grid(x, x.ticks(), "latency of a batch, ms", y, "times");
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    const double from = histogram.low + bin * static_cast<double>(i);
    const double top = y.place(static_cast<double>(histogram.counts[i]));
    svg += rectangle(
        "s0", x.place(from) + 0.5, top, std::max(1.0, x.place(from + bin) - x.place(from) - 1), y.from - top,
        compact(from) + " to " + compact(from + bin) + " ms: " + std::to_string(histogram.counts[i]) + " times");
  }
  return picture(title, kHeight, svg + percentiles(statistics, x, bin, y.from));
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
    const std::size_t row = i / 2;
    const double y = kHeight + 8 + static_cast<double>(row) * kRow;
    legend += rectangle(style_of(series[i].colour), x, y, 11, 11, legend_text(series[i]));
    legend += label("start", x + 17, y + 10, legend_text(series[i]));
  }
  const std::size_t rows = (series.size() + 1) / 2;
  const double height = kTitle + kHeight + 12 + static_cast<double>(rows) * kRow;
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
  std::int64_t most = 0;
  const auto sum = [](const StackedBar& bar) {
    return std::accumulate(bar.parts.begin(), bar.parts.end(), std::int64_t{0});
  };
  for (const StackedBar& bar : bars) most = std::max(most, sum(bar));
  if (most <= 0) return {};
  std::string svg;
  double y = 4;
  for (const StackedBar& bar : bars) {
    svg += label("start", 2, y + 10, bar.label);
    svg += label("end", kWidth - 2, y + 10, megabytes(sum(bar)));
    double x = 2;
    for (std::size_t i = 0; i < bar.parts.size(); ++i) {
      const double width = static_cast<double>(bar.parts[i]) / static_cast<double>(most) * (kWidth - 4);
      if (width > 0) svg += rectangle(style_of(i), x, y + 15, width, kBar, megabytes(bar.parts[i]));
      x += width;
    }
    y += kRow;
  }
  return picture(title, y, svg);
}

}  // namespace mobicuda::bench::report
