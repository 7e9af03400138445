#include "bench_engine/report/batch_charts.h"

#include <algorithm>

#include "bench_engine/report/svg_chart.h"
#include "bench_engine/report/text_table.h"

namespace mobicuda::bench {
namespace {

struct Point {
  std::string label;
  Precision precision;
  double batch;
  double ms;  // median
};

// With the network's name where there are several.
std::string label_of(const PeerResult& one, const Peers& peers) {
  const bool several = one.network != peers.results.front().network;
  return several && !one.network.empty() ? one.label() + ", " + one.network : one.label();
}

std::vector<Point> points_of(const ReportFile& file) {
  std::vector<Point> points;
  for (const CaseResult& one : file.report.cases) {
    points.push_back({one.label(), one.precision, static_cast<double>(one.batch), one.latency().median});
  }
  for (const PeerResult& one : file.peers.results) {
    points.push_back({label_of(one, file.peers), one.precision, static_cast<double>(one.batch), one.median_ms});
  }
  return points;
}

template <class Value>
std::vector<Series> by_batch(const std::vector<Point>& points, Value value) {
  std::vector<Series> series;
  for (const Point& one : points) {
    auto found = std::find_if(series.begin(), series.end(), [&](const Series& s) { return s.label == one.label; });
    if (found == series.end()) found = series.insert(found, {one.label, {}});
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

Group group_of(const std::string& name, const std::vector<Point>& points) {
  return {name, by_batch(points, [](const Point& p) { return p.ms > 0 ? 1e3 * p.batch / p.ms : 0; }),
          by_batch(points, [](const Point& p) { return p.ms; })};
}

std::vector<Group> precision_groups(const std::vector<Point>& points) {
  std::vector<Group> groups;
  for (const Precision precision : {Precision::Fp16, Precision::Fp32, Precision::Tf32, Precision::Fp64}) {
    std::vector<Point> some;
    std::copy_if(points.begin(), points.end(), std::back_inserter(some),
                 [precision](const Point& point) { return point.precision == precision; });
    if (!some.empty()) groups.push_back(group_of(std::string(to_string(precision)), some));
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
  std::vector<std::string> labels;
  for (const Series& one : group.rate) labels.push_back(one.label);
  return legend(labels) + "<div class=\"charts\">\n" + charts + "</div>\n";
}

std::string list(const std::string& what, const std::vector<std::string>& items) {
  std::string html;
  for (const std::string& item : items) html += element("p", what + item);
  return html;
}

}  // namespace

std::string batch_charts(const ReportFile& file) {
  const std::vector<Point> points = points_of(file);
  const Group all = group_of("", points);
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

std::string peers_note(const Peers& peers) {
  return list("Peer: ", peers.setup) + list("Absent: ", peers.absent) + list("Failed: ", peers.failed);
}

}  // namespace mobicuda::bench
