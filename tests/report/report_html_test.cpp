#include "report/report_html.h"

#include <algorithm>

#include "report/html.h"
#include "report/svg_chart.h"
#include "run_document.h"
#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda::bench::report;

namespace {

// Whether every tag is closed in order, and every & begins an entity: what an XML parser would insist on.
std::string why_not_well_formed(const std::string& html) {
  std::vector<std::string> open;
  const std::string style = "<style>";
  const std::size_t css = html.find(style);
  const std::size_t css_end = html.find("</style>");
  for (std::size_t i = html.find("<html"); i < html.size(); ++i) {
    if (i > css && i < css_end) i = css_end;
    if (html[i] == '&') {
      const std::size_t end = html.find(';', i);
      if (end == std::string::npos || end - i > 6) return "a bare & at " + html.substr(i, 40);
    }
    if (html[i] == '>') return "a bare > at " + html.substr(i, 40);
    if (html[i] != '<') continue;
    const std::size_t end = html.find('>', i);
    if (end == std::string::npos) return "an open <";
    const std::string tag = html.substr(i + 1, end - i - 1);
    i = end;
    if (tag.find('<') != std::string::npos) return "a < inside <" + tag + '>';
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "an open quote in <" + tag + '>';
    if (tag.back() == '/') continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (name.front() != '/') {
      open.push_back(name);
    } else if (open.empty() || open.back() != name.substr(1)) {
      return "<" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

}  // namespace

TEST_CASE("text is escaped for HTML", "[report]") {
  CHECK(escaped("a<b>&\"'c") == "a&lt;b&gt;&amp;&quot;&#39;c");
  CHECK(escaped("x\ny\x01z") == "x y\xEF\xBF\xBDz");
}

TEST_CASE("numbers are written with three digits and a unit", "[report]") {
  CHECK(compact(0) == "0");
  CHECK(compact(0.000123) == "0.000123");
  CHECK(compact(999) == "999");
  CHECK(compact(999.9) == "1k");
  CHECK(compact(1234567) == "1.23M");
  CHECK(compact(67e12) == "67T");
}

TEST_CASE("the page of a report is well-formed and holds its numbers", "[report]") {
  const std::string html = html_report(timed_run());
  CHECK(why_not_well_formed(html) == "");
  for (const char* part :
       {"custom fp32", "0.5000", "Roofline of custom fp32, batch 2", "conv2d/direct", "75.00 %", "2.5e-01", "1/2",
        "Throughput by batch", "Latency of cpu fp32, batch 2", "prefers-color-scheme", "width=device-width",
        "<th>bursts, above</th>", "<th>replays, above</th>"}) {
    CHECK_THAT(html, contains(part));
  }
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("http") == std::string::npos);
}

TEST_CASE("comparisons layer by layer have a section, open where a tensor is beyond its threshold", "[report]") {
  CHECK(html_report(timed_run()).find("Layer by layer") == std::string::npos);
  ReportFile file = timed_run();
  file.report.cases[0].layer_comparisons = run().report.cases[0].layer_comparisons;
  const std::string html = html_report(file);
  CHECK(why_not_well_formed(html) == "");
  CHECK_THAT(html, contains("<details open=\"open\"><summary>Layer by layer: custom fp32, batch 2, against cpu fp32"));
  for (const char* part :
       {"<tr class=\"hot worse\"><td class=\"l\">t1&lt;", "FIRST BEYOND", "to_fp32(t1)", "0.750000000"}) {
    CHECK_THAT(html, contains(part));
  }
  file.report.cases[0].layer_comparisons[0].layers.pop_back();
  CHECK_THAT(html_report(file), contains("<details><summary>Layer by layer"));
}

TEST_CASE("the page shows golden outputs, classes, confusions and how accuracy settles", "[report]") {
  ReportFile file = run();
  file.report.cases[0].golden.emplace();
  file.report.cases[0].golden->difference.max_ulp = 12345;
  file.report.fewer_images[0].evaluated = 2;
  const std::string html = html_report(file);
  CHECK(why_not_well_formed(html) == "");
  for (const char* part :
       {"Golden outputs", ">12345<", "Worst classes: 2 of 2", "custom fp32 differs from cpu fp32 on 2 pictures",
        "custom fp32 differs from --referenceLogits on 2 pictures",
        "<td class=\"l\">tench</td><td class=\"l\">goldfish", "Top-1 by number of pictures",
        ">401.5</td><td>800.5</td><td>300.2", "0 (1)"}) {
    CHECK_THAT(html, contains(part));
  }
}

TEST_CASE("names out of a file cannot become markup", "[report]") {
  ReportFile file = run();
  Report& report = file.report;
  const std::string evil = "</title><script>alert(\"&'1')</script>";
  report.cases[0].layers[0].name = evil;
  report.cases[0].layers[0].kernel = evil;
  report.model.path = evil;
  report.machine.gpu = evil;
  report.notes = {evil};
  report.missed = {evil};
  report.error = evil;
  report.images->broken = {{evil, evil}};
  report.images->classes[0].name = evil;
  report.images->results[1].confusion[0].own_name = evil;
  file.path = "a<b>.json";
  file.peers.results.resize(1);
  file.peers.results[0].engine = evil;
  file.peers.setup = file.peers.absent = file.peers.failed = {evil};
  file.record.emplace();
  file.record->date = evil;
  file.record->tests = {{evil, evil, evil, evil, false}};
  file.record->networks = {{evil, evil, 1, 2}};
  file.record->requirements = {{evil, evil, evil, false}};
  for (const std::string& html : {html_report(file), html_comparison(file, file, compare_reports(file, file))}) {
    CHECK(why_not_well_formed(html) == "");
    CHECK(html.find("<script") == std::string::npos);
    CHECK_THAT(html, contains("&lt;script&gt;"));
  }
}

TEST_CASE("kernels that make 90 % of the time are marked", "[report]") {
  ReportFile file = timed_run();
  file.report.cases.resize(1);
  file.report.cases[0].profile.layer_ms = {95, 5};
  const std::string html = html_report(file);
  const std::size_t kernels = html.find("<h4>Kernels");
  const std::size_t layers = html.find("<h4>Layers");
  const std::string table = html.substr(kernels, layers - kernels);
  CHECK_THAT(table, contains("<tr class=\"hot\"><td class=\"l\">conv2d/direct"));
  CHECK_THAT(table, contains("<tr><td class=\"l\">gemm/simt"));
}

TEST_CASE("a report without results, samples or profile still makes a page", "[report]") {
  ReportFile file;
  file.report.error = "device_lost";
  const std::string html = html_report(file);
  CHECK(why_not_well_formed(html) == "");
  CHECK_THAT(html, contains("The run ended early: device_lost"));
  CHECK_THAT(html, contains("Nothing was timed"));
  CaseResult untimed;
  untimed.implementation = "cpu";
  file.report.cases = {untimed};
  CHECK(why_not_well_formed(html_report(file)) == "");
}

TEST_CASE("charts of extreme numbers end", "[report]") {
  Statistics statistics;
  CHECK(histogram_chart("none", Histogram(), statistics).empty());
  for (const double value : {0.0, 1e-320, 1e-300, 1e300, 1.7e308}) {
    const Histogram bins{value, value / 7, {1, 0, 3}, 2};
    CHECK_FALSE(histogram_chart("bins", bins, statistics).empty());
    CHECK(roofline_chart("one", {value, value}, {{"a", "1", value, value, 1}}).size() < 20000);
    CHECK(batch_chart("two", "ms", {{"a", {{1, value}, {1e18, 1}}}}).size() < 20000);
  }
}
