#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

#include <mobicuda/mobicuda.h>

#include "support/catch.h"
#include "support/graphs.h"
#include "support/pictures.h"

namespace mobicuda {
namespace {

using test::TestNetwork;

Graph small_network() {
  TestNetwork network(Shape{1, 3, 8, 8});
  network.conv(8, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  network.head(10);
  return std::move(network).build();
}

std::shared_ptr<const Engine> small_engine(std::int64_t max_batch) {
  EngineOptions options;
  options.max_batch = max_batch;
  options.threads = 1;
  return make_cpu_backend()->compile(small_network(), options);
}

template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("run refuses sizes that do not fit, with the numbers") {
  const auto session = small_engine(2)->create_session();
  std::vector<float> picture(3 * 8 * 8);
  std::vector<float> logits(10);
  CHECK_NOTHROW(session->run(picture, logits));
  CHECK(contains(message_of([&] { session->run(std::span(picture).first(100), logits); }), "got 100 values"));
  CHECK(contains(message_of([&] { session->run(std::span<const float>(), logits); }), "got 0 values"));
  CHECK(contains(message_of([&] { session->run(picture, std::span(logits).first(9)); }), "got 9 values"));
  std::vector<float> three(3 * picture.size());
  std::vector<float> three_logits(30);
  CHECK(contains(message_of([&] { session->run(three, three_logits); }), "must be 1 to 2, got 3"));
  std::vector<float> two_logits(20);
  CHECK(contains(message_of([&] { session->run(picture, two_logits); }), "output"));
  CHECK(contains(message_of([&] { session->execute(0); }), "got 0"));
  CHECK(contains(message_of([&] { session->time_executions(1, 0); }), "iterations"));
  CHECK(contains(message_of([&] { session->profile(1, -1); }), "iterations"));
}

TEST_CASE("options out of range are refused by name") {
  const auto backend = make_cpu_backend();
  const auto refused = [&](auto change) {
    EngineOptions options;
    change(options);
    return message_of([&] { backend->compile(small_network(), options); });
  };
  CHECK(contains(refused([](EngineOptions& o) { o.max_batch = 0; }), "max_batch"));
  CHECK(contains(refused([](EngineOptions& o) { o.max_batch = 1 << 20; }), "max_batch"));
  CHECK(contains(refused([](EngineOptions& o) { o.threads = -1; }), "threads"));
  CHECK(contains(refused([](EngineOptions& o) { o.device = -1; }), "device"));
  CHECK(contains(refused([](EngineOptions& o) { o.require_timing_cache = true; }), "require_timing_cache"));
  CHECK(contains(refused([](EngineOptions& o) { o.precision = Precision::Fp16; }), "fp16"));
}

TEST_CASE("a failed call leaves the session usable") {
  const auto engine = small_engine(1);
  const auto session = engine->create_session();
  const auto picture = test::random_uniform(1, 3 * 8 * 8);
  std::vector<float> expected(10);
  std::vector<float> actual(10);
  engine->create_session()->run(picture, expected);
  CHECK_THROWS_AS(session->run(std::span(picture).first(5), actual), Error);
  session->run(picture, actual);
  CHECK(actual == expected);
}

TEST_CASE("sessions of one engine run in parallel and agree bit for bit") {
  const auto engine = small_engine(1);
  const auto picture = test::random_uniform(1, 3 * 8 * 8);
  std::vector<float> expected(10);
  engine->create_session()->run(picture, expected);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const auto session = engine->create_session();
      std::vector<float> actual(10);
      for (int i = 0; i < 50; ++i) {
        session->run(picture, actual);
        if (actual != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a session outlives the last handle on its engine") {
  auto engine = small_engine(1);
  const auto session = engine->create_session();
  engine.reset();
  const auto picture = test::random_uniform(1, 3 * 8 * 8);
  std::vector<float> logits(10);
  CHECK_NOTHROW(session->run(picture, logits));
}

TEST_CASE("errors say code, place, message and hint in this order") {
  const Error error(ErrorCode::invalid_model, "node 'a'", "must be > 0, got 0", "fix it");
  CHECK(std::string(error.what()) == "invalid_model: node 'a': must be > 0, got 0; fix it");
  CHECK(std::string(error.inside("m.onnx").what()) == "invalid_model: m.onnx: node 'a': must be > 0, got 0; fix it");
}

TEST_CASE("pictures of bytes equal the floats that they stand for") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp64);
  const auto layout = GENERATE(Layout::NCHW, Layout::NHWC);
  TestNetwork network(Shape{1, 3, 7, 5}, layout);
  network.conv(8, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  network.head(10);
  const Graph graph = std::move(network).build();
  EngineOptions options;
  options.precision = precision;
  options.max_batch = 2;
  std::vector<float> expected(20);
  const auto pictures = test::random_pictures(graph, 2);
  const auto floats = test::floats_of(graph, pictures);
  make_cpu_backend()->compile(graph, options)->create_session()->run(floats, expected);
  options.picture_input = test::exact_picture_input();
  const auto engine = make_cpu_backend()->compile(graph, options);
  CHECK(engine->input() == TensorDesc{DType::U8, Shape{1, 3, 7, 5}, Layout::NHWC});
  std::vector<float> actual(20);
  const auto session = engine->create_session();
  session->run(pictures, actual);
  CHECK(actual == expected);
  CHECK(contains(message_of([&] { session->run(floats, actual); }), "takes uint8, got float32"));
  CHECK(contains(message_of([&] { session->staged_input(1); }), "takes uint8"));
}

TEST_CASE("staged runs equal plain ones") {
  const auto engine = small_engine(2);
  const auto input = test::random_uniform(1, 2 * 3 * 8 * 8);
  std::vector<float> expected(20);
  engine->create_session()->run(input, expected);
  const auto session = engine->create_session();
  std::copy(input.begin(), input.end(), session->staged_input(2).begin());
  session->run_staged(2);
  CHECK(std::equal(expected.begin(), expected.end(), session->staged_output(2).begin()));
  CHECK(session->staged_output(1).size() == 10);
  CHECK(contains(message_of([&] { session->run_staged(3); }), "must be 1 to 2, got 3"));
  CHECK(contains(message_of([&] { session->staged_pictures(1); }), "EngineOptions::picture_input"));
}

TEST_CASE("picture_input is refused where it makes no sense") {
  EngineOptions options;
  options.picture_input = PictureInput{};
  TestNetwork grey(Shape{1, 1, 8, 8});
  grey.conv(8, 3);
  const Graph one_channel = std::move(grey).build();
  CHECK(contains(message_of([&] { make_cpu_backend()->compile(one_channel, options); }), "3 channels"));
  options.picture_input->scale[1] = std::numeric_limits<float>::infinity();
  CHECK(contains(message_of([&] { make_cpu_backend()->compile(small_network(), options); }), "channel 1"));
}

}  // namespace
}  // namespace mobicuda
