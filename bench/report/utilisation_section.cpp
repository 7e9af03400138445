#include "report/utilisation_section.h"

#include <algorithm>
#include <ostream>

#include "report/html.h"
#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

std::string mean_of(const std::optional<SampledRange>& range) { return range ? fixed(range->mean, 0) : "-"; }

// "1755-1980", or "1980" where it did not move.
std::string extent_of(const std::optional<SampledRange>& range) {
  if (!range) return "-";
  const std::string low = fixed(range->min, 0);
  const std::string high = fixed(range->max, 0);
  return low == high ? low : low + "-" + high;
}

std::string gigabytes_of(const std::optional<std::int64_t>& bytes) {
  return bytes ? fixed(static_cast<double>(*bytes) / 1e9, 2) : "-";
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string reasons_text(const Utilisation& utilisation) {
  if (!utilisation.clock_reasons) return "-";
  return utilisation.clock_reasons->empty() ? "none" : joined(*utilisation.clock_reasons);
}

std::string energy_text(const Utilisation& utilisation) {
  constexpr int kDecimals = 3;
  if (!utilisation.energy_per_picture_j) return "-";
  return fixed(*utilisation.energy_per_picture_j * 1e3, kDecimals) +
         (utilisation.energy_source == EnergySource::Counter ? " (counter)" : " (power)");
}

// Documents from before it was left out have power and energy of cases that took turns: means over longer than a turn.
Utilisation own_part(Utilisation utilisation) {
  if (!utilisation.alternated) return utilisation;
  utilisation.power_w.reset();
  utilisation.energy_per_picture_j.reset();
  utilisation.energy_source.reset();
  return utilisation;
}

bool on_gpu(const CaseResult& result) {
  return result.enqueue_ms || (result.utilisation && result.utilisation->samples > 0);
}

TableCells cells_of(const Report& report) {
  TableCells cells;
  const auto any = [&](const auto& holds) { return std::any_of(report.cases.begin(), report.cases.end(), holds); };
  const bool gpu = any(on_gpu);
  const bool sampled = any([](const CaseResult& result) { return result.utilisation.has_value(); });
  if (!gpu && !sampled) return cells;
  cells.header = {"implementation", "batch"};
  if (sampled) cells.header.emplace_back("CPU %");
  if (gpu) cells.header.emplace_back("enqueue ms");
  if (gpu && sampled) {
    cells.header.insert(cells.header.end(), {"samples", "GPU %", "memory %", "used GB", "SM MHz", "W", "C",
                                             "mJ/picture", "clocks held back by"});
  }
  for (const CaseResult& result : report.cases) {
    const Utilisation u = result.utilisation.value_or(Utilisation());
    std::vector<std::string> row{result.label(), std::to_string(result.batch)};
    if (sampled) row.push_back(u.cpu_percent ? fixed(*u.cpu_percent, 0) : "-");
    if (gpu) row.push_back(result.enqueue_ms ? milliseconds(*result.enqueue_ms) : "-");
    if (gpu && sampled) {
      row.insert(row.end(), {std::to_string(u.samples), mean_of(u.gpu_percent), mean_of(u.memory_percent),
                             gigabytes_of(u.used_bytes)});
      const std::vector<std::string> clocks = clock_cells(u);
      row.insert(row.end(), clocks.begin(), clocks.end());
    }
    cells.rows.push_back(std::move(row));
  }
  return cells;
}

std::vector<std::string> remarks(const Report& report) {
  std::vector<std::string> lines;
  if (!report.gpu_not_sampled.empty()) lines.push_back("GPU not sampled: " + report.gpu_not_sampled);
  const bool mixed = std::any_of(report.cases.begin(), report.cases.end(), [](const CaseResult& result) {
    return result.utilisation && result.utilisation->alternated && result.utilisation->samples > 0;
  });
  if (mixed) {
    lines.emplace_back(
        "GPU % and memory % are means over the cases that were timed in turns: NVML averages over longer than a turn. "
        "Power and energy are left out: --sustained, or one case alone, has its own.");
  }
  return lines;
}

constexpr const char* kTitle = "Utilisation while timed";
constexpr const char* kMeaning =
    "CPU: of one core; GPU: share of time with a kernel, memory: with traffic; used: of all processes; enqueue: the "
    "host's time for one run";

}  // namespace

std::vector<std::string> clock_cells(const Utilisation& measured) {
  const Utilisation utilisation = own_part(measured);
  return {extent_of(utilisation.sm_clock_mhz), mean_of(utilisation.power_w), extent_of(utilisation.temperature_c),
          energy_text(utilisation), reasons_text(utilisation)};
}

std::vector<std::string> timing_warnings(const CaseResult& result) {
  std::vector<std::string> warnings;
  const std::string name = result.label() + ", batch " + std::to_string(result.batch) + ": ";
  if (result.latency().unstable()) {
    warnings.push_back(name + "coefficient of variation " + percent(result.latency().variation, 1) + " is above " +
                       percent(kUnstableVariation, 1) + ": other load, or clocks that are not locked");
  }
  if (result.enqueue_bound()) {
    warnings.push_back(name + "the host may bound the result: it enqueues a run in " +
                       milliseconds(*result.enqueue_ms) + " ms, the GPU takes " +
                       milliseconds(result.device_statistics.median) + " ms");
  }
  if (!result.utilisation) return warnings;
  const Utilisation& utilisation = *result.utilisation;
  if (utilisation.clocks_moved()) {
    warnings.push_back(name + "the SM clock moved, " + extent_of(utilisation.sm_clock_mhz) + " MHz: more than " +
                       percent(kMovedClocks, 1));
  }
  if (utilisation.clock_reasons && !utilisation.clock_reasons->empty()) {
    warnings.push_back(name + "clocks were held back: " + joined(*utilisation.clock_reasons));
  }
  return warnings;
}

void print_utilisation(std::ostream& out, const Report& report) {
  const TableCells cells = cells_of(report);
  if (!cells.header.empty()) {
    TextTable table(cells.header, cells.left_columns);
    for (const std::vector<std::string>& row : cells.rows) table.add_row(row);
    out << '\n' << paragraph(std::string(kTitle) + " (" + kMeaning + ')');
    table.print(out);
  }
  for (const std::string& line : remarks(report)) out << paragraph(line, 2);
}

std::string utilisation_section(const Report& report) {
  const TableCells cells = cells_of(report);
  if (cells.header.empty()) return {};
  HtmlTable table(cells.header, cells.left_columns);
  for (const std::vector<std::string>& row : cells.rows) table.add_row(row);
  std::string html = element("h2", kTitle) + element("p", std::string(kMeaning) + '.');
  for (const std::string& line : remarks(report)) html += element("p", line);
  return html + table.str("wide");
}

}  // namespace mobicuda::bench::report
