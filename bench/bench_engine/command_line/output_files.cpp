#include "bench_engine/command_line/output_files.h"

#include <unistd.h>

#include <system_error>

#include <mobicuda/error.h>

#include "bench_engine/exit_codes.h"

namespace mobicuda::bench {
namespace {

namespace fs = std::filesystem;

std::vector<NamedFile> outputs_of(const Options& options) {
  return {{"--saveEngine", options.save_engine},
          {"--saveOutputs", options.save_outputs},
          {"--json", options.json},
          {"--csv", options.csv},
          {"--exportTimes", options.export_times},
          {"--exportProfile", options.export_profile},
          {"--exportLayerInfo", options.export_layer_info},
          {"--exportTrace", options.export_trace},
          {"--exportOutput", options.export_output}};
}

// /dev/stdout and the like may be named more than once.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (fs::exists(a, ignored) && fs::exists(b, ignored)) {
    return fs::is_regular_file(a, ignored) && fs::equivalent(a, b, ignored);
  }
  return fs::weakly_canonical(fs::absolute(a), ignored) == fs::weakly_canonical(fs::absolute(b), ignored);
}

void require_writable(const fs::path& path) {
  if (path.empty()) return;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::io, path.string(), "cannot be written: " + why);
  };
  if (!fs::is_directory(folder, ignored)) refuse("no such folder: " + folder.string());
  if (fs::is_directory(path, ignored)) refuse("it is a folder");
  const fs::path& asked = fs::exists(path, ignored) ? path : folder;
  if (access(asked.c_str(), W_OK) != 0) refuse(std::generic_category().message(errno));
}

}  // namespace

void require_apart(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty()) continue;
    for (const NamedFile& input : inputs) {
      if (!input.path.empty() && same_file(output->path, input.path)) {
        throw UsageError(output->option + ": " + output->path.string() + " is an input, given as " + input.option +
                         ", and would be overwritten");
      }
    }
    for (auto other = outputs.begin(); other != output; ++other) {
      if (!other->path.empty() && same_file(output->path, other->path)) {
        throw UsageError(other->option + " and " + output->option + " name the same file: " + output->path.string());
      }
    }
  }
}

void check_outputs(const Options& options) {
  require_apart({{"--model", options.model},
                 {"--loadEngine", options.load_engine},
                 {"--timingCacheFile", options.timing_cache},
                 {"--loadInputs", options.load_inputs},
                 {"--golden", options.golden},
                 {"--labels", options.labels},
                 {"--referenceLogits", options.reference_logits},
                 {"--referenceList", options.reference_list}},
                outputs_of(options));
}

void require_writable(const Options& options) {
  for (const NamedFile& output : outputs_of(options)) require_writable(output.path);
}

}  // namespace mobicuda::bench
