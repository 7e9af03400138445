#pragma once

#include "bench_engine/model/options.h"

namespace CLI {
class App;
}

namespace mobicuda::bench {

inline constexpr std::int64_t kMaxThreads = 4096;

/// What CLI11 fills in and Options does not hold in that form.
struct RawOptions {
  std::vector<std::string> batches;
  std::vector<std::string> threads;
  std::vector<std::string> max_images;
  std::vector<std::string> precisions;
  std::vector<std::string> variants;
  std::string shapes;
  std::string load_inputs;
  std::string golden;
  std::string normalization;
  std::string decode = "cpu";
  std::string input = "fp32";
  std::string host_transfer = "auto";
  std::string specialise = "auto";
  bool fp16 = false;
  bool no_cuda_graph = false;
  bool use_cuda_graph = false;
  bool no_programmatic_launch = false;
};

/// Every option of the program, group by group, as --help shows them.
void declare_options(CLI::App& app, Options& options, RawOptions& raw);

}  // namespace mobicuda::bench
