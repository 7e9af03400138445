// bench_engine: times and checks the implementations of mobicuda. docs/bench_engine.md is its manual.
#include <exception>
#include <iostream>
#include <string_view>

#include <mobicuda/error.h>

#include "bench_engine/command_line/parse_command_line.h"
#include "bench_engine/engines/implementations.h"
#include "bench_engine/export/report_json.h"
#include "bench_engine/model/exit_codes.h"
#include "bench_engine/process/interrupt.h"
#include "bench_engine/run.h"
#include "bench_engine/tensors/golden.h"
#include "bench_engine/terminal/printable_stream.h"
#include "bench_engine/terminal/report_command.h"
#include "bench_engine/terminal/run_text.h"

namespace mobicuda::bench {
namespace {

int fail(ExitCode code, const std::string& message) {
  std::cerr << "bench_engine: " << printable(message) << '\n';
  return code;
}

int run(int argc, const char* const* argv, std::ostream& out) {
  PrintableStream err(std::cerr);
  if (argc > 1 && std::string_view(argv[1]) == "report") return report_command(argc - 1, argv + 1, out, err);
  ParsedCommandLine parsed = parse_command_line(argc, argv, out, err);
  if (parsed.exit_code) return *parsed.exit_code;
  Options& options = parsed.options;
  if (options.list_implementations || options.list_operators) {
    if (options.list_implementations) print_implementations(out, list_implementations(options.device));
    if (options.list_operators) print_operators(out);
    return kExitOk;
  }
  Report report;
  const int code = run_and_judge(options, list_implementations(options.device), out, std::cerr, report);
  if (code == kExitUsage || (!report.error.empty() && report.cases.empty())) return code;
  print_results(out, options, report);
  export_files(options, report);
  save_outputs(options, report);
  return code;
}

}  // namespace
}  // namespace mobicuda::bench

int main(int argc, char** argv) {
  try {
    mobicuda::bench::catch_interrupts();
    mobicuda::bench::PrintableStream out(std::cout);
    const int code = mobicuda::bench::run(argc, argv, out);
    out.flush();
    if (out || code != mobicuda::bench::kExitOk) return code;
    return mobicuda::bench::fail(mobicuda::bench::kExitRuntime, "the standard output cannot be written");
  } catch (const std::exception& error) {
    return mobicuda::bench::fail(mobicuda::bench::kExitRuntime, error.what());
  }
}
