#include "report/file_text.h"

#include <ostream>

#include "report/record_networks.h"
#include "report/report_text.h"
#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

void print_peers(std::ostream& out, const Peers& peers) {
  TextTable table({"peer", "network", "batch", "mean", "median", "p90", "runs", "pictures/s"}, 2);
  for (const PeerResult& one : peers.results) {
    table.add_row({one.label(), one.network.empty() ? "-" : one.network, std::to_string(one.batch),
                   fixed(one.mean_ms, 4), fixed(one.median_ms, 4), fixed(one.p90_ms, 4), std::to_string(one.runs),
                   fixed(one.pictures_per_second(), 1)});
  }
  if (!peers.results.empty()) {
    out << "\nOther engines, latency of a batch, ms\n";
    table.print(out);
  }
  for (const std::string& setup : peers.setup) out << "  peer: " << setup << '\n';
  for (const std::string& absent : peers.absent) out << "  absent: " << absent << '\n';
  for (const std::string& failed : peers.failed) out << "  failed: " << failed << '\n';
}

void print_requirements(std::ostream& out, const MachineRecord& record) {
  std::size_t met = 0;
  for (const Requirement& one : record.requirements) met += one.met ? 1 : 0;
  out << "\nRecorded on " << record.date << ": " << met << " of " << record.requirements.size()
      << " requirements are met\n";
  for (const Requirement& one : record.requirements) {
    if (!one.met) {
      out << "  not met: " << one.name << "; wanted: " << one.target << "; found: " << one.measured << '\n';
    }
  }
  if (!record.lacking.empty()) out << "  " << lacking_text(record) << '\n';
}

std::string model_text(const ReportFile& file) {
  std::string text;
  for (const std::string& part :
       {file.network, file.report.model.path.string(), megabytes(static_cast<std::int64_t>(file.report.model.bytes))}) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

}  // namespace

void print_file(std::ostream& out, const ReportFile& file, bool per_class) {
  const Report& report = file.report;
  out << "File   " << file.path.string() << (file.version.empty() ? "" : ", of bench_engine " + file.version) << '\n'
      << "CPU    " << report.machine.cpu << '\n'
      << "GPU    " << (report.machine.gpu.empty() ? "none" : report.machine.gpu) << '\n'
      << "Model  " << model_text(file) << '\n';
  for (const std::string& note : report.notes) out << "Not run: " << note << '\n';
  if (!report.error.empty()) out << "Ended early: " << report.error << '\n';
  const Shown shown{false, false, per_class};
  print_cases(out, file, shown);
  print_ending(out, file, shown);
  print_peers(out, file.peers);
  if (file.record && !file.record->requirements.empty()) print_requirements(out, *file.record);
}

}  // namespace mobicuda::bench::report
