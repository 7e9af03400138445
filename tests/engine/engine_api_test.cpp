#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>

#include <mobicuda/mobicuda.h>

#include "graph/huge_pages.h"
#include "graph/logical_floats.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/pictures.h"
#include "support/texts.h"

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
  CHECK(contains(message_of([&] { session->time_executions(1, 1, 0); }), "runs"));
  CHECK(contains(message_of([&] { session->profile(1, -1); }), "iterations"));
}

TEST_CASE("outputs that nothing computed are refused, with what to call") {
  const auto engine = small_engine(2);
  const auto input = test::random_uniform(1, 2 * 3 * 8 * 8);
  const std::span<const float> one(input.data(), 3 * 8 * 8);
  std::vector<float> expected(20);
  engine->create_session()->run(input, expected);
  std::vector<float> output(20);
  const std::span<float> first(output.data(), 10);
  const auto refusal = [&](Session& session, std::span<float> to) {
    try {
      session.get_output(to);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto session = engine->create_session();
  CHECK(contains(refusal(*session, first), "get_output: nothing was executed; call execute() or run() first"));
  session->set_input(input);
  CHECK(contains(refusal(*session, first), "nothing was executed"));
  session->execute(1);
  CHECK(contains(refusal(*session, output), "asks for 2 pictures, the last execution was of 1; call execute(2)"));
  CHECK_NOTHROW(session->get_output(first));
  session->execute(2);
  session->get_output(output);
  CHECK(output == expected);
  session->set_input(one);  // what was computed stays until the next execution
  session->get_output(output);
  CHECK(output == expected);
  session->run(one, first);
  CHECK(contains(refusal(*session, output), "the last execution was of 1"));
  session->run_staged(2);
  CHECK(contains(refusal(*session, first), "a staged run was last; its outputs are in staged_output()"));
}

TEST_CASE("timed and profiled runs and a whole run layer by layer leave outputs") {
  const auto engine = small_engine(2);
  const auto input = test::random_uniform(1, 2 * 3 * 8 * 8);
  std::vector<float> expected(20);
  engine->create_session()->run(input, expected);
  std::vector<float> output(20);
  const auto leaves_outputs = [&](auto run) {
    const auto session = engine->create_session();
    session->set_input(input);
    run(*session);
    std::fill(output.begin(), output.end(), -1.0F);
    session->get_output(output);
    return output == expected;
  };
  CHECK(leaves_outputs([](Session& session) { session.time_executions(2, 1); }));
  CHECK(leaves_outputs([](Session& session) { session.profile(2, 1); }));
  CHECK(leaves_outputs([&](Session& session) {
    for (std::size_t i = 0; i < engine->layers().size(); ++i) session.execute_layer(2, i);
  }));
  CHECK_THROWS_AS(leaves_outputs([](Session& session) {
                    session.execute(2);
                    session.execute_layer(2, 0);
                  }),
                  Error);
}

TEST_CASE("more pictures than set_input() gave are not executed, and a new session's input is zeros") {
  const auto engine = small_engine(2);
  const auto input = test::random_uniform(1, 2 * 3 * 8 * 8);
  const std::span<const float> one(input.data(), 3 * 8 * 8);
  std::vector<float> expected(20);
  std::vector<float> output(20);
  const auto session = engine->create_session();
  session->execute(2);
  session->get_output(output);
  engine->create_session()->run(std::vector<float>(input.size(), 0.0F), expected);
  CHECK(output == expected);
  CHECK_NOTHROW(engine->create_session()->time_executions(2, 1));
  CHECK_NOTHROW(engine->create_session()->profile(2, 1));
  session->set_input(one);
  const std::string refusal = message_of([&] { session->execute(2); });
  CHECK(contains(refusal, "invalid_argument: batch: is 2, the input holds 1 picture"));
  CHECK(contains(refusal, "call set_input() with 2 pictures"));
  CHECK(contains(message_of([&] { session->time_executions(2, 1); }), "the input holds 1"));
  CHECK(contains(message_of([&] { session->profile(2, 1); }), "the input holds 1"));
  CHECK(contains(message_of([&] { session->execute_layer(2, 0); }), "the input holds 1"));
  for (int i = 0; i < 2; ++i) CHECK_NOTHROW(session->execute(1));
  session->run(one, std::span(output).first(10));  // run() is set_input() too
  CHECK(contains(message_of([&] { session->execute(2); }), "the input holds 1"));
  session->set_input(input);
  CHECK_NOTHROW(session->execute(2));
  CHECK_NOTHROW(session->execute(1));
}

TEST_CASE("a session over max_memory_bytes is refused before it allocates, with what it takes") {
  const auto backend = make_cpu_backend();
  EngineOptions options;
  options.max_batch = 4;
  options.threads = 1;
  const MemoryReport needed = backend->compile(small_network(), options)->memory();
  options.max_memory_bytes = needed.total();
  CHECK_NOTHROW(backend->compile(small_network(), options)->create_session());
  options.max_memory_bytes = needed.total() - 1;
  const std::string refusal = message_of([&] { backend->compile(small_network(), options)->create_session(); });
  CHECK(contains(refusal, "out_of_memory: max_memory_bytes: a session of the cpu engine takes " +
                              std::to_string(needed.total()) + " bytes, the limit is " +
                              std::to_string(needed.total() - 1)));
  CHECK(contains(refusal, "activations " + std::to_string(needed.arena_bytes)));
  CHECK(contains(refusal, "; raise EngineOptions::max_memory_bytes, or lower max_batch"));
  // 72 bytes of ONNX ask for as much.
  GraphBuilder builder("wide");
  const ValueId x = builder.set_input("x", {DType::F32, Shape{1, 2147483647, 1, 1}, Layout::NCHW});
  const ValueId y = builder.add_node(Clip{Activation::relu()}, {x}, {}, "y");
  options.max_memory_bytes = std::int64_t{1} << 30;
  const auto engine = backend->compile(std::move(builder).build(y), options);
  CHECK(contains(message_of([&] { engine->create_session(); }), "the limit is 1073741824"));
}

TEST_CASE("values and sizes that cannot be are refused by the number") {
  const Graph graph = small_network();
  CHECK(contains(message_of([&] { static_cast<void>(graph.producer(-1)); }), "no value with id -1"));
  CHECK(contains(message_of([] { static_cast<void>(Shape{1, 2}[8]); }), "has axes up to 7, asked for is axis 8"));
  CHECK(Shape{1, 2}[5] == 0);
  CHECK(contains(message_of([] { WeightBytes(-1); }), "packed weights: bytes must be >= 0, got -1"));
}

TEST_CASE("large blocks of packed weights begin at a huge page, small ones at a buffer's alignment") {
  const auto begin = [](std::int64_t bytes) {
    WeightBytes weights(bytes);
    std::ranges::fill(weights.span(), std::byte{1});
    return reinterpret_cast<std::uintptr_t>(weights.span().data());
  };
  CHECK(begin(static_cast<std::int64_t>(kHugePage)) % kHugePage == 0);
  CHECK(begin(static_cast<std::int64_t>(2 * kHugePage + 1)) % kHugePage == 0);
  CHECK(begin(1000) % static_cast<std::uintptr_t>(kWeightAlignment) == 0);
}

TEST_CASE("errors show text from outside without control characters, and not without end") {
  const Error error(ErrorCode::io, "a\x1b]0;title\x07",
                    "b\nc\x7f\xc2\x9b"
                    "2J",
                    "\xff\xc3\xa4 \xe2\x82\xac");
  CHECK(error.where() == "a\\x1b]0;title\\x07");
  CHECK(error.message() == "b\\x0ac\\x7f\\xc2\\x9b2J");
  CHECK(error.hint() == "\\xff\xc3\xa4 \xe2\x82\xac");  // what is UTF-8 stays
  CHECK(error.what() == "io: " + error.where() + ": " + error.message() + "; " + error.hint());
  CHECK(std::string(error.inside("\x1b[1m").what()).starts_with("io: \\x1b[1m: a\\x1b"));
  CHECK(printable("cut \xe2\x82") == "cut \\xe2\\x82");
  const Error huge(ErrorCode::io, std::string(1000000, 'n'), "m");
  CHECK(huge.where().size() == kMaxErrorBytes + 3);
  const auto raised = [](const std::string& name) {
    GraphBuilder builder("g");
    builder.set_input(name, {DType::F32, Shape{1, 0}, Layout::NCHW});
  };
  CHECK(contains(message_of([&] { raised("\x1b[2J"); }), "input '\\x1b[2J'"));
}

TEST_CASE("options out of range are refused by name") {
  const auto backend = make_cpu_backend();
  const auto refused = [&](const auto& change) {
    EngineOptions options;
    change(options);
    return message_of([&] { backend->compile(small_network(), options); });
  };
  CHECK(contains(refused([](EngineOptions& o) { o.max_batch = 0; }), "max_batch"));
  CHECK(contains(refused([](EngineOptions& o) { o.max_batch = 1 << 20; }), "max_batch"));
  const auto plans = [](const std::vector<std::int64_t>& batches) {
    return [batches](EngineOptions& o) {
      o.max_batch = 8;
      o.plan_batches = batches;
    };
  };
  CHECK(contains(refused(plans({0, 2})), "plan_batches: must be 1 to max_batch, 8, got 0"));
  CHECK(contains(refused(plans({2, 9})), "plan_batches: must be 1 to max_batch, 8, got 9"));
  CHECK(contains(refused(plans({2, 2})), "plan_batches: must rise, got 2 after 2"));
  CHECK(contains(refused(plans({4, 2})), "plan_batches: must rise, got 2 after 4"));
  CHECK(contains(refused([](EngineOptions& o) { o.threads = -1; }), "threads"));
  CHECK(contains(refused([](EngineOptions& o) { o.device = -1; }), "device"));
  CHECK(contains(refused([](EngineOptions& o) { o.require_timing_cache = true; }), "require_timing_cache"));
  CHECK(contains(refused([](EngineOptions& o) { o.precision = Precision::Fp16; }), "fp16"));
}

TEST_CASE("layers and warm_up() of a CPU engine are those of any batch that it runs") {
  const auto engine = small_engine(4);
  for (const std::int64_t n : {1, 3, 4}) CHECK(engine->layers(n).data() == engine->layers().data());
  CHECK(contains(message_of([&] { engine->layers(5); }), "must be 1 to 4, got 5"));
  const auto session = engine->create_session();
  CHECK_NOTHROW(session->warm_up(std::vector<std::int64_t>{1, 4, 1}));
  CHECK(contains(message_of([&] { session->warm_up(std::vector<std::int64_t>{1, 0}); }), "must be 1 to 4, got 0"));
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

TEST_CASE("layers run one by one, and each shows what it computed in the order of its shape") {
  constexpr std::array kMix{1.0F, 2.0F, 0.0F, -1.0F};
  TestNetwork network(Shape{1, 2, 3, 2});
  const ValueId weight = network.builder().add_constant("w", HostTensor::of<float>(Shape{2, 2, 1, 1}, kMix));
  network.add(Conv2d{{1, 1}, {1, 1}, {}, 1, Activation::relu()}, {network.last(), weight, kNoValue, kNoValue}, "mix");
  network.head(4);
  const Graph graph = std::move(network).build();
  const auto input = test::random_uniform(9, 2 * 12);
  for (const Precision precision : {Precision::Fp32, Precision::Fp64}) {
    EngineOptions options;
    options.precision = precision;
    options.max_batch = 3;
    const auto engine = make_cpu_backend()->compile(graph, options);
    const auto session = engine->create_session();
    std::vector<float> logits(8);
    session->run(input, logits);
    session->set_input(input);
    std::vector<float> values;
    for (std::size_t i = 0; i < engine->layers().size(); ++i) {
      const LayerInfo& layer = engine->layers()[i];
      session->execute_layer(2, i);
      values.assign(static_cast<std::size_t>(2 * layer.output.elements()), -1.0F);
      session->get_layer_output(values);
      if (layer.value != "mix.out") continue;
      for (std::size_t at = 0; at < 24; ++at) {
        const std::size_t pixel = at % 6;
        const std::size_t first = at / 12 * 12;
        const float expected =
            at % 12 < 6 ? input[first + pixel] + 2 * input[first + 6 + pixel] : -input[first + 6 + pixel];
        CHECK(values[at] == Approx(std::max(expected, 0.0F)));
      }
    }
    CHECK(engine->layers().back().value == "classifier.out");
    CHECK(values == logits);
  }
}

TEST_CASE("layers run in order only, with one batch and nothing in between") {
  const auto engine = small_engine(2);
  const auto session = engine->create_session();
  std::vector<float> output(2 * 3 * 8 * 8);
  CHECK(contains(message_of([&] { session->get_layer_output(output); }), "no layer was executed"));
  CHECK(contains(message_of([&] { session->execute_layer(1, 1); }), "must be 0, got 1"));
  CHECK(contains(message_of([&] { session->execute_layer(3, 0); }), "must be 1 to 2, got 3"));
  session->execute_layer(2, 0);
  CHECK(contains(message_of([&] { session->get_layer_output(std::span(output).first(7)); }), "got 7"));
  CHECK_NOTHROW(session->get_layer_output(output));
  CHECK(contains(message_of([&] { session->execute_layer(1, 1); }), "must be 0 or, with a batch of 2, 1, got 1"));
  CHECK(contains(message_of([&] { session->execute_layer(2, 2); }), "got 2"));
  session->execute_layer(2, 1);
  session->execute_layer(2, 0);
  session->execute(1);
  CHECK(contains(message_of([&] { session->execute_layer(2, 1); }), "must be 0, got 1"));
  CHECK(contains(message_of([&] { session->get_layer_output(output); }), "no layer was executed"));
  for (std::size_t i = 0; i < engine->layers().size(); ++i) session->execute_layer(1, i);
  CHECK(contains(message_of([&] { session->execute_layer(1, engine->layers().size()); }), "must be 0, got"));
}

TEST_CASE("what an engine stores becomes floats in logical order") {
  const TensorDesc nhwc{DType::F16, Shape{1, 2, 1, 3}, Layout::NHWC};
  // 1, -2, 0.5, the smallest subnormal, infinity, -0; then NaN and numbers.
  const std::array<std::uint16_t, 12> halves{0x3C00, 0xC000, 0x3800, 0x0001, 0x7C00, 0x8000,
                                             0x7E00, 0x4000, 0x4200, 0x4400, 0x7BFF, 0x0000};
  std::array<float, 12> floats{};
  to_logical_floats(std::as_bytes(std::span(halves)), nhwc, 2, floats);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(floats[0] == 1);
  CHECK(floats[1] == 0.5F);
  CHECK(floats[2] == kInfinity);
  CHECK(floats[3] == -2);
  CHECK(floats[4] == 0x1p-24F);
  CHECK((floats[5] == 0 && std::signbit(floats[5])));
  CHECK(std::isnan(floats[6]));
  CHECK(std::vector<float>(floats.begin() + 7, floats.end()) == std::vector<float>{3, 65504, 2, 4, 0});

  const std::array<double, 6> doubles{1, 2, 3, 4, 5, 1.0 / 3};
  to_logical_floats(std::as_bytes(std::span(doubles)), {DType::F64, nhwc.shape, Layout::NHWC}, 1,
                    std::span(floats).first(6));
  CHECK(std::vector<float>(floats.begin(), floats.begin() + 6) == std::vector<float>{1, 3, 5, 2, 4, 1.0F / 3});
  to_logical_floats(std::as_bytes(std::span(doubles)), {DType::F64, Shape{1, 6}, Layout::NCHW}, 1,
                    std::span(floats).first(6));
  CHECK(floats[1] == 2);

  // Integers are shown as the numbers that they stand for.
  const std::array<std::int8_t, 6> integers{-128, -1, 0, 1, 2, 127};
  const TensorDesc quantized{DType::I8, nhwc.shape, Layout::NHWC, {0.5F, 2}};
  to_logical_floats(std::as_bytes(std::span(integers)), quantized, 1, std::span(floats).first(6));
  CHECK(std::vector<float>(floats.begin(), floats.begin() + 6) == std::vector<float>{-65, -1, 0, -1.5F, -0.5F, 62.5F});
  TensorDesc bytes = quantized;
  bytes.dtype = DType::U8;
  to_logical_floats(std::as_bytes(std::span(integers)), bytes, 1, std::span(floats).first(6));
  CHECK(floats[0] == 63);
  CHECK(floats[3] == 126.5F);
  CHECK_THROWS_AS(to_logical_floats({}, {DType::I32, Shape{1, 6}, Layout::NCHW}, 0, {}), Error);
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
