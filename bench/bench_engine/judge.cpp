#include <new>
#include <ostream>
#include <string>
#include <string_view>

#include <mobicuda/error.h>

#include "bench_engine/command_line/output_files.h"
#include "bench_engine/engines/engine_source.h"
#include "bench_engine/run.h"
#include "bench_engine/thresholds.h"

namespace mobicuda::bench {
namespace {

/// The library's hints name its own API: what a user of this program says instead.
struct Flag {
  std::string_view api, flag;
};
constexpr Flag kFlags[] = {{"ImportOptions::picture_shape", "--shapes, the batch in front"},
                           {"ImportLimits::generated_elements", "--generatedElements"},
                           {"EngineOptions::precision", "--precision"},
                           {"plan_file::save()", "--saveEngine"},
                           {"onnx_import::load()", "--model"}};

std::string with_flags(const Error& error) {
  std::string text = error.what();
  std::string flags;
  for (const Flag& one : kFlags) {
    if (error.hint().find(one.api) == std::string::npos) continue;
    flags += (flags.empty() ? "" : "; ") + std::string(one.api) + ": " + std::string(one.flag);
  }
  return flags.empty() ? text : text + " (" + flags + ")";
}

ExitCode fail(std::ostream& err, ExitCode code, const char* message) {
  err << "bench_engine: " << printable(message) << '\n';
  return code;
}

}  // namespace

ExitCode run_and_judge(Options& options, const std::vector<Implementation>& implementations, std::ostream& out,
                       std::ostream& err, Report& report) {
  try {
    require_writable(options);
    take_from_plan(options);
    Progress progress(err, stderr_style(options.quiet));
    run_benchmark(options, implementations, out, progress, report);
  } catch (const UsageError& error) {
    return fail(err, kExitUsage, error.what());
  } catch (const Error& error) {
    report.error = with_flags(error);
    return fail(err, error.code() == ErrorCode::device_unavailable ? kExitNoDevice : kExitRuntime,
                report.error.c_str());
  } catch (const std::bad_alloc&) {
    report.error = "out of memory: a smaller --batch needs less";
    return fail(err, kExitRuntime, report.error.c_str());
  } catch (const std::exception& error) {
    report.error = error.what();
    return fail(err, kExitRuntime, error.what());
  }
  report.missed = missed_thresholds(options, report);
  if (report.interrupted) return kExitInterrupted;
  return report.missed.empty() ? kExitOk : kExitThresholdMissed;
}

}  // namespace mobicuda::bench
