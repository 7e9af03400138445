// The C interface beside the C++ interface: the same bits, descriptions, texts and logs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <mobicuda/mobicuda.h>
#include <mobicuda/mobicuda_c.h>
#include <mobicuda/version.h>
#include <mobicuda_onnx.pb.h>

#include "models/zoo/mobilenet_v2.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/random.h"
#include "support/temporary_folder.h"

namespace mobicuda {
namespace {

constexpr std::int64_t kMaxBatch = 4;

onnx_schema::ModelProto model() {
  return zoo::build_mobilenet_v2(
      {.width = 0.35, .height = 32, .picture_width = 48, .classes = 10, .blocks = 3, .seed = 3});
}

std::string model_bytes() { return model().SerializeAsString(); }

Graph imported(const std::string& bytes) {
  return onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "model");
}

mobicuda_engine_options cpu_options() {
  mobicuda_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = MOBICUDA_BACKEND_CPU;
  options.max_batch = kMaxBatch;
  options.threads = 1;
  return options;
}

EngineOptions same_options() {
  EngineOptions options;
  options.max_batch = kMaxBatch;
  options.threads = 1;
  return options;
}

// Handles that end by themselves.
struct End {
  void operator()(mobicuda_engine* engine) const { mobicuda_engine_destroy(engine); }
  void operator()(mobicuda_session* session) const { mobicuda_session_destroy(session); }
};
using EngineHandle = std::unique_ptr<mobicuda_engine, End>;
using SessionHandle = std::unique_ptr<mobicuda_session, End>;

EngineHandle loaded(const std::string& bytes, const mobicuda_engine_options& options) {
  mobicuda_engine* engine = nullptr;
  const mobicuda_status status =
      mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", nullptr, &options, &engine);
  INFO(mobicuda_last_error_text());
  REQUIRE(status == MOBICUDA_OK);
  return EngineHandle(engine);
}

SessionHandle session_of(const EngineHandle& engine) {
  mobicuda_session* session = nullptr;
  REQUIRE(mobicuda_session_create(engine.get(), &session) == MOBICUDA_OK);
  return SessionHandle(session);
}

struct Log {
  std::vector<std::pair<std::int32_t, std::string>> lines;
  static void keep(std::int32_t level, const char* message, void* log) {
    static_cast<Log*>(log)->lines.emplace_back(level, message);
  }
};

}  // namespace

TEST_CASE("c_api: every precision and batch of the CPU engine gives the bits of C++") {
  const std::string bytes = model_bytes();
  const Graph graph = imported(bytes);
  for (const auto& [precision, number] :
       {std::pair{Precision::Fp32, MOBICUDA_PRECISION_FP32}, std::pair{Precision::Fp64, MOBICUDA_PRECISION_FP64}}) {
    EngineOptions options = same_options();
    options.precision = precision;
    const auto engine = make_cpu_backend()->compile(graph, options);
    const auto session = engine->create_session();
    mobicuda_engine_options c_options = cpu_options();
    c_options.precision = number;
    const EngineHandle c_engine = loaded(bytes, c_options);
    const SessionHandle c_session = session_of(c_engine);
    for (std::size_t n = 1; n <= static_cast<std::size_t>(kMaxBatch); ++n) {
      const std::vector<float> input = test::random_uniform(static_cast<std::uint32_t>(n), n * 3 * 32 * 48);
      std::vector<float> expected(n * 10);
      std::vector<float> output(n * 10);
      session->run(input, expected);
      REQUIRE(mobicuda_session_run(c_session.get(), input.data(), input.size(), output.data(), output.size()) ==
              MOBICUDA_OK);
      CHECK(output == expected);
    }
  }
}

TEST_CASE("c_api: engines, layers and memory are described as in C++") {
  const std::string bytes = model_bytes();
  const auto engine = make_cpu_backend()->compile(imported(bytes), same_options());
  const EngineHandle c_engine = loaded(bytes, cpu_options());

  mobicuda_engine_info info{};
  info.struct_size = sizeof info;
  REQUIRE(mobicuda_engine_get_info(c_engine.get(), &info) == MOBICUDA_OK);
  CHECK(engine->backend() == info.backend);
  CHECK(info.precision == MOBICUDA_PRECISION_FP32);
  CHECK(info.max_batch == kMaxBatch);
  CHECK(info.upload_ms == engine->upload_ms());

  mobicuda_memory_report report{};
  report.struct_size = sizeof report;
  REQUIRE(mobicuda_engine_get_memory(c_engine.get(), &report) == MOBICUDA_OK);
  const MemoryReport memory = engine->memory();
  CHECK(report.weight_bytes == memory.weight_bytes);
  CHECK(report.arena_bytes == memory.arena_bytes);
  CHECK(report.workspace_bytes == memory.workspace_bytes);
  CHECK(report.io_bytes == memory.io_bytes);

  const std::span<const LayerInfo> layers = engine->layers(2);
  std::size_t count = 0;
  REQUIRE(mobicuda_engine_get_layer_count(c_engine.get(), 2, &count) == MOBICUDA_OK);
  REQUIRE(count == layers.size());
  for (std::size_t i = 0; i < count; ++i) {
    mobicuda_layer_info layer{};
    layer.struct_size = sizeof layer;
    REQUIRE(mobicuda_engine_get_layer(c_engine.get(), 2, i, &layer) == MOBICUDA_OK);
    CHECK(layers[i].name == layer.name);
    CHECK(layers[i].kernel == layer.kernel);
    CHECK(layers[i].reason == layer.reason);
    CHECK(layers[i].value == layer.value);
    CHECK(std::ranges::equal(layers[i].output.dims(), std::span(layer.shape).first(layer.rank)));
    CHECK(layers[i].flops == layer.flops);
    CHECK(layers[i].activation_bytes == layer.activation_bytes);
    CHECK(layers[i].weight_bytes == layer.weight_bytes);
  }
}

TEST_CASE("c_api: the parts of an error are those of the exception") {
  const std::string bytes = model_bytes().substr(0, 100);
  mobicuda_engine* engine = nullptr;
  const mobicuda_engine_options options = cpu_options();
  const mobicuda_status status =
      mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", nullptr, &options, &engine);
  try {
    imported(bytes);
    FAIL("half a model was imported");
  } catch (const Error& error) {
    CHECK(mobicuda_status_name(status) == std::string(to_string(error.code())));
    CHECK(mobicuda_last_error_status() == status);
    CHECK(mobicuda_last_error_where() == error.where());
    CHECK(mobicuda_last_error_message() == error.message());
    CHECK(mobicuda_last_error_hint() == error.hint());
    CHECK(mobicuda_last_error_text() == std::string(error.what()));
  }
}

TEST_CASE("c_api: every code of the C++ interface has a status of its name") {
  std::vector<std::string> names;
  for (mobicuda_status status = MOBICUDA_INVALID_ARGUMENT; status <= MOBICUDA_INTERNAL; ++status) {
    names.emplace_back(mobicuda_status_name(status));
  }
  CHECK(names == std::vector<std::string>{"invalid_argument", "invalid_model", "unsupported", "io", "out_of_memory",
                                          "device_unavailable", "device_lost", "internal"});
}

TEST_CASE("c_api: the log tells what that of C++ tells, and a callback that throws is an error") {
  onnx_schema::ModelProto newer = model();
  newer.set_ir_version(9999);
  const std::string bytes = newer.SerializeAsString();
  std::vector<std::pair<LogLevel, std::string>> lines;
  onnx_import::ImportOptions import;
  import.log = [&](LogLevel level, std::string_view message) { lines.emplace_back(level, message);
};
onnx_import::load_from_memory(std::as_bytes(std::span(bytes)), "model", import);
REQUIRE_FALSE(lines.empty());

Log log;
mobicuda_engine_options options = cpu_options();
options.log = Log::keep;
options.log_user_data = &log;
loaded(bytes, options);
REQUIRE(log.lines.size() == lines.size());
for (std::size_t i = 0; i < lines.size(); ++i) {
  CHECK(log.lines[i].first == (lines[i].first == LogLevel::Warning ? MOBICUDA_LOG_WARNING : MOBICUDA_LOG_INFO));
  CHECK(log.lines[i].second == lines[i].second);
}

mobicuda_engine* engine = nullptr;
options.log = [](std::int32_t, const char*, void*) { throw 7; };
CHECK(mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", nullptr, &options, &engine) ==
      MOBICUDA_INTERNAL);
CHECK(engine == nullptr);
CHECK_THAT(mobicuda_last_error_message(), contains("log callback"));
}  // namespace mobicuda

TEST_CASE("c_api: import options reach the importer") {
  onnx_schema::ModelProto open = model();
  auto& dimensions = *open.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dimensions.mutable_dim(2)->set_dim_param("height");
  const std::string bytes = open.SerializeAsString();
  const mobicuda_engine_options options = cpu_options();
  mobicuda_engine* engine = nullptr;
  CHECK(mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", nullptr, &options, &engine) !=
        MOBICUDA_OK);
  const std::int64_t shape[] = {3, 64, 48};
  mobicuda_import_options import{};
  import.struct_size = sizeof import;
  import.picture_shape = shape;
  import.picture_shape_count = 3;
  REQUIRE(mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", &import, &options, &engine) ==
          MOBICUDA_OK);
  const EngineHandle handle(engine);
  mobicuda_tensor_info info{};
  info.struct_size = sizeof info;
  REQUIRE(mobicuda_engine_get_input(engine, &info) == MOBICUDA_OK);
  CHECK(info.shape[2] == 64);

  import.picture_shape_count = 100;
  CHECK(mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", &import, &options, &engine) ==
        MOBICUDA_INVALID_ARGUMENT);
  CHECK_THAT(mobicuda_last_error_text(), contains("picture_shape_count: must be at most 8, got 100"));
}

TEST_CASE("c_api: external data is read from the folder that is named") {
  onnx_schema::ModelProto split = model();
  auto& tensor = *split.mutable_graph()->mutable_initializer(0);
  const TemporaryFolder folder;
  REQUIRE(tensor.has_raw_data());
  folder.write("weights.bin", tensor.raw_data());
  tensor.clear_raw_data();
  tensor.set_data_location(onnx_schema::TensorProto::EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("weights.bin");
  const std::string bytes = split.SerializeAsString();
  const mobicuda_engine_options options = cpu_options();
  mobicuda_engine* engine = nullptr;
  CHECK(mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", nullptr, &options, &engine) !=
        MOBICUDA_OK);
  mobicuda_import_options import{};
  import.struct_size = sizeof import;
  const std::string path = folder.path().string();
  import.external_data_folder = path.c_str();
  CHECK(mobicuda_engine_load_onnx_bytes(bytes.data(), bytes.size(), "model", &import, &options, &engine) ==
        MOBICUDA_OK);
  mobicuda_engine_destroy(engine);
  folder.write("model.onnx", bytes);
  const std::string file = path + "/model.onnx";
  CHECK(mobicuda_engine_load_onnx(file.c_str(), &import, &options, &engine) == MOBICUDA_INVALID_ARGUMENT);
  CHECK(mobicuda_engine_load_onnx(file.c_str(), nullptr, &options, &engine) == MOBICUDA_OK);
  mobicuda_engine_destroy(engine);
}

TEST_CASE("c_api: threads that fail at once each keep their own error") {
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const std::string path = "/absent/" + std::to_string(t) + ".onnx";
      for (int i = 0; i < 200; ++i) {
        mobicuda_engine* engine = nullptr;
        if (mobicuda_engine_load_onnx(path.c_str(), nullptr, nullptr, &engine) != MOBICUDA_IO) ++wrong[t];
        if (mobicuda_last_error_where() != path) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(wrong.size(), 0));
}

TEST_CASE("c_api: one engine, a session for each thread") {
  const std::string bytes = model_bytes();
  const EngineHandle engine = loaded(bytes, cpu_options());
  const std::vector<float> input = test::random_uniform(5, 3 * 32 * 48);
  std::vector<std::vector<float>> outputs(4, std::vector<float>(10));
  std::vector<std::thread> threads;
  for (std::vector<float>& output : outputs) {
    threads.emplace_back([&] {
      mobicuda_session* session = nullptr;
      if (mobicuda_session_create(engine.get(), &session) != MOBICUDA_OK) return;
      for (int i = 0; i < 5; ++i) {
        if (mobicuda_session_run(session, input.data(), input.size(), output.data(), output.size()) != MOBICUDA_OK) {
          output.clear();
        }
      }
      mobicuda_session_destroy(session);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<float> expected(10);
  make_cpu_backend()->compile(imported(bytes), same_options())->create_session()->run(input, expected);
  for (const std::vector<float>& output : outputs) CHECK(output == expected);
}

TEST_CASE("c_api: the version is that of the header") {
  CHECK(version() == MOBICUDA_VERSION_STRING);
  CHECK(version() == mobicuda_version());
  CHECK(MOBICUDA_VERSION_STRING == std::to_string(MOBICUDA_VERSION_MAJOR) + "." +
                                       std::to_string(MOBICUDA_VERSION_MINOR) + "." +
                                       std::to_string(MOBICUDA_VERSION_PATCH));
}

}  // namespace mobicuda
