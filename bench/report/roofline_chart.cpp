#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "report/svg_chart.h"
#include "report/svg_parts.h"

namespace mobicuda::bench::report {

using namespace svg;

namespace {

bool has_place(const RooflinePoint& point) { return drawable(point.intensity) && drawable(point.flops_per_second); }

struct Dot {
  double x;
  double y;
  double radius;
};

// Where a number stands: its middle, and half its size.
struct Box {
  double x;
  double y;
  double half_width;
  double half_height;

  bool overlaps(const Box& other) const {
    return std::abs(x - other.x) < half_width + other.half_width &&
           std::abs(y - other.y) < half_height + other.half_height;
  }
  bool inside() const {
    return x - half_width >= kLeft && x + half_width <= kWidth && y - half_height >= 0 &&
           y + half_height <= kHeight - kBottom;
  }
};

// Beside the dot where nothing of `taken` is, else farther away; beside it where there is no room at all.
Box free_place(const Dot& dot, const std::string& text, const std::vector<Box>& taken) {
  constexpr double kHalfLine = 6;
  constexpr double kDiagonal = 0.7071;
  constexpr std::array<std::pair<double, double>, 8> kDirections{{{1, 0},
                                                                  {-1, 0},
                                                                  {0, -1},
                                                                  {0, 1},
                                                                  {kDiagonal, -kDiagonal},
                                                                  {-kDiagonal, -kDiagonal},
                                                                  {kDiagonal, kDiagonal},
                                                                  {-kDiagonal, kDiagonal}}};
  const double half_width = text_width(text) / 2;
  const auto at_distance = [&](double distance, const std::pair<double, double>& direction) {
    return Box{dot.x + direction.first * (distance + half_width), dot.y + direction.second * (distance + kHalfLine),
               half_width, kHalfLine};
  };
  for (const double gap : {1.0, 9.0, 18.0, 30.0, 45.0}) {
    for (const auto& direction : kDirections) {
      const Box box = at_distance(dot.radius + gap, direction);
      const bool free = std::none_of(taken.begin(), taken.end(), [&](const Box& one) { return one.overlaps(box); });
      if (free && box.inside()) return box;
    }
  }
  return at_distance(dot.radius + 1, kDirections.front());
}

// The numbers of the dots, none over another one or over a numbered dot's middle, with lines to those that stand apart.
std::string numbers_of(const std::vector<RooflinePoint>& points, const std::vector<Dot>& dots) {
  constexpr double kMiddle = 2;
  constexpr double kBaseline = 4;
  constexpr double kApart = 4;
  std::vector<Box> taken;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points[i].number.empty()) taken.push_back({dots[i].x, dots[i].y, kMiddle, kMiddle});
  }
  std::string lines;
  std::string labels;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].number.empty()) continue;
    const Box box = free_place(dots[i], points[i].number, taken);
    taken.push_back(box);
    const double beyond =
        std::max(std::abs(box.x - dots[i].x) - box.half_width, std::abs(box.y - dots[i].y) - box.half_height);
    if (beyond > dots[i].radius + kApart) lines += line("leader", dots[i].x, dots[i].y, box.x, box.y);
    labels += label("mid strong", box.x, box.y + kBaseline, points[i].number);
  }
  return lines + labels;
}

}  // namespace

std::string roofline_chart(const std::string& title, const Roof& roof, const std::vector<RooflinePoint>& points) {
  Range intensities;
  Range speeds;
  std::vector<RooflinePoint> shown;
  for (const RooflinePoint& point : points) {
    if (!has_place(point)) continue;
    intensities.add(point.intensity);
    speeds.add(point.flops_per_second);
    shown.push_back(point);
  }
  if (speeds.high <= 0 || !drawable(roof.bytes_per_second) || !drawable(roof.flops_per_second)) return {};
  const double ridge = roof.flops_per_second / roof.bytes_per_second;
  intensities.add(ridge);
  speeds.add(roof.flops_per_second);
  const Axis x = across(intensities.widened(1.6), true);
  const Axis y = upward(speeds.widened(1.8), true);
  std::string svg = grid(x, x.ticks(), "FLOP per byte", y, "FLOP/s");
  // The slope enters the plot at its left edge or at its foot.
  const double start = std::max(x.low, y.low / roof.bytes_per_second);
  svg += "<path class=\"roof\"" +
         attribute("d", "M" + at(x.place(start)) + ' ' + at(y.place(start * roof.bytes_per_second)) + 'L' +
                            at(x.place(ridge)) + ' ' + at(y.place(roof.flops_per_second)) + 'L' + at(x.to) + ' ' +
                            at(y.place(roof.flops_per_second))) +
         "/>\n";
  std::vector<Dot> dots;
  for (const RooflinePoint& point : shown) {
    constexpr double kSmallest = 3;
    constexpr double kLargest = 14;
    dots.push_back({x.place(point.intensity), y.place(point.flops_per_second),
                    kSmallest + kLargest * std::sqrt(std::clamp(point.share, 0.0, 1.0))});
    svg += circle("s0 dot", dots.back().x, dots.back().y, dots.back().radius, point.label);
  }
  return picture(title, kHeight, svg + numbers_of(shown, dots));  // above all dots
}

}  // namespace mobicuda::bench::report
