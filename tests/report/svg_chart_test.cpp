#include "report/svg_chart.h"

#include <algorithm>

#include "report/html.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench::report;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

struct Place {
  double x;
  double y;
};

// Of the label `text`.
Place place_of(const std::string& svg, const std::string& text) {
  const std::size_t end = svg.find('>' + text + "</text>");
  REQUIRE(end != std::string::npos);
  const std::size_t start = svg.rfind("<text", end);
  const auto number = [&](const char* name) { return std::stod(svg.substr(svg.find(name, start) + 4)); };
  return {number(" x=\""), number(" y=\"")};
}

}  // namespace

TEST_CASE("a line is not drawn across a batch that its series lacks", "[report]") {
  const Series all{"all", {{1, 1}, {8, 2}, {32, 3}, {64, 4}}};
  const Series some{"some", {{1, 5}, {32, 6}, {64, 7}}, 1};
  const std::string svg = batch_chart("title", "ms", {all, some});
  CHECK(count_of(svg, " curve\"") == 2);
  const std::size_t curve = svg.find("s1 curve");
  const std::string path = svg.substr(curve, svg.find("/>", curve) - curve);
  CHECK(count_of(path, "M") == 2);
  CHECK(count_of(path, "L") == 1);
  CHECK(count_of(svg, "<circle") == 7);
  CHECK_THAT(batch_chart("title", "ms", {{"own", {{1, 5}, {64, 7}}, 9, true}}), contains("\"s1 curve dashed\""));
}

TEST_CASE("a small range of values has ticks", "[report]") {
  const std::string svg = batch_chart("title", "ms", {{"one", {{1, 210}, {2, 330}}}});
  CHECK(count_of(svg, "class=\"end\"") >= 3);
}

TEST_CASE("p50, p90 and p99 of a histogram have labels of their own within the picture", "[report]") {
  Statistics statistics;
  statistics.median = 1.46;
  statistics.p90 = 1.495;
  statistics.p99 = 1.5 + 1e-12;  // rounded
  const std::string svg = histogram_chart("title", {1, 0.1, {1, 2, 3, 4, 5}, 0}, statistics);
  CHECK(count_of(svg, "class=\"mark\"") == 3);
  const Place p50 = place_of(svg, "p50");
  const Place p90 = place_of(svg, "p90");
  const Place p99 = place_of(svg, "p99");
  CHECK(p90.y - p50.y > 10);
  CHECK(p99.y - p90.y > 10);
  CHECK_THAT(svg, contains("\"end strong\""));  // the last tick is at the border
  CHECK(place_of(svg, "1.5").x <= 440 - 10);
}

TEST_CASE("numbers of a roofline do not cover each other", "[report]") {
  std::vector<RooflinePoint> points;
  for (int i = 1; i <= 5; ++i) points.push_back({"a layer", std::to_string(i), 10 + 0.1 * i, 1e12, 0.1});
  const std::string svg = roofline_chart("title", {1e12, 1e14}, points);
  for (int i = 1; i <= 5; ++i) {
    for (int j = 1; j < i; ++j) {
      const Place a = place_of(svg, std::to_string(i));
      const Place b = place_of(svg, std::to_string(j));
      INFO(i << " and " << j);
      CHECK(std::max(std::abs(a.x - b.x) / 7, std::abs(a.y - b.y) / 12) >= 0.99);
    }
  }
}

TEST_CASE("bars and tables have the same unit", "[report]") {
  CHECK_THAT(stacked_bars("title", {{"a case", {8000000, 250000}}}), contains(">8.25 MB</text>"));
  CHECK(compact(3.35e12, "B/s") == "3.35 TB/s");
  CHECK(compact(12, "FLOP") == "12 FLOP");
}

TEST_CASE("long names may break between their parts", "[report]") {
  HtmlTable table({"name"}, 1);
  table.add_row({"inverted_residual/small+a<b"});
  table.add_row({"short_name"});
  CHECK_THAT(table.str(), contains(">inverted_<wbr/>residual/<wbr/>small+<wbr/>a&lt;b<"));
  CHECK_THAT(table.str(), contains(">short_name<"));
  CHECK(counted(1, "case") == "1 case");
  CHECK(counted(22, "case") == "22 cases");
}
