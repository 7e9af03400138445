// differential_engines: random valid graphs, each run on the engines that are named and held against what the graph
// says as it was written, within bounds that no correct engine exceeds (docs/numerics.md, "Random graphs"). The seed of
// a graph that an engine fails makes the same graph again.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/custom_backend.h>
#include <mobicuda/error.h>
#ifdef MOBICUDA_WITH_CUDNN
#include <mobicuda/cudnn_backend.h>
#endif

#include "support/bounded_graph.h"
#include "support/random.h"
#include "support/random_graph.h"

namespace {

using namespace mobicuda;
using Clock = std::chrono::steady_clock;

constexpr int kExitFault = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNoDevice = 4;
constexpr std::int64_t kImages = 2;
// Above this a half may overflow inside: such a graph says nothing at fp16.
constexpr double kLargestHalf = 30000;

struct CommandLine {
  std::uint32_t graphs = 1000;
  std::uint32_t seed = 1;
  std::uint32_t nodes = 10;
  int threads = 1;
  bool print = false;
  std::vector<std::string> engines{"cpu"};
};

struct Target {
  std::string name;
  const Backend* backend;
  Precision precision;
};

struct Tally {
  std::atomic<std::int64_t> within{0};
  std::atomic<std::int64_t> refused{0};   ///< by name
  std::atomic<std::int64_t> overflow{0};  ///< too large for half
  std::atomic<std::int64_t> wrong{0};
};

std::unique_ptr<Backend> make_backend(const std::string& name) {
  if (name == "cpu") return make_cpu_backend();
  if (name == "custom") return make_custom_backend();
#ifdef MOBICUDA_WITH_CUDNN
  if (name == "cudnn") return make_cudnn_backend();
#endif
  throw std::invalid_argument("engine: no implementation is named '" + name + "'");
}

Precision precision_of(const std::string& text) {
  if (text == "fp32") return Precision::Fp32;
  if (text == "fp16") return Precision::Fp16;
  if (text == "fp64") return Precision::Fp64;
  if (text == "fp32_split") return Precision::Fp32Split;
  throw std::invalid_argument("engine: the precision must be fp32, fp32_split, fp16 or fp64, got '" + text + "'");
}

/// One graph on one engine; what is wrong, or nothing.
std::string check(const Graph& graph, std::span<const float> images, const Target& target, Tally& tally) {
  const auto image = static_cast<std::size_t>(graph.input_desc().shape.elements());
  const auto answer = static_cast<std::size_t>(graph.output_desc().shape.elements());
  EngineOptions options;
  options.precision = target.precision;
  options.max_batch = kImages;
  options.threads = 1;
  options.guarded_arena = true;
  std::shared_ptr<const Engine> engine;
  try {
    engine = target.backend->compile(graph, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    ++tally.refused;
    return {};
  }
  std::vector<float> outputs(answer * kImages);
  engine->create_session()->run(images, outputs);
  for (std::size_t i = 0; i < kImages; ++i) {
    const auto expected = test::run_bounded(graph, images.subspan(i * image, image),
                                            test::arithmetic_of(target.precision, target.backend->name()));
    if (target.precision == Precision::Fp16 && expected.largest > kLargestHalf) {
      ++tally.overflow;
      return {};
    }
    const auto verdict =
        test::compare_elements(std::span(outputs).subspan(i * answer, answer), expected.value, expected.allowed);
    if (!verdict) {
      ++tally.wrong;
      return "image " + std::to_string(i) + ": " + verdict.reason;
    }
  }
  ++tally.within;
  return {};
}

class Check {
 public:
  Check(const CommandLine& line, std::vector<Target> targets)
      : line_(line), targets_(std::move(targets)), tallies_(targets_.size()) {}

  /// Whether all graphs were right.
  bool run() {
    const auto start = Clock::now();
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(line_.threads));
    for (int i = 0; i < line_.threads; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const Tally& tally = tallies_[i];
      wrong += tally.wrong;
      std::printf("%s: %lld within the bounds, %lld refused, %lld too large for half, %lld wrong\n",
                  targets_[i].name.c_str(), static_cast<long long>(tally.within), static_cast<long long>(tally.refused),
                  static_cast<long long>(tally.overflow), static_cast<long long>(tally.wrong));
    }
    std::printf("%s: %u graphs from seed %u, %.1f s, %.1f graphs/s\n", wrong == 0 ? "ok" : "WRONG", line_.graphs,
                line_.seed, seconds, line_.graphs / seconds);
    return wrong == 0;
  }

 private:
  void work() {
    for (std::uint32_t i = next_++; i < line_.graphs; i = next_++) {
      const std::uint32_t seed = line_.seed + i;
      test::SeededChoices choices(seed);
      const Graph graph = test::random_graph(choices, line_.nodes);
      const auto images =
          test::random_uniform(seed, static_cast<std::size_t>(kImages * graph.input_desc().shape.elements()));
      if (line_.print) tell(mobicuda::print(graph));
      for (std::size_t t = 0; t < targets_.size(); ++t) {
        std::string wrong;
        try {
          wrong = check(graph, images, targets_[t], tallies_[t]);
        } catch (const std::exception& error) {
          ++tallies_[t].wrong;
          wrong = error.what();
        }
        if (!wrong.empty()) {
          tell("WRONG: seed " + std::to_string(seed) + " on " + targets_[t].name + ": " + wrong + "\n" +
               mobicuda::print(graph));
        }
      }
    }
  }

  void tell(const std::string& text) {
    const std::scoped_lock lock(output_);
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

  const CommandLine& line_;
  std::vector<Target> targets_;
  std::vector<Tally> tallies_;
  std::atomic<std::uint32_t> next_{0};
  std::mutex output_;
};

int run(const CommandLine& line) {
  std::map<std::string, std::unique_ptr<Backend>> backends;
  std::vector<Target> targets;
  for (const std::string& text : line.engines) {
    const std::size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    auto& backend = backends[name];
    if (!backend) backend = make_backend(name);
    targets.push_back(
        {text, backend.get(), precision_of(colon == std::string::npos ? "fp32" : text.substr(colon + 1))});
  }
  return Check(line, std::move(targets)).run() ? 0 : kExitFault;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  CLI::App app("Random graphs on several engines, within bounds");
  app.option_defaults()->always_capture_default();
  app.add_option("engine", line.engines,
                 "Engines, each NAME[:PRECISION]: cpu, custom, cudnn; fp32, fp32_split, fp16, fp64");
  app.add_option("--graphs", line.graphs, "How many")->check(CLI::Range(1, 100000000));
  app.add_option("--seed", line.seed, "Of the first graph; the next one has the next seed");
  app.add_option("--nodes", line.nodes, "The most nodes of a graph")->check(CLI::Range(1, 64));
  app.add_option("--threads", line.threads, "Graphs at a time")->check(CLI::Range(1, 1024));
  app.add_flag("--print", line.print, "Show each graph");
  app.footer(
      "Exit codes: 0 all within the bounds or refused by name, 1 an engine was wrong, 2 usage, 4 no GPU.\n"
      "Example: differential_engines custom:fp16 custom:fp32 cudnn:fp16 --graphs 10000 --threads 8");
  try {
    app.parse(argc, argv);
    return run(line);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "differential_engines: %s\n", error.what());
    return kExitUsage;
  } catch (const Error& error) {
    std::fprintf(stderr, "differential_engines: %s\n", error.what());
    return error.code() == ErrorCode::device_unavailable ? kExitNoDevice : kExitFault;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "differential_engines: %s\n", error.what());
    return kExitFault;
  }
}
