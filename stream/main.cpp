// mobicuda_stream: classifies a stream of pictures with several models on several GPUs. docs/stream.md is its manual.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include <mobicuda/error.h>
#include <mobicuda/pictures.h>

#include "bench_engine/command_line/help.h"
#include "bench_engine/model/exit_codes.h"
#include "bench_engine/process/interrupt.h"
#include "bench_engine/process/progress.h"
#include "stream/engine_workers.h"
#include "stream/run_stream.h"

namespace mobicuda::stream {
namespace {

using bench::ExitCode;

struct Options {
  std::filesystem::path config;
  bool resume = false;
  bool quiet = false;
};

int fail(ExitCode code, const std::string& message) {
  std::cerr << "mobicuda_stream: " << printable(message) << '\n';
  return code;
}

/// Asks the stream to stop once Ctrl-C was pressed.
class StopOnInterrupt {
 public:
  explicit StopOnInterrupt(std::stop_source& stop)
      : thread_([&stop](const std::stop_token& ended) {
          constexpr auto kInterval = std::chrono::milliseconds(20);
          while (!ended.stop_requested()) {
            if (bench::interrupted()) stop.request_stop();
            std::this_thread::sleep_for(kInterval);
          }
        }) {}

 private:
  std::jthread thread_;
};

std::vector<std::string> load_labels(const std::filesystem::path& file) {
  std::vector<std::string> labels;
  if (file.empty()) return labels;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) labels.push_back(line);
  if (labels.empty()) throw Error(ErrorCode::io, file.string(), "cannot be read, or names no class");
  return labels;
}

int classify(const Options& options) {
  const Config config = load_config(options.config);
  const PictureFiles pictures = pictures::list_folder(config.img_dir);
  if (pictures.empty()) throw Error(ErrorCode::io, config.img_dir.string(), "holds no files");
  std::vector<std::string> names;
  for (const pictures::PictureFile& picture : pictures) names.push_back(picture.name);
  const std::vector<std::string> labels = load_labels(config.labels);
  const Item items = items_of(config, names.size());
  Journal journal(config.result_dir, identity_of(config, names), items, options.resume);
  if (journal.cut_bytes() > 0 && !options.quiet) {
    std::cerr
        << "mobicuda_stream: the earlier run was cut off while it wrote a result; that picture is classified again\n";
  }
  bench::Progress progress(std::cerr, bench::stderr_style(options.quiet));
  progress.without_ranges();
  progress.set_steps(2);
  std::mutex terminal;  // workers tell how far they are
  const auto log = [&](LogLevel level, std::string_view text) {
    if (options.quiet && level == LogLevel::Info) return;
    const std::scoped_lock lock(terminal);
    progress.clear();
    std::cerr << "mobicuda_stream: " << printable(text) << '\n';
  };
  const auto tell = [&](Item done) {
    const std::scoped_lock lock(terminal);
    progress.within(done, items);
  };
  progress.step(config.preload ? "loading models" : "looking for processors");
  std::vector<ModelSummary> models;
  const auto start = std::chrono::steady_clock::now();
  std::vector<Processor> processors;
  if (journal.done_before() < items) processors = make_processors(config, pictures, models, log);
  const double load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (processors.empty()) {
    progress.clear();
    std::cout << "all " << items << " pictures were done before\n";
    return bench::kExitOk;
  }
  progress.step("classifying");
  std::stop_source stop;
  const StopOnInterrupt stopper(stop);
  Summary summary = run_stream({config, names, labels, journal, tell, stop.get_token()}, processors);
  progress.clear();
  summary.models = std::move(models);
  summary.load_seconds = load_seconds;
  replace_file(config.result_dir / "summary.json", summary_json(summary, config));
  print_summary(std::cout, summary, config);
  if (summary.interrupted) return bench::kExitInterrupted;
  if (summary.done > 0 && summary.failed == summary.done)
    return fail(bench::kExitRuntime, "no picture could be classified");
  return bench::kExitOk;
}

int run(int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "Classifies a stream of pictures, each with a model picked at random by share, on several GPUs or the CPU.\n"
      "docs/stream.md tells what the configuration holds.",
      "mobicuda_stream");
  app.formatter(std::make_shared<bench::HelpFormatter>());
  app.set_version_flag("--version", "mobicuda_stream " MOBICUDA_VERSION);
  app.add_option("--config", options.config, "the configuration, a JSON file")->type_name("FILE")->required();
  app.add_flag("--resume", options.resume,
               "goes on with the results in result_dir: what they hold is not classified again");
  app.add_flag("--quiet", options.quiet, "no progress and no remarks on stderr");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return bench::tell(app, error, std::cout, std::cerr);
  }
  try {
    return classify(options);
  } catch (const Error& error) {
    switch (error.code()) {
      case ErrorCode::invalid_argument:
        return fail(bench::kExitUsage, error.what());
      case ErrorCode::device_unavailable:
        return fail(bench::kExitNoDevice, error.what());
      default:
        return fail(bench::kExitRuntime, error.what());
    }
  }
}

}  // namespace
}  // namespace mobicuda::stream

int main(int argc, char** argv) {
  try {
    mobicuda::bench::catch_interrupts();
    const int code = mobicuda::stream::run(argc, argv);
    std::cout.flush();
    if (std::cout || code != mobicuda::bench::kExitOk) return code;
    return mobicuda::stream::fail(mobicuda::bench::kExitRuntime, "the standard output cannot be written");
  } catch (const std::exception& error) {
    return mobicuda::stream::fail(mobicuda::bench::kExitRuntime, error.what());
  }
}
