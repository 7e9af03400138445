#include "report/report_activities.h"

#include <numeric>
#include <ostream>

#include "report/html.h"
#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

std::string summary(const std::vector<ActivityRow>& rows, int runs) {
  return microseconds(total_ms(rows) / runs) + " us a run";
}

std::vector<std::string> cells(const ActivityRow& row, double total, double sum, int runs) {
  return {std::to_string(row.calls), microseconds(row.total_ms / runs), microseconds(row.mean_ms()),
          microseconds(row.min_ms),  microseconds(row.max_ms),          percent(row.total_ms, total),
          percent(sum, total)};
}

// Calls `add` with each row, whether it is among those that make 90 %, and its numbers.
template <class Add>
void for_rows(const std::vector<ActivityRow>& rows, int runs, Add add) {
  const double total = total_ms(rows);
  const std::size_t hot = count_hot(rows);
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    sum += rows[i].total_ms;
    add(rows[i], i < hot, cells(rows[i], total, sum, runs));
  }
}

void print_rows(std::ostream& out, const std::vector<ActivityRow>& rows, int runs) {
  TextTable table({"90 %", "kind", "name", "calls", "us/run", "mean us", "min us", "max us", "share", "sum"}, 3);
  for_rows(rows, runs, [&](const ActivityRow& row, bool hot, std::vector<std::string> numbers) {
    std::vector<std::string> line{hot ? "*" : "", row.kind, row.name};
    line.insert(line.end(), numbers.begin(), numbers.end());
    table.add_row(std::move(line));
  });
  table.print(out);
}

std::string html_rows(const std::string& title, const std::vector<ActivityRow>& rows, int runs) {
  HtmlTable table({"name", "kind", "90 %", "calls", "us a run", "mean us", "min us", "max us", "share", "sum"}, 3);
  for_rows(rows, runs, [&](const ActivityRow& row, bool hot, std::vector<std::string> numbers) {
    std::vector<std::string> line{row.name, row.kind, hot ? "\xE2\x97\x8F" : ""};
    line.insert(line.end(), numbers.begin(), numbers.end());
    table.add_row(line, hot ? "hot" : "");
  });
  return element("h4", title + ": " + summary(rows, runs)) + table.str();
}

std::string lost(const ActivityTables& tables) {
  return std::to_string(tables.dropped) + " records were lost: the numbers are too small.";
}

}  // namespace

double total_ms(const std::vector<ActivityRow>& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double sum, const ActivityRow& row) { return sum + row.total_ms; });
}

std::size_t count_hot(const std::vector<ActivityRow>& rows) {
  const double wanted = kHotShare * total_ms(rows);
  double sum = 0;
  std::size_t count = 0;
  while (count < rows.size() && sum < wanted) sum += rows[count++].total_ms;
  return count;
}

std::string layers_sum(const LayerProfile& profile) {
  const double sum = profile.sum_ms();
  std::string text = fixed(sum, 4) + " ms in sum";
  if (profile.whole_ms > 0) {
    text += ", " + fixed(profile.whole_ms, 4) + " ms as a whole: " + fixed(100 * sum / profile.whole_ms, 1) + " %";
  }
  if (profile.boundary_ms > 0) {
    text += " (" + microseconds(profile.boundary_ms) + " us for a reading of the clock are taken off)";
  }
  return text;
}

void print_activities(std::ostream& out, const CaseResult& result) {
  if (!result.activities) return;
  const ActivityTables& tables = *result.activities;
  const std::string name = result.label() + ", batch " + std::to_string(result.batch);
  out << '\n'
      << paragraph("GPU activities of " + name + ", " + std::to_string(tables.runs) +
                   " staged runs under the profiler: " + summary(tables.gpu, tables.runs) + " (* makes 90 %)");
  print_rows(out, tables.gpu, tables.runs);
  out << "\nCUDA calls of " << name << ": " << summary(tables.calls, tables.runs) << " on the host\n";
  print_rows(out, tables.calls, tables.runs);
  if (tables.dropped > 0) out << "  warning: " << lost(tables) << '\n';
}

std::string activities_section(const Report& report) {
  std::string html;
  for (const CaseResult& result : report.cases) {
    if (!result.activities) continue;
    const ActivityTables& tables = *result.activities;
    html += html.empty() ? "<details open=\"open\">" : "<details>";
    html += element("summary", result.label() + ", batch " + std::to_string(result.batch) + ": " +
                                   std::to_string(tables.runs) + " staged runs");
    if (tables.dropped > 0) html += "<p class=\"warning\">" + escaped(lost(tables)) + "</p>\n";
    html += html_rows("GPU activities", tables.gpu, tables.runs) +
            html_rows("CUDA calls on the host", tables.calls, tables.runs) + "</details>\n";
  }
  if (html.empty()) return {};
  return "<h2>Kernels and CUDA calls</h2>\n" +
         element("p",
                 "Recorded under a profiler (CUPTI) after the timing. Kernels may overlap, so that their sum is no "
                 "latency. Marked: those that make 90 % of the time.") +
         html;
}

}  // namespace mobicuda::bench::report
