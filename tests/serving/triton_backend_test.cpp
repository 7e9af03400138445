// The backend against a server of the test's own: what it answers, completes, checks, refuses and gives back.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <mobicuda/mobicuda.h>
#include <mobicuda/pictures.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "serving/fake_server.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include "triton/device_memory.h"
#include "triton/instance.h"
#include "triton/server_errors.h"

namespace {

using namespace mobicuda;
using mobicuda::test::fake_behaviour;
using mobicuda::test::fake_counts;
using mobicuda::test::FakeInput;
using mobicuda::test::FakeOutput;
using triton::Json;

constexpr std::int64_t kHeight = 32;
constexpr std::int64_t kWidth = 48;
constexpr std::int64_t kClasses = 10;
constexpr std::size_t kImage = 3 * kHeight * kWidth;

void write_model(const std::filesystem::path& file, std::uint64_t seed = 3) {
  zoo::write_model(
      zoo::build_mobilenet_v2(
          {.width = 0.35, .height = kHeight, .picture_width = kWidth, .classes = kClasses, .blocks = 2, .seed = seed}),
      file);
}

// A repository with one model.
struct Repository {
  Repository() {
    std::filesystem::create_directories(version());
    write_model(version() / "model.onnx");
  }
  std::filesystem::path version() const { return folder.path() / "m" / "1"; }
  std::string model() const { return (folder.path() / "m").string(); }

  TemporaryFolder folder;
};

EngineOptions cpu_options(std::int64_t max_batch = 8) {
  EngineOptions options;
  options.max_batch = max_batch;
  options.threads = 1;
  return options;
}

// What the library says, without the backend.
template <class T>
std::vector<float> expected(const std::filesystem::path& model, std::span<const T> input) {
  EngineOptions options = cpu_options(static_cast<std::int64_t>(input.size() / kImage));
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    options.picture_input = pictures::picture_input(pictures::Normalization::Torch);
  }
  std::vector<float> output(input.size() / kImage * kClasses);
  make_cpu_backend()->compile(onnx_import::load(model), options)->create_session()->run(input, output);
  return output;
}

template <class T>
std::string bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

template <class T>
std::vector<T> values_of(const FakeOutput& output) {
  std::vector<T> values(output.bytes.size() / sizeof(T));
  std::memcpy(values.data(), output.bytes.data(), output.bytes.size());
  return values;
}

Json parameters(const std::map<std::string, std::string>& values) {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = {{"string_value", value}};
  return json;
}

Json input_of(const char* type) { return Json::array({{{"name", ""}, {"data_type", type}, {"dims", Json::array()}}}); }

std::string take_error(TRITONSERVER_Error* error) {
  if (error == nullptr) return {};
  std::string text = TRITONSERVER_ErrorMessage(error);
  TRITONSERVER_ErrorDelete(error);
  return text;
}

// The backend in the server: initialised, and given back with everything in it at the end.
class Server {
 public:
  explicit Server(const std::string& config = {}) {
    if (!config.empty()) backend_.config = config;
    failure_ = take_error(TRITONBACKEND_Initialize(&backend_));
  }
  ~Server() {
    for (auto& instance : instances_) CHECK(take_error(TRITONBACKEND_ModelInstanceFinalize(instance.get())).empty());
    for (auto& model : models_) CHECK(take_error(TRITONBACKEND_ModelFinalize(model.get())).empty());
    CHECK(take_error(TRITONBACKEND_Finalize(&backend_)).empty());
    CHECK(fake_counts().errors == 0);
    CHECK(fake_counts().messages == 0);
    CHECK(fake_counts().metrics == 0);
    CHECK(fake_counts().families == 0);
    CHECK(fake_counts().parameters == 0);
    CHECK(fake_counts().responses == 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& failure() const { return failure_; }

  /// Loads the model; what is wrong, or nothing.
  std::string load(const std::string& folder, const Json& config = Json::object(), bool complete = true) {
    auto& model = models_.emplace_back(std::make_unique<TRITONBACKEND_Model>());
    model->backend = &backend_;
    model->folder = folder;
    model->config = config.dump();
    model->complete = complete;
    return take_error(TRITONBACKEND_ModelInitialize(model.get()));
  }
  Json config() const { return Json::parse(models_.back()->config); }

  std::string add_instance(TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU) {
    auto& instance = instances_.emplace_back(std::make_unique<TRITONBACKEND_ModelInstance>());
    instance->model = models_.back().get();
    instance->kind = kind;
    return take_error(TRITONBACKEND_ModelInstanceInitialize(instance.get()));
  }
  TRITONBACKEND_ModelInstance& instance(std::size_t i = 0) { return *instances_.at(i); }

  void execute(std::vector<TRITONBACKEND_Request>& requests, std::size_t instance = 0) {
    std::vector<TRITONBACKEND_Request*> pointers;
    for (TRITONBACKEND_Request& request : requests) pointers.push_back(&request);
    const std::string error = take_error(TRITONBACKEND_ModelInstanceExecute(
        instances_.at(instance).get(), pointers.data(), static_cast<std::uint32_t>(pointers.size())));
    if (!error.empty()) throw std::runtime_error(error);
    for (const TRITONBACKEND_Request& request : requests) test::wait_until_released(request);
  }

 private:
  TRITONBACKEND_Backend backend_;
  std::string failure_;
  std::vector<std::unique_ptr<TRITONBACKEND_Model>> models_;
  std::vector<std::unique_ptr<TRITONBACKEND_ModelInstance>> instances_;
};

template <class T>
TRITONBACKEND_Request request_of(std::span<const T> images, std::size_t pieces = 1) {
  const bool floats = std::is_same_v<T, float>;
  FakeInput input;
  input.type = floats ? TRITONSERVER_TYPE_FP32 : TRITONSERVER_TYPE_UINT8;
  const auto n = static_cast<std::int64_t>(images.size() / kImage);
  input.shape =
      floats ? std::vector<std::int64_t>{n, 3, kHeight, kWidth} : std::vector{n, kHeight, kWidth, std::int64_t{3}};
  const std::string bytes = bytes_of(images);
  const std::size_t step = bytes.size() / pieces + 1;
  for (std::size_t from = 0; from < bytes.size(); from += step) input.buffers.push_back(bytes.substr(from, step));
  TRITONBACKEND_Request request;
  request.inputs.push_back({std::move(input)});
  return request;
}

std::string element(const std::string& bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  return bytes_of(std::span(&length, 1)) + bytes;
}

TRITONBACKEND_Request encoded_request(const std::vector<std::string>& files) {
  FakeInput input;
  input.type = TRITONSERVER_TYPE_BYTES;
  input.shape = {static_cast<std::int64_t>(files.size()), 1};
  input.buffers.emplace_back();
  for (const std::string& file : files) input.buffers.back() += element(file);
  TRITONBACKEND_Request request;
  request.inputs.push_back({std::move(input)});
  return request;
}

// A picture as a PNM file, larger than what the network reads.
std::string picture(std::uint32_t seed) {
  constexpr std::size_t kColumns = 70;
  constexpr std::size_t kRows = 50;
  const std::vector<float> values = test::random_uniform(seed, kColumns * kRows * 3, 0, 255.99F);
  std::string file = "P6\n" + std::to_string(kColumns) + ' ' + std::to_string(kRows) + "\n255\n";
  for (const float value : values) file += static_cast<char>(static_cast<unsigned char>(value));
  return file;
}

std::vector<float> expected_of_pictures(const std::filesystem::path& model, const std::vector<std::string>& files) {
  EngineOptions options = cpu_options();
  options.picture_input = pictures::picture_input(pictures::Normalization::Torch);
  const auto engine = make_cpu_backend()->compile(onnx_import::load(model), options);
  const auto how = pictures::Preprocessing::for_input(engine->input(), pictures::Normalization::Torch);
  std::vector<std::uint8_t> pixels(files.size() * how.elements());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(files[i].data()), files[i].size());
    pictures::preprocess(pictures::decode_picture(bytes), how,
                         std::span(pixels).subspan(i * how.elements(), how.elements()));
  }
  return expected(model, std::span<const std::uint8_t>(pixels));
}

void check_answered(const TRITONBACKEND_Request& request) {
  CHECK(request.error.empty());
  CHECK(request.answers == 1);
  CHECK(request.released);
  CHECK(request.reported == 1);
  CHECK(request.reported_success);
  CHECK(request.times_rise);
}

void check_failed(const TRITONBACKEND_Request& request, TRITONSERVER_Error_Code code, const std::string& text) {
  CHECK(request.error_code == code);
  CHECK_THAT(request.error, contains(text));
  CHECK(request.answers == 1);
  CHECK(request.released);
  CHECK(request.reported == 1);
  CHECK_FALSE(request.reported_success);
  CHECK(request.times_rise);
  CHECK(request.outputs.empty());
}

std::vector<std::uint8_t> random_bytes(std::size_t count) {
  const std::vector<float> values = test::random_uniform(8, count, 0, 255.99F);
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("requests run as one batch and have the library's bits") {
  const Repository repository;
  Server server;
  REQUIRE(server.load(repository.model(), {{"max_batch_size", 8}}).empty());
  REQUIRE(server.add_instance().empty());
  const std::vector<float> input = test::random_uniform(1, 6 * kImage);
  const std::span<const float> images(input);
  std::vector<TRITONBACKEND_Request> requests;
  requests.push_back(request_of(images.first(kImage)));
  requests.push_back(request_of(images.subspan(kImage, 3 * kImage), 5));
  requests.push_back(request_of(images.subspan(4 * kImage, 2 * kImage), 2));
  server.execute(requests);
  std::vector<float> output;
  for (const TRITONBACKEND_Request& request : requests) {
    check_answered(request);
    const FakeOutput& logits = request.outputs.at("output");
    CHECK(logits.shape == std::vector<std::int64_t>{request.inputs[0].input.shape[0], kClasses});
    const auto values = values_of<float>(logits);
    output.insert(output.end(), values.begin(), values.end());
  }
  CHECK(output == expected(repository.version() / "model.onnx", images));
  CHECK(server.instance().batches == std::vector<std::uint64_t>{6});
}

TEST_CASE("more images than a batch has run as several") {
  const Repository repository;
  Server server;
  REQUIRE(server.load(repository.model(), {{"max_batch_size", 3}}).empty());
  REQUIRE(server.add_instance().empty());
  const std::vector<float> input = test::random_uniform(1, 7 * kImage);
  const std::span<const float> images(input);
  std::vector<TRITONBACKEND_Request> requests;
  for (std::size_t i = 0; i < 7; ++i) requests.push_back(request_of(images.subspan(i * kImage, kImage)));
  server.execute(requests);
  const std::vector<float> right = expected(repository.version() / "model.onnx", images);
  for (std::size_t i = 0; i < 7; ++i) {
    check_answered(requests[i]);
    CHECK(std::ranges::equal(values_of<float>(requests[i].outputs.at("output")),
                             std::span(right).subspan(i * kClasses, kClasses)));
  }
  CHECK(server.instance().batches == std::vector<std::uint64_t>{3, 3, 1});
}

TEST_CASE("images of 8 bits") {
  const Repository repository;
  Server server;
  REQUIRE(server.load(repository.model(), {{"input", input_of("TYPE_UINT8")}}).empty());
  CHECK(server.config()["input"][0]["dims"] == Json({kHeight, kWidth, 3}));
  REQUIRE(server.add_instance().empty());
  const std::vector<std::uint8_t> images = random_bytes(4 * kImage);
  std::vector<TRITONBACKEND_Request> requests{request_of(std::span<const std::uint8_t>(images), 3)};
  server.execute(requests);
  check_answered(requests[0]);
  CHECK(values_of<float>(requests[0].outputs.at("output")) ==
        expected(repository.version() / "model.onnx", std::span<const std::uint8_t>(images)));
}

TEST_CASE("encoded pictures, and one of them broken") {
  const Repository repository;
  Server server;
  REQUIRE(server.load(repository.model(), {{"input", input_of("TYPE_STRING")}, {"max_batch_size", 8}}).empty());
  REQUIRE(server.add_instance().empty());
  const std::vector<std::string> files{picture(1), picture(2), picture(3)};
  const std::vector<float> right = expected_of_pictures(repository.version() / "model.onnx", files);
  std::vector<TRITONBACKEND_Request> requests;
  requests.push_back(encoded_request({files[0], files[1]}));
  requests.push_back(encoded_request({files[2], "no picture"}));
  requests.push_back(encoded_request({files[2]}));
  std::string& bytes = requests[0].inputs[0].input.buffers[0];  // in three pieces
  requests[0].inputs[0].input.buffers = {bytes.substr(0, 2), bytes.substr(2, 9000), bytes.substr(9002)};
  server.execute(requests);
  check_answered(requests[0]);
  CHECK(std::ranges::equal(values_of<float>(requests[0].outputs.at("output")), std::span(right).first(2 * kClasses)));
  check_failed(requests[1], TRITONSERVER_ERROR_INVALID_ARG, "picture 1: ");
  check_answered(requests[2]);
  CHECK(std::ranges::equal(values_of<float>(requests[2].outputs.at("output")), std::span(right).last(kClasses)));

  std::vector<TRITONBACKEND_Request> one{encoded_request({files[1]})};
  server.execute(one);
  check_answered(one[0]);
  CHECK(
      std::ranges::equal(values_of<float>(one[0].outputs.at("output")), std::span(right).subspan(kClasses, kClasses)));
  CHECK(test::fake_metrics().at("mobicuda_decoded_pictures{model=m,version=1,decoder=cpu}") >= 5);
  CHECK(test::fake_metrics().at("mobicuda_decoded_pictures{model=m,version=1,decoder=none}") >= 1);

  const std::string length_only(4, static_cast<char>(0xff));
  for (const std::string& broken : {std::string(), std::string("ab"), length_only, length_only + "abc",
                                    element(files[0]) + "x", element(files[0]) + element(files[0])}) {
    std::vector<TRITONBACKEND_Request> request{encoded_request({"x"})};
    request[0].inputs[0].input.buffers = {broken};
    server.execute(request);
    check_failed(request[0], TRITONSERVER_ERROR_INVALID_ARG, "input 'input'");
  }
}

TEST_CASE("the best classes and their labels, as far as they are wanted") {
  const Repository repository;
  std::ofstream labels(repository.version() / "labels.txt");
  for (int i = 0; i < kClasses; ++i) labels << "class " << i << '\n';
  labels.close();
  Server server;
  REQUIRE(server.load(repository.model(), {{"parameters", parameters({{"top", "3"}})}}).empty());
  REQUIRE(server.config()["output"].size() == 4);
  REQUIRE(server.add_instance().empty());
  std::vector<float> images = test::random_uniform(1, 2 * kImage);
  std::fill(images.begin() + kImage, images.end(), std::numeric_limits<float>::quiet_NaN());
  std::vector<TRITONBACKEND_Request> requests{request_of(std::span<const float>(images))};
  requests[0].wanted = {"top_classes", "top_scores", "top_labels", "output"};
  requests.push_back(request_of(std::span<const float>(images).first(kImage)));
  requests[1].wanted = {"top_scores"};
  server.execute(requests);
  check_answered(requests[0]);
  const auto logits = values_of<float>(requests[0].outputs.at("output"));
  std::vector<std::int32_t> order(kClasses);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::int32_t i) { return logits[static_cast<std::size_t>(i)]; });
  const auto classes = values_of<std::int32_t>(requests[0].outputs.at("top_classes"));
  CHECK(requests[0].outputs.at("top_classes").shape == std::vector<std::int64_t>{2, 3});
  CHECK(classes == std::vector<std::int32_t>{order[0], order[1], order[2], 0, 1, 2});  // of NaN, the lower indices
  const auto scores = values_of<float>(requests[0].outputs.at("top_scores"));
  for (std::size_t i = 0; i < 3; ++i) CHECK(scores[i] == logits[static_cast<std::size_t>(classes[i])]);
  std::string expected_labels;
  for (const std::int32_t index : classes) expected_labels += element("class " + std::to_string(index));
  CHECK(requests[0].outputs.at("top_labels").bytes == expected_labels);
  check_answered(requests[1]);
  CHECK(requests[1].outputs.size() == 1);
}

TEST_CASE("what a configuration leaves open is filled in") {
  const Repository repository;
  Server server(R"({"cmdline":{"default-max-batch-size":"16"}})");
  REQUIRE(server.load(repository.model()).empty());
  const Json config = server.config();
  CHECK(config["max_batch_size"] == 16);
  CHECK(config["input"] == Json::parse(R"([{"name":"input","data_type":"TYPE_FP32","dims":[3,32,48]}])"));
  CHECK(config["output"] == Json::parse(R"([{"name":"output","data_type":"TYPE_FP32","dims":[10]}])"));

  CHECK_FALSE(config.contains("dynamic_batching"));

  // What is there stays, and is enough without completion.
  REQUIRE(server.load(repository.model(), config, false).empty());
  CHECK(server.config() == config);
}

TEST_CASE("a plan file says what it was compiled for") {
  const Repository repository;
  EngineOptions options = cpu_options(5);
  const Graph graph = onnx_import::load(repository.version() / "model.onnx");
  std::filesystem::remove(repository.version() / "model.onnx");
  const auto save = [&] {
    plan_file::save(*make_cpu_backend()->compile(graph, options), repository.version() / "model.plan");
  };
  save();
  Server server;
  REQUIRE(server.load(repository.model()).empty());
  CHECK(server.config()["max_batch_size"] == 5);
  REQUIRE(server.add_instance().empty());
  const std::vector<float> images = test::random_uniform(2, 5 * kImage);
  std::vector<TRITONBACKEND_Request> requests{request_of(std::span<const float>(images))};
  server.execute(requests);
  check_answered(requests[0]);
  std::vector<float> right(5 * kClasses);
  make_cpu_backend()->compile(graph, options)->create_session()->run(images, right);
  CHECK(values_of<float>(requests[0].outputs.at("output")) == right);

  CHECK_THAT(server.load(repository.model(), {{"max_batch_size", 6}}), contains("compiled for 5"));
  CHECK_THAT(server.load(repository.model(), {{"input", input_of("TYPE_UINT8")}}), contains("compiled for floats"));
  REQUIRE(server.load(repository.model(), {{"parameters", parameters({{"precision", "fp64"}})}}).empty());
  CHECK_THAT(server.add_instance(), contains("the plan was compiled for fp32"));
  REQUIRE(server.load(repository.model()).empty());
  CHECK_THAT(server.add_instance(TRITONSERVER_INSTANCEGROUPKIND_GPU), contains("compiled by the engine \"cpu\""));

  options.picture_input = pictures::picture_input(pictures::Normalization::Tf);
  save();
  REQUIRE(server.load(repository.model()).empty());
  CHECK(server.config()["input"][0]["data_type"] == "TYPE_UINT8");
  CHECK_THAT(server.load(repository.model(), {{"input", input_of("TYPE_FP32")}}), contains("compiled for bytes"));
  CHECK_THAT(server.load(repository.model(), {{"parameters", parameters({{"preprocess", "tf"}})}}),
             contains("with its own"));
}

TEST_CASE("configurations that cannot be are refused by name") {
  const Repository repository;
  Server server;
  const auto refused = [&](const Json& config, const std::string& text, bool complete = true) {
    const std::string error = server.load(repository.model(), config, complete);
    CAPTURE(config.dump(), error);
    CHECK_THAT(error, contains(text));
    CHECK_THAT(error, contains("model"));
  };
  const auto parameter = [&](const char* key, const char* value, const std::string& text) {
    refused({{"parameters", parameters({{key, value}})}}, text);
  };
  parameter("presicion", "fp16", "'presicion': is not a known parameter; known are: decode, ");
  parameter("precision", "int8", "must be one of \"fp16\"");
  parameter("threads", "-1", "from 0 to 1024");
  parameter("threads", "2x", "got \"2x\"");
  parameter("threads", "99999999999999999999", "from 0 to 1024");
  parameter("device", "64", "from 0 to 63");
  parameter("top", "0", "from 1 to 1000");
  parameter("top", "11", "the model has 10 classes");
  parameter("decode", "dsp", "must be one of \"auto\"");
  parameter("warm_up", "yes", "must be one of \"true\"");
  parameter("specialise", "", "must be one of \"never\"");
  parameter("preprocess", "torch", "the input is TYPE_FP32");
  parameter("max_memory_bytes", "1.5", "whole number");
  refused({{"input", input_of("TYPE_FP16")}}, "TYPE_UINT8 images of 8 bits");
  refused({{"input", Json::array({{{"name", "x"}, {"data_type", "TYPE_FP32"}}})}}, "must be 'input' TYPE_FP32");
  refused({{"input", Json::array({{{"data_type", "TYPE_FP32"}, {"dims", {"3", "32", "-1"}}}})}},
          "got 'input' TYPE_FP32 [ 3, 32, -1 ]");
  refused({{"input", Json::array({{{"data_type", "TYPE_FP32"}}, {{"name", "y"}}})}}, "and 1 more");
  refused({{"output", Json::array({{{"name", "top_classes"}}})}}, "parameter 'top' adds");
  refused({{"output", Json::array({{{"name", "output"}, {"data_type", "TYPE_FP64"}}})}}, "output 'output' TYPE_FP64");
  refused({{"sequence_batching", {{"direct", Json::object()}}}}, "no use for it");
  refused({{"batch_input", {{{"kind", "BATCH_ELEMENT_COUNT"}}}}}, "batch_input");
  refused({{"model_transaction_policy", {{"decoupled", true}}}}, "decoupled");
  refused({{"input", Json::array({{{"name", "input"}, {"reshape", {{"shape", {1}}}}}})}}, "reshape");
  refused(Json::object(), "got none", false);
  refused({{"input", Json::array({{{"name", "input"}, {"data_type", "TYPE_FP32"}, {"dims", {3, 32, 48}}}})}},
          "output: there is none", false);
  refused({{"max_batch_size", -1}}, "must be 1 at least");
  CHECK_THAT(server.load(repository.model(), {{"parameters", parameters({{"top", "3"}})}}), contains(""));
  CHECK(server.config()["output"].size() == 3);  // no labels.txt, no labels
}

TEST_CASE("folders without one model are refused, and what to do is said") {
  const Repository repository;
  Server server;
  const auto refused = [&](const std::string& text) { CHECK_THAT(server.load(repository.model()), contains(text)); };
  const auto model = repository.version() / "model.onnx";
  const auto plan = repository.version() / "model.plan";
  std::filesystem::copy(model, plan);
  refused("holds both model.onnx and model.plan; remove one of them");
  std::filesystem::remove(model);
  refused("model.plan");  // an ONNX file is no plan
  std::filesystem::remove(plan);
  refused("holds no model; put the model there as model.onnx");
  std::ofstream(model) << "no ONNX";
  refused("model.onnx");
  std::filesystem::remove(model);
  std::filesystem::create_directory(model);
  refused("is no regular file");
  std::filesystem::remove(model);
  write_model(repository.folder.path() / "outside.onnx");
  std::filesystem::create_symlink("../../outside.onnx", model);
  refused("outside of its folder; put the file itself there");
  std::filesystem::remove(model);
  std::filesystem::create_symlink("../1/not_there.onnx", model);
  refused("cannot be opened");
  std::filesystem::remove(model);
  write_model(repository.version() / "real.onnx");
  std::filesystem::create_symlink("real.onnx", model);
  CHECK(server.load(repository.model()).empty());
  std::ofstream(repository.version() / "labels.txt") << "one\ntwo\n";
  refused("names 2 classes, the model has 10; one line a class");
}

TEST_CASE("a bad request fails alone") {
  const Repository repository;
  Server server;
  REQUIRE(server.load(repository.model()).empty());
  REQUIRE(server.add_instance().empty());
  const std::vector<float> image = test::random_uniform(1, kImage);
  const std::vector<float> right = expected(repository.version() / "model.onnx", std::span<const float>(image));
  const auto good = [&] { return request_of(std::span<const float>(image)); };
  struct Bad {
    TRITONBACKEND_Request request;
    TRITONSERVER_Error_Code code;
    std::string text;
  };
  std::vector<Bad> bad;
  const auto add = [&](const auto& change, TRITONSERVER_Error_Code code, const std::string& text) {
    bad.push_back({good(), code, text});
    change(bad.back().request.inputs[0].input);
  };
  const auto shape = [&](std::vector<std::int64_t> dims) {
    add([&](FakeInput& input) { input.shape = dims; }, TRITONSERVER_ERROR_INVALID_ARG, "1 to 4 images of [3,32,48]");
  };
  shape({});
  shape({1});
  shape({0, 3, 32, 48});
  shape({-1, 3, 32, 48});
  shape({5, 3, 32, 48});
  shape({std::numeric_limits<std::int64_t>::max(), 3, 32, 48});
  shape({1, 3, 48, 32});
  shape({1, 3, 32, 48, 1});
  add([](FakeInput& input) { input.shape[0] = 2; }, TRITONSERVER_ERROR_INVALID_ARG, "has 18432 bytes");
  add([](FakeInput& input) { input.buffers.clear(); }, TRITONSERVER_ERROR_INVALID_ARG, "has 0 bytes");
  add([](FakeInput& input) { input.buffers.emplace_back("x"); }, TRITONSERVER_ERROR_INVALID_ARG, "has 18433 bytes");
  add([](FakeInput& input) { input.type = TRITONSERVER_TYPE_UINT8; }, TRITONSERVER_ERROR_INVALID_ARG, "TYPE_FP32");
  // The host's memory, whatever the server says: what is told of that depends on the build, and on whether there is a
  // GPU.
  const auto not_there = [&] {
    try {
      triton::device_of(image.data());
    } catch (const Error& error) {
      return std::pair(triton::server_code(error.code()), std::string(error.what()));
    }
    throw std::logic_error("the host's memory is taken for a GPU's");
  }();
  add([](FakeInput& input) { input.memory = TRITONSERVER_MEMORY_GPU; }, not_there.first, not_there.second);
  bad.push_back({good(), TRITONSERVER_ERROR_INVALID_ARG, "the request has 2"});
  bad.back().request.inputs.push_back(bad.back().request.inputs[0]);
  bad.push_back({good(), TRITONSERVER_ERROR_INVALID_ARG, "the request has 0"});
  bad.back().request.inputs.clear();
  bad.push_back({good(), TRITONSERVER_ERROR_CANCELLED, "cancelled"});
  bad.back().request.cancelled = true;
  const double failed_before = test::fake_metrics()["mobicuda_failed_requests{model=m,version=1}"];
  for (const Bad& one : bad) {
    CAPTURE(one.text);
    std::vector<TRITONBACKEND_Request> requests{good(), one.request, good()};
    server.execute(requests);
    check_failed(requests[1], one.code, one.text);
    for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
      check_answered(requests[i]);
      CHECK(values_of<float>(requests[i].outputs.at("output")) == right);
    }
  }
  CHECK(test::fake_metrics()["mobicuda_failed_requests{model=m,version=1}"] - failed_before ==
        static_cast<double>(bad.size()));
}

TEST_CASE("what the server cannot do fails a request, and nothing more") {
  const Repository repository;
  Server server;
  REQUIRE(server.load(repository.model()).empty());
  REQUIRE(server.add_instance().empty());
  const std::vector<float> image = test::random_uniform(1, kImage);
  const auto run = [&] {
    std::vector<TRITONBACKEND_Request> requests{request_of(std::span<const float>(image))};
    server.execute(requests);
    return requests[0];
  };
  fake_behaviour().fail_outputs = true;
  check_failed(run(), TRITONSERVER_ERROR_UNAVAILABLE, "no memory for it");
  fake_behaviour().fail_outputs = false;
  fake_behaviour().gpu_outputs = true;
  // It is the host's memory all the same: where there is a GPU the copy works.
  if (const TRITONBACKEND_Request request = run(); request.error.empty()) {
    check_answered(request);
  } else {
    CHECK_THAT(request.error, contains("GPU memory"));
  }
  fake_behaviour().gpu_outputs = false;
  fake_behaviour().fail_responses = true;
  TRITONBACKEND_Request unanswered = run();
  CHECK(unanswered.answers == 0);
  CHECK(unanswered.released);
  unanswered = run();
  fake_behaviour().fail_responses = false;
  check_answered(run());
}

TEST_CASE("instances of a processor share an engine, and the metrics say what they hold") {
  const Repository repository;
  const std::string weights = "mobicuda_memory_bytes{model=m,version=1,processor=cpu,what=weights}";
  const std::string sessions = "mobicuda_memory_bytes{model=m,version=1,processor=cpu,what=sessions}";
  {
    Server server;
    REQUIRE(server.load(repository.model()).empty());
    for (int i = 0; i < 3; ++i) REQUIRE(server.add_instance().empty());
    const MemoryReport memory =
        make_cpu_backend()->compile(onnx_import::load(repository.version() / "model.onnx"), cpu_options(4))->memory();
    CHECK(test::fake_metrics().at(weights) == static_cast<double>(memory.weight_bytes));
    const std::int64_t session = memory.total() - memory.weight_bytes;
    CHECK(test::fake_metrics().at(sessions) >= 3 * static_cast<double>(memory.io_bytes));
    CHECK(std::fmod(test::fake_metrics().at(sessions), 3.0) == 0);
    CHECK(session > 0);
  }
  CHECK(test::fake_metrics().at(weights) == 0);
  CHECK(test::fake_metrics().at(sessions) == 0);
  {
    fake_behaviour().metrics = false;
    Server server;
    CHECK(server.load(repository.model()).empty());
    CHECK(server.add_instance().empty());
    fake_behaviour().metrics = true;
  }
}

TEST_CASE("instances run side by side") {
  const Repository repository;
  Server server;
  REQUIRE(server.load(repository.model(), {{"parameters", parameters({{"threads", "1"}})}}).empty());
  constexpr std::size_t kInstances = 4;
  for (std::size_t i = 0; i < kInstances; ++i) REQUIRE(server.add_instance().empty());
  const std::vector<float> images = test::random_uniform(1, 4 * kImage);
  const std::vector<float> right = expected(repository.version() / "model.onnx", std::span<const float>(images));
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kInstances; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t round = 0; round < 20; ++round) {
          const std::size_t n = 1 + (round + thread) % 4;
          std::vector<TRITONBACKEND_Request> requests{request_of(std::span<const float>(images).first(n * kImage))};
          server.execute(requests, thread);
          const auto found = requests[0].outputs.find("output");
          if (found == requests[0].outputs.end() ||
              !std::ranges::equal(values_of<float>(found->second), std::span(right).first(n * kClasses))) {
            ++wrong;
          }
        }
      });
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("kinds of instances and what there is no GPU for") {
  const Repository repository;
  Server server;
  REQUIRE(server
              .load(repository.model(),
                    {{"input", input_of("TYPE_STRING")}, {"parameters", parameters({{"decode", "gpu"}})}})
              .empty());
  CHECK_THAT(server.add_instance(), contains("'decode': wants a GPU, and the instance is of KIND_CPU"));
  CHECK_THAT(server.add_instance(TRITONSERVER_INSTANCEGROUPKIND_AUTO), contains("unknown kind"));
}

TEST_CASE("servers and settings of the backend that do not fit") {
  fake_behaviour().api_minor = triton::kApiMinor - 1;
  CHECK_THAT(Server().failure(), contains("take a server"));
  fake_behaviour().api_minor = triton::kApiMinor + 1;
  CHECK(Server().failure().empty());
  fake_behaviour().api_minor = triton::kApiMinor;
  CHECK_THAT(Server(R"({"cmdline":{"threads":"4"}})").failure(), contains("mobicuda,threads: is not a known key"));
  CHECK_THAT(Server(R"({"cmdline":{"default-max-batch-size":"0"}})").failure(), contains("must be 1 at least"));
}

TEST_CASE("codes of errors") {
  using triton::server_code;
  CHECK(server_code(ErrorCode::invalid_argument) == TRITONSERVER_ERROR_INVALID_ARG);
  CHECK(server_code(ErrorCode::invalid_model) == TRITONSERVER_ERROR_INVALID_ARG);
  CHECK(server_code(ErrorCode::unsupported) == TRITONSERVER_ERROR_UNSUPPORTED);
  CHECK(server_code(ErrorCode::io) == TRITONSERVER_ERROR_UNAVAILABLE);
  CHECK(server_code(ErrorCode::out_of_memory) == TRITONSERVER_ERROR_UNAVAILABLE);
  CHECK(server_code(ErrorCode::device_unavailable) == TRITONSERVER_ERROR_UNAVAILABLE);
  CHECK(server_code(ErrorCode::device_lost) == TRITONSERVER_ERROR_UNAVAILABLE);
  CHECK(server_code(ErrorCode::internal) == TRITONSERVER_ERROR_INTERNAL);
}

namespace {

class ThrowingRunner final : public triton::Runner {
 public:
  explicit ThrowingRunner(ErrorCode code) : code_(code) {}
  Results run(std::span<triton::Request* const> /*requests*/) override { throw Error(code_, "runner", "as asked"); }

 private:
  ErrorCode code_;
};

}  // namespace

TEST_CASE("among equal scores the lower class is better, and NaN is below all") {
  const Repository repository;
  const triton::Metrics metrics;
  Json config{{"parameters", parameters({{"top", "5"}})}};
  triton::Model model({.name = "m", .version = 1, .folder = repository.version()}, config, metrics);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr std::array<float, kClasses> kScores{kNan, 2, -kInfinity, 7, 2, kNan, 7, -kInfinity, kNan, kNan};
  class FixedRunner final : public triton::Runner {
    Results run(std::span<triton::Request* const> /*requests*/) override {
      return {.logits = kScores, .failures = {}, .compute_start_ns = triton::now_ns()};
    }
  };
  TRITONBACKEND_ModelInstance handle;
  triton::RequestQueue queue(1, 0, {});
  triton::Instance instance(&handle, model, queue, model.engine({}), std::make_unique<FixedRunner>(), [] {});
  const std::vector<float> image = test::random_uniform(1, kImage);
  TRITONBACKEND_Request request = request_of(std::span<const float>(image));
  request.wanted = {"top_classes"};
  TRITONBACKEND_Request* const requests[] = {&request};
  instance.execute(requests);
  test::wait_until_released(request);
  check_answered(request);
  CHECK(values_of<std::int32_t>(request.outputs.at("top_classes")) == std::vector<std::int32_t>{3, 6, 1, 4, 2});
}

namespace {

// Runs nothing before it is let go.
class GatedRunner final : public triton::Runner {
 public:
  explicit GatedRunner(std::latch& begun, std::latch& go) : begun_(begun), go_(go) {}
  Results run(std::span<triton::Request* const> requests) override {
    static constexpr std::array<float, 8 * kClasses> kScores{};
    if (!begun_.try_wait()) begun_.count_down();
    go_.wait();
    return {.logits = std::span(kScores).first(requests.size() * kClasses),
            .failures = {},
            .compute_start_ns = triton::now_ns()};
  }

 private:
  std::latch& begun_;
  std::latch& go_;
};

}  // namespace

TEST_CASE("a full queue refuses at once, what was cancelled while it waited is not run, and the rest is") {
  const Repository repository;
  const std::string waiting = "mobicuda_waiting_requests{model=m,version=1}";
  const triton::Metrics metrics;
  Json config{{"parameters", parameters({{"max_queue_size", "3"}})}};
  triton::Model model({.name = "m", .version = 1, .folder = repository.version()}, config, metrics);
  triton::RequestQueue queue(8, model.settings().max_queue_size, model.waiting_requests());
  std::latch begun(1);
  std::latch go(1);
  TRITONBACKEND_ModelInstance handle;
  const std::vector<float> image = test::random_uniform(1, kImage);
  std::vector<TRITONBACKEND_Request> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(request_of(std::span<const float>(image)));
  std::vector<TRITONBACKEND_Request*> handles;
  for (TRITONBACKEND_Request& request : requests) handles.push_back(&request);
  {
    triton::Instance instance(&handle, model, queue, model.engine({}), std::make_unique<GatedRunner>(begun, go), [] {});
    instance.execute(std::span(handles).first(1));
    begun.wait();
    instance.execute(std::span(handles).subspan(1));
    for (std::size_t i = 4; i < 6; ++i) {
      test::wait_until_released(requests[i]);
      check_failed(requests[i], TRITONSERVER_ERROR_UNAVAILABLE, "has 3 requests waiting already (max_queue_size)");
    }
    CHECK(test::fake_metrics().at(waiting) == 3);
    requests[2].cancelled = true;
    go.count_down();
  }  // its end waits for what was taken
  for (const std::size_t i : {0, 1, 3}) check_answered(requests[i]);
  check_failed(requests[2], TRITONSERVER_ERROR_CANCELLED, "the client cancelled it");
  CHECK(handle.batches == std::vector<std::uint64_t>{1, 2});
  CHECK(test::fake_metrics().at(waiting) == 0);
}

TEST_CASE("a queue of the server's own that has an end is warned of") {
  const Repository repository;
  Server server;
  for (const auto& [batching, warned] : {std::pair{R"({})", false},
                                         {R"({"max_queue_delay_microseconds": 100, "priority_levels": "0"})", false},
                                         {R"({"default_queue_policy": {"max_queue_size": 0}})", false},
                                         {R"({"default_queue_policy": {"max_queue_size": 8}})", true},
                                         {R"({"default_queue_policy": {"default_timeout_microseconds": "5"}})", true},
                                         {R"({"default_queue_policy": {"allow_timeout_override": true}})", true},
                                         {R"({"priority_levels": "2"})", true}}) {
    test::take_fake_log();
    REQUIRE(server.load(repository.model(), {{"dynamic_batching", Json::parse(batching)}}).empty());
    const std::vector<std::string> lines = test::take_fake_log();
    INFO(batching);
    CHECK(std::ranges::any_of(lines, [](const std::string& line) {
            return line.find("take parameter max_queue_size instead") != std::string::npos;
          }) == warned);
  }
}

TEST_CASE("a lost GPU ends the process once its requests are answered, other errors do not") {
  const Repository repository;
  {
    const triton::Metrics metrics;
    Json config = Json::object();
    triton::Model model({.name = "m", .version = 1, .folder = repository.version()}, config, metrics);
    const std::vector<float> image = test::random_uniform(1, kImage);
    for (const ErrorCode code : {ErrorCode::device_lost, ErrorCode::out_of_memory}) {
      TRITONBACKEND_ModelInstance handle;
      TRITONBACKEND_Request request = request_of(std::span<const float>(image));
      int ended = 0;
      int answers_before = 0;
      triton::RequestQueue queue(1, 0, {});
      triton::Instance instance(&handle, model, queue, model.engine({}), std::make_unique<ThrowingRunner>(code), [&] {
        ++ended;
        answers_before = request.answers;
      });
      TRITONBACKEND_Request* const requests[] = {&request};
      instance.execute(requests);
      test::wait_until_released(request);
      check_failed(request, TRITONSERVER_ERROR_UNAVAILABLE, "as asked");
      CHECK(ended == (code == ErrorCode::device_lost ? 1 : 0));
      CHECK(answers_before == ended);
    }
  }
  const pid_t child = fork();
  if (child == 0) triton::end_process("test");
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == triton::kDeviceLostStatus);
}
