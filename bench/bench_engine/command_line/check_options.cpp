#include "bench_engine/command_line/check_options.h"

#include <algorithm>

#include "bench_engine/command_line/engine_options.h"
#include "bench_engine/command_line/input_files.h"
#include "bench_engine/command_line/output_files.h"
#include "bench_engine/model/exit_codes.h"
#include "bench_engine/trace/tracer.h"

namespace mobicuda::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kMinSampleIntervalMs = 1;

void require_folder(const fs::path& path, const std::string& option) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return;
  throw UsageError(option + ": " + (fs::exists(path, ignored) ? "not a folder: " : "no such folder: ") + path.string());
}

void check_pictures(const Options& options) {
  require_file(options.labels, "--labels");
  require_file(options.reference_logits, "--referenceLogits");
  require_file(options.reference_list, "--referenceList");
  if (options.images.empty()) {
    if (!options.labels.empty() || !options.reference_logits.empty() || options.top1_threshold ||
        !options.max_images.empty() || options.per_class || options.decode_threads != 0 || options.time_images ||
        options.decode != pictures::DecodeOn::Cpu) {
      throw UsageError(
          "--labels, --referenceLogits, --maxImages, --decodeThreads, --decode, --perClass, --timeImages and "
          "--top1Threshold "
          "need --images");
    }
  } else {
    require_folder(options.images, "--images");
    if (!options.normalization) throw UsageError("--images needs --preprocess torch or tf: models differ in it");
    if (options.top1_threshold && options.labels.empty()) throw UsageError("--top1Threshold needs --labels");
    if (options.per_class && options.labels.empty()) throw UsageError("--perClass needs --labels");
  }
  if (!options.reference_list.empty() && options.reference_logits.empty()) {
    throw UsageError("--referenceList needs --referenceLogits");
  }
}

}  // namespace

void check_options(const Options& options) {
  if (options.list_implementations || options.list_operators) return;
  check_engine_options(options);
  const auto above = std::find_if(options.batches.begin(), options.batches.end(),
                                  [&](std::int64_t batch) { return options.max_batch && batch > *options.max_batch; });
  if (above != options.batches.end()) {
    throw UsageError("--batch: " + std::to_string(*above) + " is more than --maxBatch " +
                     std::to_string(*options.max_batch));
  }
  require_file(options.model, "--model");
  require_file(options.load_inputs, "--loadInputs");
  require_file(options.golden, "--golden");
  if (options.time_images && !options.load_inputs.empty()) {
    throw UsageError("--timeImages and --loadInputs both say what is timed: give one");
  }
  if (options.golden.empty() &&
      (options.mean_threshold || options.relative_l2_threshold || options.cosine_threshold || options.ulp_threshold)) {
    throw UsageError("--meanThreshold, --relativeL2Threshold, --cosineThreshold and --ulpThreshold need --golden");
  }
  if (options.compare_threshold && options.compare.empty()) throw UsageError("--compareThreshold needs --compare");
  if (options.sample_interval_ms > 0 && options.sample_interval_ms < kMinSampleIntervalMs) {
    throw UsageError("--sampleInterval: must be 0 or at least 1 ms");
  }
  check_pictures(options);
  if (options.require_timing_cache && options.timing_cache.empty()) {
    throw UsageError("--errorOnTimingCacheMiss needs --timingCacheFile");
  }
  if (options.traced() && !why_no_tracer().empty()) throw UsageError(why_no_tracer());
  check_outputs(options);
}

}  // namespace mobicuda::bench
