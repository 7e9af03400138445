#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/document.h"

namespace mobicuda::bench::report {

/// Of the style sheet; then they repeat.
inline constexpr std::size_t kSeriesColours = 8;

struct Series {
  std::string label;
  std::vector<std::pair<double, double>> points;  ///< ascending x
  std::size_t colour = 0;
  bool on_cpu = false;  ///< among those of a GPU: dashed, and marked in the legend
};

/// The colours of a chart's series.
std::string legend(const std::vector<Series>& series);

/// The colours of the parts of bars, or of series numbered from 0.
std::string legend(const std::vector<std::string>& labels);

/// Bars of counts, with the median, p90 and p99 as lines.
std::string histogram_chart(const std::string& title, const Histogram& histogram, const Statistics& statistics);

/// Lines over batch sizes, both axes logarithmic. Points that are not positive are left out. A line ends where its
/// series lacks a batch that another one has.
std::string batch_chart(const std::string& title, const std::string& unit, const std::vector<Series>& series);

/// The same as a picture file of its own, with a legend and colours for light and dark screens.
std::string batch_picture(const std::string& title, const std::string& unit, const std::vector<Series>& series);

/// Lines over numbers of pictures; the values' axis is linear.
std::string pictures_chart(const std::string& title, const std::string& unit, const std::vector<Series>& series);

/// Parts of a whole on one line each, in bytes.
struct StackedBar {
  std::string label;
  std::vector<std::int64_t> parts;
};
std::string stacked_bars(const std::string& title, const std::vector<StackedBar>& bars);

/// What a processor can do at most.
struct Roof {
  double bytes_per_second = 0;
  double flops_per_second = 0;
};

struct RooflinePoint {
  std::string label;     ///< shown when pointed at
  std::string number;    ///< beside the point; may be empty
  double intensity = 0;  ///< FLOP per byte
  double flops_per_second = 0;
  double share = 0;  ///< of the time, 0 to 1: the point's area
};

/// Attained FLOP/s over FLOP/byte, below the roof. Points that are not positive are left out.
std::string roofline_chart(const std::string& title, const Roof& roof, const std::vector<RooflinePoint>& points);

}  // namespace mobicuda::bench::report
