#include "fuzz/target.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

#include <mobicuda/error.h>

#include "support/temporary_folder.h"

namespace mobicuda::fuzz {

namespace fs = std::filesystem;

void fail(std::string_view what) {
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

bool returns(const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    const std::string what = error.what();
    if (error.code() == ErrorCode::internal) fail("an internal error: " + what);
    if (printable(what) != what) fail("a text that is unfit for a terminal: " + printable(what));
    if (what.size() > 4 * kMaxErrorBytes) fail("a text of " + std::to_string(what.size()) + " bytes");
  } catch (const std::exception& error) {
    fail(std::string("an exception that is no Error: ") + error.what());
  }
  return false;
}

onnx_import::ImportLimits small_limits() {
  onnx_import::ImportLimits limits;
  limits.nodes = 256;
  limits.initializers = 256;
  limits.weight_bytes = 16 << 20;
  limits.memory_bytes = 32 << 20;
  limits.generated_elements = 1 << 20;
  return limits;
}

EngineOptions small_options() {
  EngineOptions options;
  options.threads = 1;
  options.max_memory_bytes = 16 << 20;
  return options;
}

bool is_small(const Graph& graph) {
  constexpr double kMostElements = 1 << 18;
  constexpr double kMostOperations = 1 << 22;
  double elements = 0;
  double operations = 0;
  for (const Value& value : graph.values()) elements += static_cast<double>(value.desc.shape.elements());
  for (const Node& node : graph.nodes()) {
    const double output = static_cast<double>(graph.value(node.output).desc.shape.elements());
    double window = 1;
    if (const auto* pool = std::get_if<Pool2d>(&node.op)) {
      window = static_cast<double>(pool->kernel[0]) * static_cast<double>(pool->kernel[1]);
    } else if (const auto* norm = std::get_if<LocalResponseNorm>(&node.op)) {
      window = static_cast<double>(norm->size);
    }
    operations += output * window + static_cast<double>(flops_per_picture(graph, node));
  }
  return elements <= kMostElements && operations <= kMostOperations;
}

std::vector<float> run_once(const Engine& engine) {
  std::vector<float> output(static_cast<std::size_t>(engine.output().shape.elements()));
  const auto inputs = static_cast<std::size_t>(engine.input().shape.elements());
  const auto session = engine.create_session();
  constexpr std::size_t kPeriod = 7;
  if (engine.input().dtype == DType::U8) {
    std::vector<std::uint8_t> pictures(inputs);
    for (std::size_t i = 0; i < inputs; ++i) pictures[i] = static_cast<std::uint8_t>(i * kPeriod);
    session->run(pictures, output);
  } else {
    std::vector<float> numbers(inputs);
    for (std::size_t i = 0; i < inputs; ++i) numbers[i] = static_cast<float>(i % kPeriod) / 4 - 1;
    session->run(numbers, output);
  }
  return output;
}

const fs::path& scratch_folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

fs::path scratch_file(const std::string& name, Bytes content) {
  fs::path file = scratch_folder() / name;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (!out.flush()) fail("cannot write " + file.string());
  return file;
}

}  // namespace mobicuda::fuzz
