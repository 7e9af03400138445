#include "bench_engine/report/report_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>

#include <mobicuda/error.h>

#include "bench_engine/command_line/help.h"
#include "bench_engine/command_line/input_files.h"
#include "bench_engine/command_line/output_files.h"
#include "bench_engine/exit_codes.h"
#include "bench_engine/report/batch_charts.h"
#include "bench_engine/report/record_networks.h"
#include "bench_engine/report/report_changes.h"
#include "bench_engine/report/report_html.h"
#include "bench_engine/report/report_text.h"
#include "bench_engine/report/text_table.h"

namespace mobicuda::bench {
namespace {

constexpr const char* kFooter = R"(
Examples:
  bench_engine report a.json --html a.html
  bench_engine report a.json --peers peers.json --html a.html
  bench_engine report bench/results/GPU.json --html GPU.html --figures docs/reports
  bench_engine report before.json after.json --html changes.html

Exit codes: 0 ok, 1 a file that cannot be read or written, 2 wrong usage. A slower run is no failure.)";

void print_changes(std::ostream& out, const char* title, const std::vector<Change>& changes) {
  if (changes.empty()) return;
  // A layer's kernel before and after is text.
  const bool texts = std::any_of(changes.begin(), changes.end(),
                                 [](const Change& change) { return change.verdict == Verdict::Changed; });
  TextTable table({"case", "quantity", "before", "after", "change", "noise", "verdict"}, texts ? 4 : 2);
  for (const Change& change : changes) {
    table.add_row({change.subject, change.quantity, change.before, change.after, signed_percent(change.relative),
                   change.noise > 0 ? percent(change.noise, 1) : "-", to_string(change.verdict)});
  }
  out << '\n' << title << '\n';
  table.print(out);
}

void print_comparison(std::ostream& out, const ReportFile& before, const ReportFile& after,
                      const ReportChanges& changes) {
  out << "Before " << before.path.string() << "\nAfter  " << after.path.string() << '\n';
  for (const std::string& line : changes.setup) out << "Differs: " << line << '\n';
  for (const std::string& line : changes.only_before) out << "Only before: " << line << '\n';
  for (const std::string& line : changes.only_after) out << "Only after: " << line << '\n';
  if (changes.cases.empty() && changes.pictures.empty()) out << "\nThe files have no case in common.\n";
  print_changes(out, "Times and memory", changes.cases);
  print_changes(out, "Accuracy on pictures", changes.pictures);
  print_changes(out, "Layers that changed by more than 10 %, and 1 % of the time of all, or changed their kernel",
                changes.layers);
  if (!changes.layers_left_out.empty()) out << '\n' << paragraph(changes.layers_left_out);
  out << '\n' << paragraph(noise_rule());
}

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

void print_read_report(std::ostream& out, const ReportFile& file, bool per_class) {
  const Report& report = file.report;
  out << "File   " << file.path.string() << (file.version.empty() ? "" : ", of bench_engine " + file.version) << '\n'
      << "CPU    " << report.machine.cpu << '\n'
      << "GPU    " << (report.machine.gpu.empty() ? "none" : report.machine.gpu) << '\n'
      << "Model  " << model_text(file) << '\n';
  for (const std::string& note : report.notes) out << "Not run: " << note << '\n';
  if (!report.error.empty()) out << "Ended early: " << report.error << '\n';
  Options options;
  options.pictures = file.pictures;
  options.streams = file.streams;
  options.per_class = per_class;
  print_report(out, options, report);
  print_peers(out, file.peers);
  if (file.record && !file.record->requirements.empty()) print_requirements(out, *file.record);
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream stream(path, std::ios::binary);
  stream << content;
  stream.close();
  if (!stream) throw Error(ErrorCode::io, path.string(), "cannot be written");
}

void write_figures(const ReportFile& file, const std::filesystem::path& folder, std::ostream& err) {
  const auto pictures = batch_pictures(file);
  if (pictures.empty()) {
    err << "bench_engine: report: --figures: nothing is drawn, as the file has no case at several batches\n";
    return;
  }
  std::error_code ignored;  // writing tells
  std::filesystem::create_directories(folder, ignored);
  for (const auto& [name, content] : pictures) {
    write_file(folder / (file.path.stem().string() + '_' + name), content);
  }
}

}  // namespace

int report_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  std::vector<std::filesystem::path> files;
  std::vector<std::filesystem::path> peers;
  std::filesystem::path html;
  std::filesystem::path figures;
  bool per_class = false;
  CLI::App app("Shows one file of --json as text and HTML, or what changed from the first to the second.",
               "bench_engine report");
  app.footer(kFooter);
  app.formatter(std::make_shared<HelpFormatter>());
  app.add_option("FILE", files, "A file of --json to show, or two to compare")
      ->type_name("")
      ->required()
      ->expected(1, 2);
  app.add_option("--html", html, "Write a page that needs no other file")->type_name("FILE");
  app.add_option("--peers", peers, "Measurements of other engines to set beside ours, written by bench/peers")
      ->type_name("FILE[,..]")
      ->delimiter(',');
  app.add_option("--figures", figures, "Write the charts by batch as SVG files into this folder")->type_name("DIR");
  app.add_flag("--perClass", per_class, "Table of classes: pictures, top-1 and top-5");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tell(app, error, out, err);
  }
  std::vector<std::filesystem::path> needed = files;
  needed.insert(needed.end(), peers.begin(), peers.end());
  for (const std::filesystem::path& file : needed) {
    const std::string why = why_no_file(file);
    if (why.empty()) continue;
    err << "bench_engine: report: " << why << '\n';
    return kExitUsage;
  }
  if (files.size() == 2 && !(peers.empty() && figures.empty())) {
    err << "bench_engine: report: --peers and --figures are for one file\n";
    return kExitUsage;
  }
  try {
    std::vector<NamedFile> inputs;
    for (const std::filesystem::path& file : needed) inputs.push_back({"FILE or --peers", file});
    require_apart(inputs, {{"--html", html}});
  } catch (const UsageError& error) {
    err << "bench_engine: report: " << error.what() << '\n';
    return kExitUsage;
  }
  ReportFile first = read_report(files.front());
  for (const std::filesystem::path& file : peers) add_peers(file, first.peers);
  std::string page;
  if (files.size() == 1) {
    print_read_report(out, first, per_class);
    page = html_report(first);
  } else {
    const ReportFile second = read_report(files.back());
    const ReportChanges changes = compare_reports(first, second);
    print_comparison(out, first, second, changes);
    page = html_comparison(first, second, changes);
  }
  if (!html.empty()) write_file(html, page);
  if (!figures.empty()) write_figures(first, figures, err);
  return kExitOk;
}

}  // namespace mobicuda::bench
