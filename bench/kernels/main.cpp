// kernel_bench: every kernel on the layers of networks, and cuDNN on the same ones.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <mobicuda/onnx_import.h>
#include <CLI/CLI.hpp>

#include "bench_support.h"
#include "ceilings.h"
#include "selection.h"
#include "zoo_layers.h"

namespace mobicuda::bench {
namespace {

// As bench_engine's.
constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;
constexpr int kNoDevice = 4;

struct Options {
  std::vector<std::string> networks;
  std::vector<std::string> models;
  std::vector<int> batches{1, 8, 32};
  std::vector<std::string> precisions{"fp32", "fp16"};
  bool list_networks = false;
  bool no_ceilings = false;
  std::string against;
};

void declare(CLI::App& app, Options& options) {
  app.allow_extras();  // Google Benchmark's
  app.add_option("--networks", options.networks, "Networks of the zoo whose layers run; all of them unless --model")
      ->delimiter(',');
  app.add_option("--model", options.models, "ONNX file whose layers run; repeatable")->check(CLI::ExistingFile);
  app.add_option("--batches", options.batches, "Batch sizes; 1,8,32 unless given")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  app.add_option("--precisions", options.precisions, "fp32, fp16; both unless given")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "fp16"}));
  app.add_option("--against", options.against,
                 "cudnn: only the layers that cuDNN runs as well, with its times; for scripts/kernel_table")
      ->check(CLI::IsMember({"cudnn"}));
  app.add_flag("--listNetworks", options.list_networks, "Print the zoo's networks and exit");
  app.add_flag("--noCeilings", options.no_ceilings, "Do not measure what the GPU reaches; no shares of it");
  app.footer(
      "Benchmarks are named <kernel>/<variant>/<shape of a picture>/<precision>/b<batch>/<warm|cold>, and\n"
      "cudnn/<kernel>/<shape>/...; their labels say in which networks a shape occurs how often.\n"
      "  --benchmark_filter=REGEX --benchmark_list_tests --benchmark_out=FILE --benchmark_min_time=SECONDS ...\n"
      "are Google Benchmark's. bench/kernels/README.md has examples.");
}

Selection select(const Options& options, Registry& registry) {
  Selection selection;
  std::vector<std::string> networks = options.networks;
  if (networks.empty() && options.models.empty()) networks = zoo_network_names();
  selection.layers = zoo_layers(networks);
  for (const std::string& model : options.models) {
    const std::string name = std::filesystem::path(model).stem().string();
    for (const LayerShape& shape : layers_of(onnx_import::load(model))) add_use(selection.layers, shape, name, 1);
  }
  selection.registry = &registry;
  selection.batches = options.batches;
  for (const std::string& precision : options.precisions) {
    selection.elems.push_back(precision == "fp16" ? kernels::Elem::F16 : kernels::Elem::F32);
  }
  return selection;
}

/// Google Benchmark's own default is half a second for each of thousands.
std::vector<std::string> benchmark_arguments(const char* program, std::vector<std::string> given) {
  const bool timed = std::ranges::any_of(
      given, [](const std::string& argument) { return argument.starts_with("--benchmark_min_time"); });
  if (!timed) given.insert(given.begin(), "--benchmark_min_time=0.002");
  given.insert(given.begin(), program);
  return given;
}

std::string filter_of(const std::vector<std::string>& arguments) {
  constexpr std::string_view kFlag = "--benchmark_filter=";
  std::string filter = ".";
  for (const std::string& argument : arguments) {
    if (argument.starts_with(kFlag)) filter = argument.substr(kFlag.size());
  }
  return filter;
}

bool lists(const std::vector<std::string>& arguments) {
  return std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument == "--benchmark_list_tests" || argument == "--benchmark_list_tests=true";
  });
}

int run(int argc, char** argv) {
  CLI::App app("Times every kernel variant on the layers of networks, in and out of the L2 cache.", "kernel_bench");
  Options options;
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  if (options.list_networks) {
    for (const std::string& name : zoo_network_names()) std::cout << name << '\n';
    return 0;
  }
  if (!options.against.empty() && !has_cudnn()) throw std::invalid_argument("--against=cudnn: built without cuDNN");
  measure_ceilings(!options.no_ceilings);
  std::vector<std::string> arguments = benchmark_arguments(argv[0], app.remaining());
  Registry registry(filter_of(arguments));
  const Selection selection = select(options, registry);
  for (const Benchmarks* kernel : Benchmarks::all()) {
    if (options.against.empty() || kernel->compared()) kernel->add(selection);
  }
  register_cudnn(selection);
  const bool only_list = lists(arguments);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  auto count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return kWrongUsage;
  if (only_list) {
    registry.list();
    return 0;
  }
  if (!has_gpu()) {
    std::cerr << "kernel_bench: no CUDA device (--benchmark_list_tests needs none)\n";
    return kNoDevice;
  }
  registry.hand_over();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // while CUDA is still there
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace mobicuda::bench

int main(int argc, char** argv) {
  try {
    return mobicuda::bench::run(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::cerr << "kernel_bench: " << error.what() << '\n';
    return mobicuda::bench::kWrongUsage;
  } catch (const std::exception& error) {
    std::cerr << "kernel_bench: " << error.what() << '\n';
    return mobicuda::bench::kFailure;
  }
}
