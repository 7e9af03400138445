#include "exporter_row.h"

#include <filesystem>
#include <map>
#include <random>

#include <mobicuda/cpu_backend.h>

#include "models/zoo/onnx_writer.h"
#include "models/zoo/random.h"
#include "support/catch.h"
#include "support/sanitizer.h"

namespace mobicuda::test {
namespace {

using zoo::MobileNetV2Options;

constexpr std::int64_t kPictures = 2;

/// Two pictures (N, C, H, W), or the same two as (N, H, W, C).
std::vector<float> pictures(std::int64_t height, std::int64_t width, bool nhwc) {
  zoo::Random random(7);
  std::vector<float> result(static_cast<std::size_t>(kPictures * 3 * height * width));
  for (std::int64_t n = 0; n < kPictures; ++n) {
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t pixel = 0; pixel < height * width; ++pixel) {
        const std::int64_t index = nhwc ? (n * height * width + pixel) * 3 + c : (n * 3 + c) * height * width + pixel;
        result[static_cast<std::size_t>(index)] = static_cast<float>(random.normal());
      }
    }
  }
  return result;
}

/// How often each operation occurs in the optimised graph.
std::map<std::string, int> operations(const Graph& graph) {
  std::map<std::string, int> result;
  const Graph optimized = optimize(graph);
  for (const Node& node : optimized.nodes()) ++result[std::string(op_name(node.op))];
  return result;
}

struct Expected {
  Shape shape;
  std::vector<double> logits;
  std::map<std::string, int> operations;
};

/// Of a plain form: many variants have the same.
const Expected& expected_of(const Model& plain) {
  static std::map<std::string, Expected> known;
  const auto [found, is_new] = known.try_emplace(plain.SerializeAsString());
  if (is_new) {
    const Graph graph = import(plain);
    const std::vector<float> values = logits(graph);
    found->second = {graph.output_desc().shape, {values.begin(), values.end()}, operations(graph)};
  }
  return found->second;
}

/// A folder that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("mobicuda_exporters_" + std::to_string(std::random_device{}()))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

MobileNetV2Options small_network() {
  MobileNetV2Options options;
  options.width = 0.35;
  options.height = 40;
  options.picture_width = 56;
  options.classes = 7;
  options.blocks = 3;
  return options;
}

MobileNetV2Options full_network() {
  MobileNetV2Options options = small_network();
  options.height = options.picture_width = kSanitized ? 32 : 96;
  options.classes = 10;
  options.blocks = kSanitized ? 7 : 17;
  return options;
}

Graph import(const Model& model, const onnx_import::ImportOptions& options) {
  const std::string bytes = model.SerializeAsString();
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "test.onnx", options);
}

std::vector<float> logits(const Graph& graph) {
  const Shape& shape = graph.input_desc().shape;
  const bool nhwc = shape[3] == 3;
  EngineOptions options;
  options.precision = Precision::Fp64;
  options.max_batch = kPictures;
  const auto engine = make_cpu_backend()->compile(graph, options);
  const std::vector<float> input = pictures(shape[nhwc ? 1 : 2], shape[nhwc ? 2 : 3], nhwc);
  std::vector<float> output(static_cast<std::size_t>(kPictures * engine->output().shape.elements()));
  engine->create_session()->run(input, output);
  return output;
}

Comparison compare_logits(const Graph& variant, const Graph& plain, double tolerance) {
  const std::vector<float> expected = logits(plain);
  return compare_rel_l2(logits(variant), std::vector<double>(expected.begin(), expected.end()), tolerance);
}

void require_same(const Graph& variant, const Model& plain, double tolerance) {
  const Expected& expected = expected_of(plain);
  CHECK(variant.output_desc().shape == expected.shape);
  CHECK(compare_rel_l2(logits(variant), expected.logits, tolerance));
  auto expected_operations = expected.operations;
  auto actual_operations = operations(variant);
  // A reshape of (N, C, 1, 1) to (N, C) moves nothing, and a mean over the map needs none.
  for (auto* counts : {&expected_operations, &actual_operations}) counts->erase("Reshape");
  CHECK(actual_operations == expected_operations);
}

void check_row(const Row& row) {
  for (MobileNetV2Options options : {small_network(), full_network()}) {
    if (kThreadSanitized && options.blocks > small_network().blocks) continue;  // more of the same
    CAPTURE(row.opset, options.blocks);
    options.padding = row.padding;
    options.batchnorm_epsilon = row.epsilon;
    Model plain = build_mobilenet_v2(options);
    for (const Rewrite& rewrite : row.reference_rewrites) rewrite(plain);

    options.opset = row.opset;
    options.fold_batchnorm = !row.batchnorm;
    options.head = row.head;
    options.batch = row.batch;
    Model variant = build_mobilenet_v2(options);
    for (const Rewrite& rewrite : row.rewrites) rewrite(variant);
    require_same(import(variant), plain, row.batchnorm ? kRoundedFolding : kSameNetwork);
  }
}

void check_external_data(std::int64_t opset, const std::vector<Rewrite>& rewrites, std::size_t least_bytes) {
  for (MobileNetV2Options options : {small_network(), full_network()}) {
    const Model plain = build_mobilenet_v2(options);
    options.opset = opset;
    Model variant = build_mobilenet_v2(options);
    for (const Rewrite& rewrite : rewrites) rewrite(variant);
    const TemporaryFolder folder;
    write_external_data(variant, folder.path(), "model.onnx.data", least_bytes);
    zoo::write_model(variant, folder.path() / "model.onnx");
    require_same(onnx_import::load(folder.path() / "model.onnx"), plain);
  }
}

void require_refused(const std::function<void()>& call, ErrorCode code, const std::vector<std::string>& words) {
  try {
    call();
    FAIL("was accepted");
  } catch (const Error& error) {
    CAPTURE(error.what());
    CHECK(error.code() == code);
    for (const std::string& word : words) {
      CAPTURE(word);
      CHECK(std::string(error.what()).find(word) != std::string::npos);
    }
  }
}

}  // namespace mobicuda::test
