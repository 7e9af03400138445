#include "bench_engine/command_line/engine_options.h"

#include <CLI/CLI.hpp>

#include "bench_engine/command_line/input_files.h"
#include "bench_engine/command_line/value_checks.h"
#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {

void add_engine_options(CLI::App& app, Options& options) {
  const auto* group = "Model";
  app.add_option("--loadEngine", options.load_engine,
                 "Plan file instead of --model: an engine of custom or cpu that --saveEngine wrote on such a machine")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--saveEngine", options.save_engine,
                 "Write the compiled engine (custom, cpu) as a plan file; with several results each has its "
                 "implementation, precision and batch in the file's name")
      ->type_name("FILE")
      ->group(group);
  const auto reload = [&options](const std::string& when) { options.reload = when == "each"; };
  app.add_option_function<std::string>(
         "--reload", reload, "each: also time inferences that each read and load the file anew; never: it stays loaded")
      ->check(one_of({"never", "each"}))
      ->type_name("never|each")
      ->default_str("never")
      ->group(group);
}

void check_engine_options(const Options& options) {
  if (options.load_engine.empty()) {
    if (options.model.empty()) throw UsageError("--model is missing: which ONNX file?");
    return;
  }
  require_file(options.load_engine, "--loadEngine");
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) throw UsageError(std::string("--loadEngine and ") + option + " exclude each other: " + why);
  };
  refuse(!options.model.empty(), "--model", "the plan file is the model");
  refuse(!options.picture_shape.empty(), "--shapes", "the plan file has its shapes");
  refuse(options.generated_elements.has_value(), "--generatedElements", "no ONNX file is read");
  refuse(!options.kernel_variants.empty(), "--kernelVariant", "its kernels were chosen when it was compiled");
  refuse(!options.compare.empty(), "--compare", "the other implementations are compiled from the model");
  refuse(!options.timing_cache.empty(), "--timingCacheFile", "its kernels were chosen when it was compiled");
}

}  // namespace mobicuda::bench
