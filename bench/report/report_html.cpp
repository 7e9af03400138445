#include "report/report_html.h"

#include <algorithm>

#include "report/accuracy_section.h"
#include "report/batch_charts.h"
#include "report/compare_section.h"
#include "report/html.h"
#include "report/loading_section.h"
#include "report/record_section.h"
#include "report/reference.h"
#include "report/report_activities.h"
#include "report/report_layers.h"
#include "report/report_style.h"
#include "report/sustained_section.h"
#include "report/svg_chart.h"
#include "report/utilisation_section.h"
#include "text/numbers.h"

namespace mobicuda::bench::report {
namespace {

std::string name_of(const CaseResult& result) { return result.label() + ", batch " + std::to_string(result.batch); }

std::string warning(const std::string& text) { return "<p class=\"warning\">" + escaped(text) + "</p>\n"; }

std::string title_of(const ReportFile& file) {
  const std::string model = file.report.model.path.filename().string();
  const std::string name = !file.network.empty() ? file.network : model;
  if (!file.record) return name.empty() ? file.path.filename().string() : name;
  return (name.empty() ? "libmobicuda" : name) + " on " + file.report.machine.gpu;
}

std::string heading(const ReportFile& file) {
  const Report& report = file.report;
  std::string html = element("h1", title_of(file));
  html += element("p", (file.record ? "libmobicuda, measured by bench_engine"
                                    : (report.machine.gpu.empty() ? report.machine.cpu : report.machine.gpu)) +
                           ": " + counted(report.cases.size(), "case") + ", from " + file.path.filename().string());
  if (!report.error.empty()) html += warning("The run ended early: " + report.error);
  if (report.interrupted) html += warning("The run was interrupted: this is what was measured until then.");
  for (const std::string& missed : report.missed) html += warning("Threshold missed: " + missed);
  for (const CaseResult& result : report.cases) {
    for (const std::string& one : timing_warnings(result)) html += warning(one);
  }
  return html;
}

std::string latency_table(const ReportFile& file) {
  const Report& report = file.report;
  HtmlTable table({"implementation", "batch", "mean", "median", "p90", "p95", "p99", "min", "max", "CoV", "times",
                   "pictures/s", "speed-up"},
                  1);
  for (const CaseResult& result : report.cases) {
    const Statistics& s = result.latency();
    table.add_row({result.label(), std::to_string(result.batch), milliseconds(s.mean), milliseconds(s.median),
                   milliseconds(s.p90), milliseconds(s.p95), milliseconds(s.p99), milliseconds(s.min),
                   milliseconds(s.max), percent(s.variation, 1), std::to_string(s.count),
                   fixed(result.pictures_per_second(), 1),
                   result.speed_up.ratio > 0 ? fixed(result.speed_up.ratio, 2) + "x" : "-"});
  }
  add_peer_rows(file, table);
  const bool transfers = !report.cases.empty() && report.cases.front().includes_transfers;
  std::string note = transfers ? "Milliseconds of a batch: wall time from host to host, transfers included."
                               : "Milliseconds of a batch, its input in place: CUDA events on GPUs, wall time on CPUs.";
  if (!report.reference.empty()) note += " Speed-ups are against " + references_text(report) + '.';
  return element("p", note) + table.str() + peers_note(file);
}

std::string histograms(const Report& report) {
  std::string charts;
  for (const CaseResult& result : report.cases) {
    if (!result.histogram) continue;
    const Histogram& h = *result.histogram;
    const std::string chart = histogram_chart("Latency of " + name_of(result), h, result.latency());
    if (chart.empty()) continue;
    const Statistics& s = result.latency();
    charts +=
        "<div>" + chart +
        element("p", "p50 " + milliseconds(s.median) + ", p90 " + milliseconds(s.p90) + ", p95 " + milliseconds(s.p95) +
                         ", p99 " + milliseconds(s.p99) + " ms; " + std::to_string(h.above) + " of " +
                         std::to_string(s.count) + " times are above p99, up to " + milliseconds(s.max) + " ms") +
        "</div>\n";
  }
  if (charts.empty()) return element("p", "The file has no histograms of latency.");
  return "<div class=\"charts\">\n" + charts + "</div>\n";
}

std::string memory_section(const Report& report) {
  std::vector<StackedBar> bars;
  HtmlTable table(
      {"implementation", "batch", "weights", "arena", "workspace", "input and output", "total", "taken from the GPU"},
      1);
  for (const CaseResult& result : report.cases) {
    const Memory& m = result.memory;
    bars.push_back({name_of(result), {m.weight_bytes, m.arena_bytes, m.workspace_bytes, m.io_bytes}});
    table.add_row({result.label(), std::to_string(result.batch), megabytes(m.weight_bytes), megabytes(m.arena_bytes),
                   megabytes(m.workspace_bytes), megabytes(m.io_bytes), megabytes(m.total()),
                   result.gpu_memory_used ? megabytes(*result.gpu_memory_used) : "-"});
  }
  return "<h2>Memory</h2>\n" + legend({"weights", "arena", "workspace", "input and output"}) +
         stacked_bars("Bytes of an engine and a session", bars) + table.str();
}

std::string load_section(const Report& report) {
  HtmlTable table({"implementation", "batch", "compile", "session", "first run", "host to host, median",
                   "host to host, p99", "pictures/s, streamed"},
                  1);
  for (const CaseResult& result : report.cases) {
    const double streamed = result.streamed_per_second;
    const Statistics& host = result.host_statistics;
    table.add_row({result.label(), std::to_string(result.batch), fixed(result.compile_ms, 2),
                   fixed(result.session_ms, 2), fixed(result.first_run_ms, 2),
                   host.count > 0 ? milliseconds(host.median) : "-", host.count > 0 ? milliseconds(host.p99) : "-",
                   streamed > 0 ? fixed(streamed, 1) : "-"});
  }
  return "<h2>Loading, and from host to host</h2>\n" +
         element("p", "Milliseconds. Importing the model took " + fixed(report.model.import_ms, 2) +
                          (report.gpu_context_ms > 0 ? ", the CUDA context " + fixed(report.gpu_context_ms, 2) : "") +
                          '.') +
         table.str() + loading_details(report);
}

std::string layers_sections(const Report& report) {
  std::string as_run;
  std::string serialized;
  const auto add = [&](std::string& html, const CaseResult& result, const LayerProfile& profile) {
    const std::string section = layers_section(result, profile, report.machine);
    // The first one is open.
    const bool first = as_run.empty() && serialized.empty();
    if (!section.empty()) html += (first ? "<details open=\"open\">" : "<details>") + section + "</details>\n";
  };
  for (const CaseResult& result : report.cases) add(as_run, result, result.profile);
  for (const CaseResult& result : report.cases) add(serialized, result, result.serialized_profile);
  std::string html;
  if (!as_run.empty()) {
    html += "<h2>Layers as the network runs</h2>\n" +
            element("p",
                    "What the network's first layers take with the layer and without it, CUDA graph and programmatic "
                    "launch as in the timed runs: what runs beside its neighbours takes next to nothing.") +
            as_run;
  }
  if (!serialized.empty()) {
    html += "<h2>Layers one by one</h2>\n" +
            element("p", "Each by itself, without CUDA graph and programmatic launch: the sum exceeds the latency.") +
            serialized;
  }
  if (!html.empty()) return html;
  return "<h2>Layers</h2>\n" + element("p", "No layer was timed: bench_engine does so with --dumpProfile.");
}

std::string fact(const std::string& name, const std::string& value) {
  return value.empty() ? std::string() : "<dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd>\n";
}

std::string setup_section(const ReportFile& file) {
  const Machine& m = file.report.machine;
  const Model& model = file.report.model;
  std::string html = "<h2>Machine, versions, options</h2>\n<dl>\n" + fact("bench_engine", file.version) +
                     fact("CPU", m.cpu + ", " + std::to_string(m.cpu_threads) + " threads") +
                     fact("compiler", m.compiler);
  if (!m.gpu.empty()) {
    html += fact("GPU", m.gpu + ", compute capability " + m.compute_capability + ", " +
                            std::to_string(m.multiprocessors) + " SMs, " + fixed(m.gpu_memory_gib, 1) + " GiB") +
            fact("driver", m.driver) + fact("CUDA driver", m.cuda_driver) + fact("CUDA runtime", m.cuda_runtime) +
            fact("cuDNN", m.cudnn);
  }
  html += fact("network", file.network) + fact("model", model.path.string()) +
          fact("size of the model", megabytes(static_cast<std::int64_t>(model.bytes)) + ", " +
                                        counted(model.nodes, "node") + ", " +
                                        compact(static_cast<double>(model.flops), "FLOP") + " a picture");
  std::string command;
  for (const std::string& word : file.command_line) command += (command.empty() ? "" : " ") + word;
  html += fact("command", command);
  if (file.record && file.options.empty()) html += fact("options", "not recorded: those of scripts/gpu_check");
  for (const auto& [name, value] : file.options) html += fact(name, value);
  for (const std::string& note : file.report.notes) html += fact("not run", note);
  for (const GpuStates& state : file.report.gpu_states) {
    if (!state.before || !state.after) continue;
    html +=
        fact("GPU, batch " + std::to_string(state.batch),
             "SM clock " + std::to_string(state.before->sm_clock_mhz) + " to " +
                 std::to_string(state.after->sm_clock_mhz) + " MHz, " + std::to_string(state.before->temperature_c) +
                 " to " + std::to_string(state.after->temperature_c) + " C, " + fixed(state.after->power_w, 0) + " W");
  }
  return html + "</dl>\n";
}

std::string changes_table(const char* title, const std::vector<Change>& changes) {
  if (changes.empty()) return {};
  HtmlTable table({"case", "quantity", "before", "after", "change", "noise", "verdict"}, 2);
  for (const Change& change : changes) {
    const std::string style = change.verdict == Verdict::Better  ? "better"
                              : change.verdict == Verdict::Worse ? "worse"
                                                                 : "";
    table.add_row({change.subject, change.quantity, change.before, change.after, signed_percent(change.relative),
                   change.noise > 0 ? percent(change.noise, 1) : "-", to_string(change.verdict)},
                  style, change.layer);
  }
  return element("h3", title) + table.str();
}

std::string changes_section(const ReportFile& before, const ReportFile& after, const ReportChanges& changes) {
  std::string html =
      "<h2>What changed</h2>\n<dl>\n" + fact("before", before.path.string()) + fact("after", after.path.string());
  for (const std::string& line : changes.setup) html += fact("differs", line);
  for (const std::string& line : changes.only_before) html += fact("only before", line);
  for (const std::string& line : changes.only_after) html += fact("only after", line);
  html += "</dl>\n" + element("p", noise_rule());
  if (changes.cases.empty() && changes.pictures.empty()) html += warning("The files have no case in common.");
  return html + changes_table("Times and memory", changes.cases) +
         changes_table("Accuracy on pictures", changes.pictures) +
         changes_table("Layers that changed by more than 10 %, and 1 % of the time of all, or changed their kernel",
                       changes.layers) +
         (changes.layers_left_out.empty() ? std::string() : element("p", changes.layers_left_out));
}

std::string page(const ReportFile& file, const std::string& changes) {
  const Report& report = file.report;
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n" +
      element("title", (file.record ? title_of(file) : file.path.filename().string()) + ": bench_engine") + "<style>" +
      kReportStyle + "</style>\n</head>\n<body>\n" + heading(file) + changes;
  if (report.cases.empty()) {
    html += warning("Nothing was timed.");
  } else {
    html += record_summary(file) + "<h2>Latency and throughput</h2>\n" + batch_charts(file) + latency_table(file) +
            histograms(report) + utilisation_section(report) + sustained_section(report) +
            single_calls_section(report) + from_host_section(file) + networks_section(file) + memory_section(report) +
            load_section(report);
  }
  html += accuracy_section(report) + layer_comparisons_section(report);
  if (!report.cases.empty()) html += layers_sections(report) + activities_section(report);
  return html + checks_section(file) + setup_section(file) + "</body>\n</html>\n";
}

}  // namespace

std::string html_report(const ReportFile& file) { return page(file, {}); }

std::string html_comparison(const ReportFile& before, const ReportFile& after, const ReportChanges& changes) {
  return page(after, changes_section(before, after, changes));
}

}  // namespace mobicuda::bench::report
