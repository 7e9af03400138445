#include "bench_engine/terminal/report_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <ostream>

#include "bench_engine/command_line/help.h"
#include "bench_engine/command_line/input_files.h"
#include "bench_engine/command_line/output_files.h"
#include "bench_engine/export/write_file.h"
#include "bench_engine/model/exit_codes.h"
#include "report/batch_charts.h"
#include "report/changes_text.h"
#include "report/file_text.h"
#include "report/report_html.h"

namespace mobicuda::bench {
namespace {

constexpr const char* kFooter = R"(
Examples:
  bench_engine report a.json --html a.html
  bench_engine report a.json --peers peers.json --html a.html
  bench_engine report bench/results/GPU.json --html GPU.html --figures docs/reports
  bench_engine report before.json after.json --html changes.html

Exit codes: 0 ok, 1 a file that cannot be read or written, 2 wrong usage. A slower run is no failure.)";

void write_figures(const report::ReportFile& file, const std::filesystem::path& folder, std::ostream& err) {
  const auto pictures = report::batch_pictures(file);
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
  report::ReportFile first = report::read_report(files.front());
  for (const std::filesystem::path& file : peers) report::add_peers(file, first.peers);
  std::string page;
  if (files.size() == 1) {
    report::print_file(out, first, per_class);
    page = report::html_report(first);
  } else {
    const report::ReportFile second = report::read_report(files.back());
    const report::ReportChanges changes = report::compare_reports(first, second);
    report::print_changes(out, first, second, changes);
    page = report::html_comparison(first, second, changes);
  }
  if (!html.empty()) write_file(html, page);
  if (!figures.empty()) write_figures(first, figures, err);
  return kExitOk;
}

}  // namespace mobicuda::bench
