#include <new>
#include <ostream>

#include <mobicuda/error.h>

#include "bench_engine/command_line/output_files.h"
#include "bench_engine/engines/engine_source.h"
#include "bench_engine/run.h"
#include "bench_engine/tensors/thresholds.h"

namespace mobicuda::bench {
namespace {

ExitCode fail(std::ostream& err, ExitCode code, const char* message) {
  err << "bench_engine: " << message << '\n';
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
    report.error = error.what();
    return fail(err, error.code() == ErrorCode::device_unavailable ? kExitNoDevice : kExitRuntime, error.what());
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
