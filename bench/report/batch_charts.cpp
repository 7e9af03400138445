#include "report/batch_charts.h"

#include <algorithm>
#include <set>

#include "report/svg_chart.h"
#include "text/numbers.h"

namespace mobicuda::bench::report {
namespace {

struct Point {
  std::string engine;  // keeps its colour in all charts
  std::string label;
  std::string precision;
  double batch;
  double ms;  // median
  bool on_cpu;
};

// With the network's name where there are several.
std::string with_network(const std::string& label, const PeerResult& one, const Peers& peers) {
  const bool several = one.network != peers.results.front().network;
  return several && !one.network.empty() ? label + ", " + one.network : label;
}

std::string label_of(const PeerResult& one, const Peers& peers) { return with_network(one.label(), one, peers); }

std::string engine_of(const CaseResult& one) {
  return one.threads ? one.implementation + ", " + std::to_string(*one.threads) : one.implementation;
}

std::vector<Point> points_of(const ReportFile& file) {
  std::vector<Point> points;
  for (const CaseResult& one : file.report.cases) {
    points.push_back({engine_of(one), one.label(), one.precision, static_cast<double>(one.batch), one.latency().median,
                      one.implementation == "cpu"});
  }
  for (const PeerResult& one : fastest_of_families(file.peers)) {
    const std::string label = one.family + ' ' + one.precision;
    points.push_back({with_network(one.family, one, file.peers), with_network(label, one, file.peers), one.precision,
                      static_cast<double>(one.batch), one.median_ms, one.on_cpu});
  }
  // Marked among others only.
  if (std::all_of(points.begin(), points.end(), [](const Point& point) { return point.on_cpu; })) {
    for (Point& point : points) point.on_cpu = false;
  }
  return points;
}

// Names in the order in which they come first: a place is a colour.
using Colours = std::vector<std::string>;

Colours colours_of(const std::vector<Point>& points, std::string Point::*name) {
  Colours colours;
  for (const Point& one : points) {
    if (std::find(colours.begin(), colours.end(), one.*name) == colours.end()) colours.push_back(one.*name);
  }
  return colours;
}

template <class Value>
std::vector<Series> by_batch(const std::vector<Point>& points, const Colours& colours, std::string Point::*name,
                             Value value) {
  std::vector<Series> series;
  for (const Point& one : points) {
    auto found = std::find_if(series.begin(), series.end(), [&](const Series& s) { return s.label == one.label; });
    if (found == series.end()) {
      const auto colour = std::find(colours.begin(), colours.end(), one.*name) - colours.begin();
      found = series.insert(found, {one.label, {}, static_cast<std::size_t>(colour), one.on_cpu});
    }
    found->points.emplace_back(one.batch, value(one));
  }
  for (Series& one : series) std::sort(one.points.begin(), one.points.end());
  return series;
}

// What the charts of one heading show.
struct Group {
  std::string name;  // empty: everything
  std::vector<Series> rate;
  std::vector<Series> latency;
};

Group group_of(const std::string& name, const std::vector<Point>& points, const Colours& colours,
               std::string Point::*coloured) {
  return {name, by_batch(points, colours, coloured, [](const Point& p) { return p.ms > 0 ? 1e3 * p.batch / p.ms : 0; }),
          by_batch(points, colours, coloured, [](const Point& p) { return p.ms; })};
}

std::vector<Group> precision_groups(const std::vector<Point>& points) {
  const Colours engines = colours_of(points, &Point::engine);
  std::vector<Group> groups;
  for (const std::string precision : {"fp16", "fp32", "fp32_split", "tf32", "fp64"}) {
    std::vector<Point> some;
    std::copy_if(points.begin(), points.end(), std::back_inserter(some),
                 [&](const Point& point) { return point.precision == precision; });
    if (!some.empty()) groups.push_back(group_of(precision, some, engines, &Point::engine));
  }
  return groups;
}

constexpr std::size_t kReadable = 4;  // more lines cross each other too often
constexpr const char* kRate = "Throughput by batch";
constexpr const char* kLatency = "Median latency by batch";

std::string charts_of(const Group& group) {
  const std::string suffix = group.name.empty() ? "" : ", " + group.name;
  const std::string charts =
      batch_chart(kRate + suffix, "pictures/s", group.rate) + batch_chart(kLatency + suffix, "ms", group.latency);
  if (charts.empty()) return {};
  return legend(group.rate) + "<div class=\"charts\">\n" + charts + "</div>\n";
}

// "PyTorch eager fp16, batches 8, 128", of those that have results, and lack batches that we have.
std::vector<std::string> lacking_batches(const ReportFile& file) {
  const std::vector<Point> points = points_of(file);
  std::vector<std::string> lacking;
  for (auto one = points.begin() + static_cast<std::ptrdiff_t>(file.report.cases.size()); one != points.end(); ++one) {
    const auto same = [&](const Point& other) { return other.label == one->label; };
    if (std::any_of(points.begin(), one, same)) continue;  // done
    std::set<std::int64_t> batches;
    for (const CaseResult& own : file.report.cases) {
      if (own.precision == one->precision) batches.insert(own.batch);
    }
    for (auto other = one; other != points.end(); ++other) {
      if (same(*other)) batches.erase(static_cast<std::int64_t>(other->batch));
    }
    std::string text;
    for (const std::int64_t batch : batches) text += (text.empty() ? "" : ", ") + std::to_string(batch);
    if (!text.empty()) lacking.push_back(one->label + (batches.size() == 1 ? ", batch " : ", batches ") + text);
  }
  return lacking;
}

std::string list(const std::string& what, const std::vector<std::string>& items) {
  std::string html;
  for (const std::string& item : items) html += element("p", what + item);
  return html;
}

}  // namespace

std::string batch_charts(const ReportFile& file) {
  const std::vector<Point> points = points_of(file);
  const Group all = group_of("", points, colours_of(points, &Point::label), &Point::label);
  std::string charts;
  if (all.rate.size() <= kReadable) {
    charts = charts_of(all);
  } else {
    for (const Group& group : precision_groups(points)) charts += charts_of(group);
  }
  return charts;
}

std::vector<std::pair<std::string, std::string>> batch_pictures(const ReportFile& file) {
  std::vector<std::pair<std::string, std::string>> pictures;
  for (const Group& group : precision_groups(points_of(file))) {
    const std::string rate = batch_picture(std::string(kRate) + ", " + group.name, "pictures/s", group.rate);
    const std::string latency = batch_picture(std::string(kLatency) + ", " + group.name, "ms", group.latency);
    if (rate.empty()) continue;
    pictures.emplace_back("throughput_" + group.name + ".svg", rate);
    pictures.emplace_back("latency_" + group.name + ".svg", latency);
  }
  return pictures;
}

void add_peer_rows(const ReportFile& file, HtmlTable& table) {
  const std::vector<CaseResult>& cases = file.report.cases;
  for (const PeerResult& one : file.peers.results) {
    const auto reference = std::find_if(cases.begin(), cases.end(), [&](const CaseResult& result) {
      return result.label() == file.report.reference && result.batch == one.batch;
    });
    std::string speed_up = "-";
    if (reference != cases.end() && one.median_ms > 0) {
      speed_up = fixed(reference->latency().median / one.median_ms, 2) + "x";
    }
    table.add_row({label_of(one, file.peers), std::to_string(one.batch), fixed(one.mean_ms, 4), fixed(one.median_ms, 4),
                   fixed(one.p90_ms, 4), "-", "-", "-", "-", "-", one.runs > 0 ? std::to_string(one.runs) : "-",
                   fixed(one.pictures_per_second(), 1), speed_up},
                  "peer");
  }
}

std::string peers_note(const ReportFile& file) {
  const Peers& peers = file.peers;
  std::string without;
  for (const std::string& one : lacking_batches(file)) without += (without.empty() ? "No result of " : "; ") + one;
  if (!without.empty()) without = element("p", without + '.');
  if (fastest_of_families(peers).size() < peers.results.size()) {
    without +=
        element("p", "Charts show the fastest memory format of a peer, and the fastest of its modes named compile.");
  }
  return list("Peer: ", peers.setup) + list("Absent: ", peers.absent) + list("Failed: ", peers.failed) + without;
}

}  // namespace mobicuda::bench::report
