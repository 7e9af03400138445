#include "bench_engine/command_line/check_effects.h"

#include <algorithm>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

using Names = std::vector<std::string>;

// An option that not every implementation has.
struct Owned {
  const char* option;
  bool given;  // and not as it is by default
  Names owners;
};

std::vector<Owned> owned_options(const Options& options) {
  const Options defaults;
  const Names custom{"custom"};
  const Names gpu{"custom", "cudnn"};
  return {{"--kernelVariant", !options.kernel_variants.empty(), custom},
          {"--timingCacheFile", !options.timing_cache.empty(), custom},
          {"--specialise", options.specialise != defaults.specialise, custom},
          {"--codeCache", options.code_cache.has_value(), custom},
          {"--nvrtc", !options.nvrtc_library.empty(), custom},
          {"--noProgrammaticLaunch", !options.programmatic_launch, custom},
          {"--noCudaGraph", !options.cuda_graph, gpu},
          {"--device", options.device != defaults.device, gpu},
          {"--singleCalls", options.single_calls, gpu},
          {"--hostTransfer", options.host_transfer != defaults.host_transfer, gpu},
          {"--infStreams", options.streams != defaults.streams, gpu},
          {"--threads", options.threads != defaults.threads, {"cpu"}}};
}

Names names_of(const Options& options, const std::vector<Case>& cases) {
  Names names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Case& one : cases) add(one.implementation);
  for (const std::string& name : options.compare) add(name.substr(0, name.find(':')));
  return names;
}

std::string joined(const Names& names, const std::string& separator) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : separator) + name;
  return text;
}

void require_name(const std::string& option, const std::string& name, const std::string& input) {
  if (name.empty() || name == input) return;
  throw UsageError(option + ": the model has no input '" + name + "', its input is '" + input + "'");
}

}  // namespace

void require_effects(const Options& options, const Selection& selection) {
  const Names running = names_of(options, selection.cases);
  for (const Owned& one : owned_options(options)) {
    if (!one.given) continue;
    const bool taken = std::any_of(running.begin(), running.end(), [&](const std::string& name) {
      return std::find(one.owners.begin(), one.owners.end(), name) != one.owners.end();
    });
    if (taken) continue;
    throw UsageError(std::string(one.option) + " is an option of " + joined(one.owners, " and ") +
                     ", and what runs here is " + joined(running, " and ") +
                     (selection.notes.empty() ? "" : " (" + joined(selection.notes, "; ") + ")") +
                     ": leave it out, or name " + joined(one.owners, " or ") + " with --impl");
  }
}

void require_input_name(const Options& options, const std::string& input) {
  require_name("--shapes", options.shapes_input, input);
  require_name("--loadInputs", options.loaded_input, input);
}

}  // namespace mobicuda::bench
