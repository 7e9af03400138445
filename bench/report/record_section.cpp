#include "report/record_section.h"

#include <algorithm>
#include <map>

#include "report/html.h"
#include "report/record_networks.h"
#include "text/numbers.h"

namespace mobicuda::bench::report {
namespace {

constexpr std::size_t kShownHash = 12;

std::size_t count_met(const MachineRecord& record) {
  return static_cast<std::size_t>(std::count_if(record.requirements.begin(), record.requirements.end(),
                                                [](const Requirement& one) { return one.met; }));
}

std::string requirements(const MachineRecord& record) {
  if (record.requirements.empty()) return {};
  HtmlTable table({"requirement", "target", "measured", ""}, 3);
  for (const Requirement& one : record.requirements) {
    table.add_row({one.name, one.target, one.measured, one.met ? "met" : "missed"}, one.met ? "" : "missed");
  }
  return element("h3", "Requirements") + table.str();
}

std::string check_table(const std::string& title, const std::vector<CheckRun>& runs) {
  if (runs.empty()) return {};
  const bool tools = std::any_of(runs.begin(), runs.end(), [](const CheckRun& run) { return !run.tool.empty(); });
  std::vector<std::string> header{"program", "tests", "result", ""};
  if (tools) header.insert(header.begin(), "tool");
  HtmlTable table(header, header.size() - 1);
  for (const CheckRun& run : runs) {
    std::vector<std::string> row{run.program, run.filter, run.summary, run.passed ? "passed" : "failed"};
    if (tools) row.insert(row.begin(), run.tool);
    table.add_row(row, run.passed ? "" : "missed");
  }
  return element("h3", title) + table.str();
}

std::string conformance_table(const std::vector<ConformanceCount>& counts) {
  if (counts.empty()) return {};
  const auto cell = [](const std::optional<std::int64_t>& count) { return count ? std::to_string(*count) : "-"; };
  HtmlTable table({"implementation", "test models", "passed", "passed from constants", "refused by the importer",
                   "refused by the engine", "out of scope", "failed"},
                  1);
  for (const ConformanceCount& one : counts) {
    table.add_row({one.implementation, std::to_string(one.cases), std::to_string(one.passed),
                   cell(one.passed_as_constant), cell(one.refused_by_importer), cell(one.refused_by_engine),
                   cell(one.out_of_scope), std::to_string(one.failed)},
                  one.failed > 0 ? "missed" : "");
  }
  return element("h3", "ONNX's test models") +
         element("p",
                 "From constants: right where all inputs are constants, as in shape arithmetic. Refused: by an error "
                 "that names the operator. Out of scope: no network from one batch of pictures to another.") +
         table.str();
}

template <class T>
void add_new(std::vector<T>& list, const T& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

std::string cell(const std::map<std::string, double>& times, const std::string& engine) {
  const auto own = times.find(engine);
  if (own == times.end()) return "-";
  const auto custom = times.find("custom");
  std::string text = fixed(own->second, 0);
  if (engine != "custom" && custom != times.end() && custom->second > 0) {
    text += " (" + fixed(own->second / custom->second, 1) + "x)";
  }
  return text;
}

}  // namespace

std::string record_summary(const ReportFile& file) {
  if (!file.record) return {};
  const MachineRecord& record = *file.record;
  std::string text = record.date.empty() ? "" : "Measured on " + record.date;
  if (!record.source_hash.empty()) text += " with the sources " + record.source_hash.substr(0, kShownHash);
  if (!record.requirements.empty()) {
    text += (text.empty() ? "" : "; ") + std::to_string(count_met(record)) + " of " +
            std::to_string(record.requirements.size()) + " requirements are met";
  }
  std::string html = text.empty() ? text : element("p", text + '.');
  if (count_met(record) < record.requirements.size()) {
    HtmlTable table({"not met", "wanted", "found"}, 3);
    for (const Requirement& one : record.requirements) {
      if (!one.met) table.add_row({one.name, one.target, one.measured});
    }
    html += table.str();
  }
  if (!record.lacking.empty()) html += "<p class=\"warning\">" + escaped(lacking_text(record)) + "</p>\n";
  return html;
}

std::string from_host_section(const ReportFile& file) {
  if (file.from_host.empty()) return {};
  HtmlTable table({"implementation", "batch", "GPU time", "host to host", "p99", "difference", "pictures/s, streamed",
                   "memory taken from the GPU"},
                  1);
  for (const CaseResult& one : file.from_host) {
    const double streamed = one.streamed_per_second;
    const double device = one.device_statistics.median;
    const double host = one.host_statistics.median;
    table.add_row({one.label(), std::to_string(one.batch), fixed(device, 4), fixed(host, 4),
                   fixed(one.host_statistics.p99, 4), fixed(host - device, 4), streamed > 0 ? fixed(streamed, 0) : "-",
                   one.gpu_memory_used ? megabytes(*one.gpu_memory_used) : "-"});
  }
  return "<h2>Pictures from the host</h2>\n" +
         element("p",
                 "Milliseconds, medians. Bytes in page-locked host memory, normalised on the GPU, logits back on the "
                 "host; streamed with several sessions in flight.") +
         table.str();
}

std::string networks_section(const ReportFile& file) {
  if (!file.record || file.record->networks.empty()) return {};
  std::vector<std::string> names;
  std::vector<std::string> engines;
  std::vector<std::int64_t> batches;
  std::map<std::pair<std::string, std::int64_t>, std::map<std::string, double>> times;
  for (const NetworkTime& one : file.record->networks) {
    add_new(names, one.network);
    add_new(engines, one.engine);
    add_new(batches, one.batch);
    times[{one.network, one.batch}][one.engine] = one.us;
  }
  std::vector<std::string> header{"network"};
  for (const std::int64_t batch : batches) {
    for (const std::string& engine : engines) header.push_back(engine + ", batch " + std::to_string(batch));
  }
  HtmlTable table(header, 1);
  for (const std::string& name : names) {
    std::vector<std::string> row{name};
    for (const std::int64_t batch : batches) {
      for (const std::string& engine : engines) row.push_back(cell(times[{name, batch}], engine));
    }
    table.add_row(row);
  }
  std::string html =
      "<h2>Other networks</h2>\n" +
      element("p",
              "fp16, GPU time of a batch, median microseconds, of a peer in its fastest memory format; in "
              "brackets against custom.") +
      table.str("wide");
  for (const std::string& refused : file.record->refused) html += element("p", refused);
  if (!file.record->lacking.empty()) html += element("p", lacking_text(*file.record));
  const bool others = std::any_of(engines.begin(), engines.end(), [&](const std::string& engine) {
    return std::none_of(file.report.cases.begin(), file.report.cases.end(),
                        [&](const CaseResult& one) { return one.implementation == engine; });
  });
  if (!others && !file.peers.results.empty()) html += element("p", "No peer has a result of these networks.");
  return html;
}

std::string checks_section(const ReportFile& file) {
  if (!file.record) return {};
  const std::string html = requirements(*file.record) + check_table("Tests on the GPU", file.record->tests) +
                           check_table("compute-sanitizer", file.record->sanitizer) +
                           conformance_table(file.record->conformance);
  return html.empty() ? html : "<h2>Checks</h2>\n" + html;
}

}  // namespace mobicuda::bench::report
