// serving_load: loads an inference server of the Open Inference Protocol, and measures it. docs/serving.md says how it
// is used.
#include <sys/resource.h>

#include <cmath>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "serving/load.h"

namespace mobicuda::bench {
namespace {

constexpr int kUsage = 2;

struct Arguments {
  LoadOptions load;
  std::string memory = "system";
  std::string json;
};

// By their names on the command line.
const std::map<std::string, TensorMemory>& memories() {
  static const std::map<std::string, TensorMemory> all{
      {"message", TensorMemory::Message}, {"system", TensorMemory::System}, {"cuda", TensorMemory::Cuda}};
  return all;
}

void declare(CLI::App& app, Arguments& arguments) {
  LoadOptions& load = arguments.load;
  app.add_option("url", load.url, "HOST:PORT of the server's gRPC endpoint")->required();
  app.add_option("model", load.model, "name of a model whose one input is UINT8, FP32 or BYTES")->required();
  app.add_option("--images", load.images, "images of a request")->check(CLI::Range(1, 65536))->capture_default_str();
  app.add_option("--sets", load.sets, "different requests")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--seed", load.seed, "of the images")->capture_default_str();
  app.add_option("--files", load.files, "pictures for a model that takes encoded ones")->check(CLI::ExistingFile);
  app.add_option("--memory", arguments.memory,
                 "where tensors lie: in shared memory of the system or of GPUs, or in the messages")
      ->check(CLI::IsMember(memories()))
      ->capture_default_str();
  app.add_option("--gpus", load.gpus, "with --memory cuda: requests have their inputs on each of so many GPUs in turn")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--clients", load.clients, "connections; one request under way each, but with --rate")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--threads", load.threads, "that drive them")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--rate", load.rate, "requests a second, whether answers come or not; 0: each after the one before")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  app.add_option("--outstanding", load.outstanding, "most requests under way with --rate")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--warmUp", load.warm_up_seconds, "seconds that are not counted")
      ->check(CLI::Range(0.0, 1e5))
      ->capture_default_str();
  app.add_option("--seconds", load.seconds, "that are")->check(CLI::Range(0.01, 1e6))->capture_default_str();
  app.add_option("--timeout", load.timeout_seconds, "seconds for a request")
      ->check(CLI::Range(0.001, 1e5))
      ->capture_default_str();
  app.add_option("--json", arguments.json, "file for the result, instead of the standard output");
}

nlohmann::json latencies(const std::vector<double>& rising) {
  if (rising.empty()) return nullptr;
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(std::ceil(share * static_cast<double>(rising.size()))) - 1;
    return rising[index];
  };
  return {{"mean", std::accumulate(rising.begin(), rising.end(), 0.0) / static_cast<double>(rising.size())},
          {"p50", at(0.5)},
          {"p90", at(0.9)},
          {"p99", at(0.99)},
          {"max", rising.back()}};
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Of the process so far.
double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

nlohmann::json measure(const Arguments& arguments) {
  Load load(arguments.load);
  const double cpu_before = cpu_seconds();
  const LoadResult result = load.run();
  const double cpu = cpu_seconds() - cpu_before;
  const double rate = result.seconds > 0 ? static_cast<double>(result.latencies_us.size()) / result.seconds : 0;
  const LoadOptions& options = arguments.load;
  return {{"model", options.model},
          {"images", options.images},
          {"memory", arguments.memory},
          {"clients", options.clients},
          {"rate", options.rate},
          {"seconds", result.seconds},
          {"requestsPerSecond", rate},
          {"imagesPerSecond", rate * options.images},
          {"latencyUs", latencies(result.latencies_us)},
          {"statuses", result.statuses},
          {"messages", result.messages},
          {"notSent", result.not_sent},
          {"wrong", result.wrong},
          {"difference", result.difference},
          {"leastDistance", load.answers().least_distance()},
          {"coresBusy", cpu / (options.warm_up_seconds + options.seconds)}};
}

int run(int argc, char** argv) {
  CLI::App app(
      "Loads an inference server of the Open Inference Protocol (KServe v2) over gRPC, and measures it. Prints one "
      "JSON "
      "document. An answer is wrong when it is nearer to another image's than rounding can make it; exit codes: 0 "
      "measured, 1 the server failed or answered something wrong, 2 usage.");
  app.name("serving_load");
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  arguments.load.memory = memories().at(arguments.memory);
  const nlohmann::json result = measure(arguments);
  if (arguments.json.empty()) {
    std::cout << result.dump(1) << '\n';
  } else {
    std::ofstream file(arguments.json);
    file << result.dump(1) << '\n';
    file.close();
    if (!file) throw std::runtime_error(arguments.json + " cannot be written");
  }
  return result["wrong"] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mobicuda::bench

int main(int argc, char** argv) {
  try {
    return mobicuda::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "serving_load: " << error.what() << '\n';
    return 1;
  }
}
