#include "report/sustained_section.h"

#include <cctype>
#include <ostream>
#include <vector>

#include "report/html.h"
#include "report/utilisation_section.h"
#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

std::string median_of(const Statistics& statistics) {
  return statistics.count > 0 ? milliseconds(statistics.median) : "-";
}

TableCells single_call_cells(const Report& report) {
  TableCells cells{
      {"implementation", "batch", "replays, above", "call, warm", "after rest", "after rest, p99", "L2 swept"}, {}};
  for (const CaseResult& result : report.cases) {
    if (!result.single_calls) continue;
    const SingleCalls& calls = *result.single_calls;
    cells.rows.push_back({result.label(), std::to_string(result.batch), median_of(result.device_statistics),
                          median_of(calls.warm), median_of(calls.after_rest),
                          calls.after_rest.count > 0 ? milliseconds(calls.after_rest.p99) : "-",
                          median_of(calls.swept)});
  }
  return cells;
}

TableCells sustained_cells(const Report& report) {
  TableCells cells{{"implementation", "batch", "seconds", "pictures/s", "bursts, above", "SM MHz", "W", "C",
                    "mJ/picture", "clocks held back by"},
                   {}};
  for (const CaseResult& result : report.cases) {
    if (!result.sustained || result.sustained->seconds <= 0) continue;  // Ctrl-C came before
    const Sustained& sustained = *result.sustained;
    std::vector<std::string> row{result.label(), std::to_string(result.batch), fixed(sustained.seconds, 1),
                                 fixed(sustained.pictures_per_second(result.batch), 1),
                                 fixed(result.pictures_per_second(), 1)};
    const std::vector<std::string> clocks = clock_cells(sustained.utilisation.value_or(Utilisation()));
    row.insert(row.end(), clocks.begin(), clocks.end());
    cells.rows.push_back(std::move(row));
  }
  return cells;
}

constexpr const char* kSingleCallsTitle = "Single calls on an idle GPU, median ms";
constexpr const char* kSingleCallsMeaning =
    "host's clock from the call to its end, input on the device: one after the other, after 2 ms of rest, after other "
    "data passed through L2; replays, above: GPU time of the tables above, of a GPU that is kept busy, which a record "
    "has from another process";
constexpr const char* kSustainedTitle = "Each case alone";
constexpr const char* kSustainedMeaning =
    "pictures by wall time; bursts, above: those of the tables above, which a record has from another process; clocks, "
    "power and energy are the case's own";

void print(std::ostream& out, const char* title, const char* meaning, const TableCells& cells) {
  if (cells.rows.empty()) return;
  TextTable table(cells.header, cells.left_columns);
  for (const std::vector<std::string>& row : cells.rows) table.add_row(row);
  out << '\n' << paragraph(std::string(title) + " (" + meaning + ')');
  table.print(out);
}

std::string section(const char* title, const char* meaning, const TableCells& cells) {
  if (cells.rows.empty()) return {};
  HtmlTable table(cells.header, cells.left_columns);
  for (const std::vector<std::string>& row : cells.rows) table.add_row(row);
  std::string sentence = std::string(meaning) + '.';
  sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
  return element("h2", title) + element("p", sentence) + table.str("wide");
}

}  // namespace

void print_single_calls(std::ostream& out, const Report& report) {
  print(out, kSingleCallsTitle, kSingleCallsMeaning, single_call_cells(report));
}

void print_sustained(std::ostream& out, const Report& report) {
  print(out, kSustainedTitle, kSustainedMeaning, sustained_cells(report));
}

std::string single_calls_section(const Report& report) {
  return section(kSingleCallsTitle, kSingleCallsMeaning, single_call_cells(report));
}

std::string sustained_section(const Report& report) {
  return section(kSustainedTitle, kSustainedMeaning, sustained_cells(report));
}

}  // namespace mobicuda::bench::report
