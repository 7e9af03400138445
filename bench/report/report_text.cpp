#include "report/report_text.h"

#include <algorithm>
#include <ostream>

#include "report/compare_section.h"
#include "report/images_text.h"
#include "report/layer_names.h"
#include "report/loading_section.h"
#include "report/reference.h"
#include "report/report_activities.h"
#include "report/sustained_section.h"
#include "report/utilisation_section.h"
#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench::report {
namespace {

std::string speed_up_text(const SpeedUp& speed_up) {
  if (speed_up.ratio <= 0) return "-";
  std::string text = fixed(speed_up.ratio, 2) + "x";
  if (speed_up.high > speed_up.low) text += " [" + fixed(speed_up.low, 2) + ", " + fixed(speed_up.high, 2) + "]";
  return text;
}

void print_latency(std::ostream& out, const std::vector<CaseResult>& cases) {
  TextTable table(
      {"implementation", "batch", "mean", "median", "p90", "p95", "p99", "min", "max", "CoV", "times", "pictures/s"},
      1);
  for (const CaseResult& result : cases) {
    const Statistics& s = result.latency();
    if (s.count == 0) continue;
    table.add_row({result.label(), std::to_string(result.batch), milliseconds(s.mean), milliseconds(s.median),
                   milliseconds(s.p90), milliseconds(s.p95), milliseconds(s.p99), milliseconds(s.min),
                   milliseconds(s.max), percent(s.variation, 1), std::to_string(s.count),
                   fixed(result.pictures_per_second(), 1)});
  }
  const bool transfers = !cases.empty() && cases.front().includes_transfers;
  out << "\nSteady latency of a batch, ms ("
      << (transfers ? "wall time from host to host, transfers included"
                    : "input in place: CUDA events on GPUs, wall time on CPUs")
      << ")\n";
  table.print(out);
  for (const CaseResult& result : cases) {
    for (const std::string& warning : timing_warnings(result)) out << paragraph("warning: " + warning, 2);
  }
}

void print_phases(std::ostream& out, const Model& model, const std::vector<CaseResult>& cases) {
  TextTable table({"implementation", "batch", "import", "compile", "session", "load", "first run", "GPU memory"}, 1);
  for (const CaseResult& result : cases) {
    table.add_row({result.label(), std::to_string(result.batch), fixed(model.import_ms, 2), fixed(result.compile_ms, 2),
                   fixed(result.session_ms, 2), fixed(model.import_ms + result.compile_ms + result.session_ms, 2),
                   fixed(result.first_run_ms, 2),
                   result.gpu_memory_used ? megabytes(*result.gpu_memory_used) : std::string("-")});
  }
  out << "\nLoad and first run, ms; GPU memory taken beside the CUDA context\n";
  table.print(out);
}

void print_host(std::ostream& out, const ReportFile& file) {
  const std::vector<CaseResult>& cases = file.report.cases;
  const auto measured = [](const CaseResult& result) { return result.host_statistics.count > 0; };
  if (std::none_of(cases.begin(), cases.end(), measured)) return;  // interrupted before
  const bool streamed =
      std::any_of(cases.begin(), cases.end(), [](const CaseResult& result) { return result.streamed_per_second > 0; });
  std::vector<std::string> header{"implementation", "batch", "device", "host", "host - device", "host p90", "host p99"};
  if (streamed) header.insert(header.end(), {"pictures/s", "share"});
  TextTable table(std::move(header), 1);
  for (const CaseResult& result : cases) {
    if (!measured(result)) continue;
    const Statistics& device = result.device_statistics;
    const Statistics& host = result.host_statistics;
    std::vector<std::string> row{result.label(),
                                 std::to_string(result.batch),
                                 milliseconds(device.median),
                                 milliseconds(host.median),
                                 milliseconds(host.median - device.median),
                                 milliseconds(host.p90),
                                 milliseconds(host.p99)};
    if (result.streamed_per_second > 0) {
      const double resident = 1e3 * static_cast<double>(result.batch) / device.mean;
      row.push_back(fixed(result.streamed_per_second, 1));
      row.push_back(percent(result.streamed_per_second / resident, 1));
    } else if (streamed) {
      row.insert(row.end(), {"-", "-"});
    }
    table.add_row(std::move(row));
  }
  std::string title =
      std::string("From host to host, ") + (file.pictures ? "uint8 pictures" : "float32") + ": medians, ms";
  if (streamed) {
    title += "; GPUs from and to page-locked memory, pictures/s with " +
             (file.streams > 0 ? std::to_string(file.streams) : std::string("several")) +
             " sessions in flight and their share of the rate without transfers";
  }
  out << '\n' << paragraph(title);
  table.print(out);
}

void print_comparison(std::ostream& out, const Report& report) {
  const bool any = std::any_of(report.cases.begin(), report.cases.end(),
                               [](const CaseResult& result) { return result.comparison.has_value(); });
  if (!any) return;
  TextTable table({"implementation", "batch", "median ms", "speed-up", "max |diff|", "relative L2", "top-1 equal"}, 1);
  for (const CaseResult& result : report.cases) {
    if (result.comparison) {
      const Comparison& c = *result.comparison;
      table.add_row({result.label(), std::to_string(result.batch), milliseconds(result.latency().median),
                     speed_up_text(result.speed_up), scientific(c.max_abs), scientific(c.relative_l2),
                     std::to_string(c.top1_equal) + "/" + std::to_string(c.pictures)});
    } else {
      table.add_row(
          {result.label(), std::to_string(result.batch), milliseconds(result.latency().median), "1", "-", "-", "-"});
    }
  }
  out << "\nSide by side, against " << references_text(report) << " (logits of the timed input; [95 % interval])\n";
  table.print(out);
}

void print_golden(std::ostream& out, const std::vector<CaseResult>& cases) {
  TextTable table(
      {"implementation", "batch", "max |diff|", "mean |diff|", "relative L2", "cosine", "max ULP", "top-1 equal"}, 1);
  bool any = false;
  for (const CaseResult& result : cases) {
    if (!result.golden) continue;
    any = true;
    const Difference& d = result.golden->difference;
    table.add_row({result.label(), std::to_string(result.batch), scientific(d.max_abs), scientific(d.mean_abs),
                   scientific(d.relative_l2), fixed(d.cosine, kCosineDecimals), fixed(d.max_ulp, 0),
                   std::to_string(result.golden->top1_equal) + "/" + std::to_string(result.golden->pictures)});
  }
  if (!any) return;
  out << "\nOutputs of the timed input against --golden\n";
  table.print(out);
}

std::string layers_title(const char* what, const CaseResult& result) {
  return std::string(what) + " of " + result.label() + ", batch " + std::to_string(result.batch) + ", " +
         std::to_string(result.layers.size()) + " layers";
}

void print_profile(std::ostream& out, const char* what, const CaseResult& result, const LayerProfile& profile) {
  if (profile.empty()) return;
  TextTable table({"layer", "kernel", "output", "ms", "%", "GFLOP/s", "GB/s"}, 2);
  const LayerNames names(result.layers);
  const double total = profile.sum_ms();
  const auto batch = static_cast<double>(result.batch);
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    const Layer& layer = result.layers[i];
    const auto flops = static_cast<double>(layer.flops) * batch;
    const auto bytes = static_cast<double>(layer.activation_bytes) * batch + static_cast<double>(layer.weight_bytes);
    const double seconds = profile.layer_ms[i] / 1e3;
    table.add_row({names.shortened(layer.name), layer.kernel, layer.output, milliseconds(profile.layer_ms[i]),
                   total > 0 ? fixed(100 * profile.layer_ms[i] / total, 1) : "-",
                   seconds > 0 ? fixed(flops / seconds / 1e9, 1) : "-",
                   seconds > 0 ? fixed(bytes / seconds / 1e9, 1) : "-"});
  }
  out << '\n' << paragraph(layers_title(what, result) + ", " + layers_sum(profile));
  table.print(out);
}

void print_layer_info(std::ostream& out, const CaseResult& result) {
  TextTable table({"layer", "kernel", "output", "MFLOP", "activations", "weights"}, 2);
  const LayerNames names(result.layers);
  for (const Layer& layer : result.layers) {
    table.add_row({names.shortened(layer.name), layer.kernel, layer.output,
                   fixed(static_cast<double>(layer.flops) / 1e6, 2), megabytes(layer.activation_bytes),
                   megabytes(layer.weight_bytes)});
    if (!layer.reason.empty()) table.add_note("reason: " + layer.reason);
  }
  out << '\n' << layers_title("Layers", result) << '\n';
  table.print(out);
}

void print_all_layers(std::ostream& out, const Shown& shown, const Report& report) {
  for (const CaseResult& result : report.cases) {
    if (shown.profile) print_profile(out, "Profile", result, result.profile);
    print_profile(out, "Serialized profile", result, result.serialized_profile);
    if (shown.layer_info) print_layer_info(out, result);
    print_activities(out, result);
  }
}

void print_gpu_states(std::ostream& out, const std::vector<GpuStates>& states) {
  for (const GpuStates& state : states) {
    if (!state.before || !state.after) continue;
    out << "  GPU around batch " << state.batch << ": SM clock " << state.before->sm_clock_mhz << " -> "
        << state.after->sm_clock_mhz << " MHz, " << state.before->temperature_c << " -> " << state.after->temperature_c
        << " C, " << fixed(state.after->power_w, 0) << " W\n";
  }
}

}  // namespace

void print_cases(std::ostream& out, const ReportFile& file, const Shown& shown) {
  const Report& report = file.report;
  if (report.cases.empty()) return;
  print_latency(out, report.cases);
  print_gpu_states(out, report.gpu_states);
  print_utilisation(out, report);
  print_phases(out, report.model, report.cases);
  print_loading(out, report);
  print_host(out, file);
  print_single_calls(out, report);
  print_sustained(out, report);
  print_comparison(out, report);
  print_golden(out, report.cases);
  print_layer_comparisons(out, report.cases);
  print_all_layers(out, shown, report);
}

void print_ending(std::ostream& out, const ReportFile& file, const Shown& shown) {
  const Report& report = file.report;
  for (const ImageReport& images : report.fewer_images) print_fewer_images(out, images);
  if (report.images) print_images(out, *report.images, shown.per_class);
  for (const std::string& missed : report.missed) out << "\nThreshold missed: " << missed << '\n';
  if (report.interrupted) {
    out << "\nInterrupted: " << (report.cases.empty() ? "nothing was measured" : "this is what was measured until then")
        << '\n';
  }
  out << std::flush;
}

}  // namespace mobicuda::bench::report
