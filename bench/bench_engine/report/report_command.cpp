#include "bench_engine/report/report_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <ostream>

#include <mobicuda/error.h>

#include "bench_engine/exit_codes.h"
#include "bench_engine/report/report_changes.h"
#include "bench_engine/report/report_html.h"
#include "bench_engine/report/report_text.h"
#include "bench_engine/report/text_table.h"

namespace mobicuda::bench {
namespace {

constexpr const char* kFooter = R"(
Examples:
  bench_engine report a.json --html a.html
  bench_engine report before.json after.json --html changes.html

Exit codes: 0 ok, 1 a file that cannot be read or written, 2 wrong usage. A slower run is no failure.)";

void print_changes(std::ostream& out, const char* title, const std::vector<Change>& changes) {
  if (changes.empty()) return;
  TextTable table({"case", "quantity", "before", "after", "change", "noise", "verdict"}, 2);
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
  out << '\n' << noise_rule() << '\n';
}

void print_read_report(std::ostream& out, const ReportFile& file) {
  const Report& report = file.report;
  out << "File   " << file.path.string() << ", of bench_engine " << (file.version.empty() ? "-" : file.version) << '\n'
      << "CPU    " << report.machine.cpu << '\n'
      << "GPU    " << (report.machine.gpu.empty() ? "none" : report.machine.gpu) << '\n'
      << "Model  " << (report.model.path.empty() ? "-" : report.model.path.string()) << ", "
      << megabytes(static_cast<std::int64_t>(report.model.bytes)) << '\n';
  for (const std::string& note : report.notes) out << "Not run: " << note << '\n';
  if (!report.error.empty()) out << "Ended early: " << report.error << '\n';
  Options options;
  options.pictures = file.pictures;
  options.streams = file.streams;
  print_report(out, options, report);
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream stream(path, std::ios::binary);
  stream << content;
  stream.close();
  if (!stream) throw Error(ErrorCode::io, path.string(), "cannot be written");
}

}  // namespace

int report_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  std::vector<std::filesystem::path> files;
  std::filesystem::path html;
  CLI::App app("Shows one file of --json as text and HTML, or what changed from the first to the second.",
               "bench_engine report");
  app.footer(kFooter);
  app.add_option("FILE", files, "A file of --json to show, or two to compare")->required()->expected(1, 2);
  app.add_option("--html", html, "Write a page that needs no other file")->type_name("FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool mistake = error.get_exit_code() != 0;
    app.exit(error, out, err);
    return mistake ? kExitUsage : kExitOk;
  }
  for (const std::filesystem::path& file : files) {
    if (std::filesystem::is_regular_file(file)) continue;
    err << "bench_engine: report: no such file: " << file.string() << '\n';
    return kExitUsage;
  }
  const ReportFile first = read_report(files.front());
  std::string page;
  if (files.size() == 1) {
    print_read_report(out, first);
    page = html_report(first);
  } else {
    const ReportFile second = read_report(files.back());
    const ReportChanges changes = compare_reports(first, second);
    print_comparison(out, first, second, changes);
    page = html_comparison(first, second, changes);
  }
  if (!html.empty()) write_file(html, page);
  return kExitOk;
}

}  // namespace mobicuda::bench
