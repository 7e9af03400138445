#include "bench_engine/terminal/run_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include <mobicuda/onnx_import.h>

#include "bench_engine/export/report_json.h"
#include "report/report_text.h"
#include "text/numbers.h"
#include "text/text_table.h"

namespace mobicuda::bench {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::string labelled(const char* label, const std::string& value) {
  return value.empty() ? std::string() : std::string(label) + value;
}

void print_machine(std::ostream& out, const Machine& machine) {
  out << "CPU    " << (machine.cpu.empty() ? "unknown" : machine.cpu) << ", " << machine.cpu_threads << " threads\n";
  if (machine.gpu.empty()) {
    out << "GPU    none\n";
    return;
  }
  out << "GPU    "
      << joined({machine.gpu, "compute capability " + machine.compute_capability,
                 std::to_string(machine.multiprocessors) + " SMs", fixed(machine.gpu_memory_gib, 1) + " GiB",
                 labelled("driver ", machine.driver), labelled("CUDA driver ", machine.cuda_driver),
                 labelled("CUDA runtime ", machine.cuda_runtime), labelled("cuDNN ", machine.cudnn)})
      << '\n';
}

void print_outputs(std::ostream& out, const Report& report) {
  for (const CaseResult& result : report.cases) {
    out << "\nOutput '" << report.model.output_name << "' of " << result.label() << ", batch " << result.batch
        << ", first picture:";
    const auto count = std::min(result.output.size(), static_cast<std::size_t>(report.model.classes()));
    for (std::size_t i = 0; i < count; ++i) out << ' ' << result.output[i];
    out << '\n';
  }
}

}  // namespace

void print_header(std::ostream& out, const Report& report) {
  out << "bench_engine " << MOBICUDA_VERSION << '\n';
  print_machine(out, report.machine);
  const ModelInfo& model = report.model;
  out << "Model  " << model.path.string() << ", " << megabytes(static_cast<std::int64_t>(model.bytes)) << ", "
      << model.nodes << " nodes, input " << to_string(model.input.shape);
  if (model.input.shape.rank() == 4) out << ' ' << to_string(model.input.layout);
  out << ", output " << to_string(model.output.shape) << ", " << fixed(static_cast<double>(model.flops) / 1e9, 3)
      << " GFLOP a picture\n";
  if (report.gpu_context_ms > 0) {
    out << "CUDA context " << fixed(report.gpu_context_ms, 1) << " ms (not part of the times below)\n";
  }
  for (const std::string& note : report.notes) out << "Not run: " << note << '\n';
  out << '\n' << std::flush;
}

void print_memory(std::ostream& out, const CaseResult& result) {
  const MemoryReport& m = result.memory;
  out << result.label() << ", batch " << result.batch << ": memory " << m.total() << " bytes = weights "
      << m.weight_bytes << " + arena " << m.arena_bytes << " + workspace " << m.workspace_bytes
      << " + input and output " << m.io_bytes << '\n'
      << std::flush;
}

void print_load(std::ostream& out, const ModelInfo& model, const CaseResult& result) {
  out << result.label() << ", batch " << result.batch << ": load "
      << fixed(model.import_ms + result.compile_ms + result.session_ms, 1) << " ms (import "
      << fixed(model.import_ms, 1) << ", compile " << fixed(result.compile_ms, 1) << ", session "
      << fixed(result.session_ms, 1) << "), first run " << fixed(result.first_run_ms, 2) << " ms\n"
      << std::flush;
}

void print_results(std::ostream& out, const Options& options, const Report& report) {
  const report::ReportFile document = report::read_document(report_document(options, report), "--json");
  const report::Shown shown{options.dump_profile, options.dump_layer_info, options.per_class};
  report::print_cases(out, document, shown);
  if (options.dump_output) print_outputs(out, report);
  report::print_ending(out, document, shown);
}

void print_implementations(std::ostream& out, const std::vector<Implementation>& implementations) {
  TextTable table({"implementation", "precisions", "runs here"}, 3);
  for (const Implementation& implementation : implementations) {
    std::vector<std::string> precisions;
    for (const Precision precision : implementation.precisions) precisions.emplace_back(to_string(precision));
    table.add_row({implementation.name, joined(precisions),
                   implementation.unavailable.empty() ? "yes" : "no: " + implementation.unavailable});
  }
  table.print(out);
}

void print_operators(std::ostream& out) {
  TextTable table({"operator", "first opset", "last opset"}, 1);
  for (const onnx_import::OperatorSupport& one : onnx_import::supported_operators()) {
    table.add_row({one.name, std::to_string(one.first_opset), std::to_string(one.last_opset)});
  }
  table.print(out);
}

}  // namespace mobicuda::bench
