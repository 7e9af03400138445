// What a caller can do wrong, by a list: each is an Error with its code, and its text has what is wrong and what to do.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "support/catch.h"
#include "support/graphs.h"
#include "support/texts.h"

namespace mobicuda {
namespace {

using test::TestNetwork;

constexpr std::int64_t kMaxBatch = 2;
constexpr std::size_t kInput = 3 * 8 * 8;
constexpr std::size_t kOutput = 10;

Graph small_network() {
  TestNetwork network(Shape{1, 3, 8, 8});
  network.conv(8, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
  network.head(kOutput);
  return std::move(network).build();
}

// What the misuses are done to.
struct Subject {
  std::unique_ptr<Backend> backend = make_cpu_backend();
  Graph graph = small_network();
  std::shared_ptr<const Engine> engine = compile([](EngineOptions& options) { options.max_batch = kMaxBatch; });
  std::shared_ptr<const Engine> of_bytes = compile([](EngineOptions& options) { options.picture_input.emplace(); });
  std::unique_ptr<Session> session = engine->create_session();
  std::unique_ptr<Session> session_of_bytes = of_bytes->create_session();
  std::vector<float> input = std::vector<float>(kInput, 0.5F);
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kInput, 7);
  std::vector<float> output = std::vector<float>(kOutput);

  template <class Change>
  std::shared_ptr<const Engine> compile(const Change& change) const {
    EngineOptions options;
    options.threads = 1;
    change(options);
    return backend->compile(graph, options);
  }
};

struct Misuse {
  const char* what;
  ErrorCode code;
  const char* said;  ///< a part of the text
  std::function<void(Subject&)> act;
};

template <class Change>
auto compiled_with(Change change) {
  return [change](Subject& s) { static_cast<void>(s.compile(change)); };
}

template <class Make>
auto built(Make make) {
  return [make](Subject& /*subject*/) {
    GraphBuilder builder("misused");
    const ValueId x = builder.set_input("x", {DType::F32, Shape{1, 4, 6, 6}, Layout::NCHW});
    make(builder, x);
  };
}

ValueId constant(GraphBuilder& builder, const Shape& shape) {
  const std::vector<float> values(static_cast<std::size_t>(shape.elements()), 0.5F);
  return builder.add_constant("c", HostTensor::of<float>(shape, values));
}

ValueId add(GraphBuilder& builder, Op op, std::vector<ValueId> inputs) {
  return builder.add_node(std::move(op), std::move(inputs), {}, "y");
}

Pool2d max_pool(std::int64_t kernel) {
  Pool2d op;
  op.kernel = {kernel, kernel};
  return op;
}

// Calls a session while another thread does, until it is refused.
void use_at_once(Subject& s) {
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) static_cast<void>(message_of([&] { s.session->time_executions(1, 100); }));
  });
  const auto refusal = [&]() -> std::exception_ptr {
    try {
      while (true) s.session->synchronize();
    } catch (const Error&) {
      return std::current_exception();
    }
  }();
  done = true;
  other.join();
  std::rethrow_exception(refusal);
}

const std::vector<Misuse>& misuses() {
  constexpr auto kArgument = ErrorCode::invalid_argument;
  constexpr auto kModel = ErrorCode::invalid_model;
  static const std::vector<Misuse> all{
      // ---- sizes and batches
      {"no input", kArgument, "got 0 values", [](Subject& s) { s.session->run(std::span<const float>(), s.output); }},
      {"part of an image", kArgument, "got 191 values",
       [](Subject& s) { s.session->run(std::span<const float>(s.input).first(kInput - 1), s.output); }},
      {"no output", kArgument, "got 0 values", [](Subject& s) { s.session->run(s.input, {}); }},
      {"an output that is too small", kArgument, "got 9 values",
       [](Subject& s) { s.session->run(s.input, std::span(s.output).first(kOutput - 1)); }},
      {"an output for more images", kArgument, "output",
       [](Subject& s) {
         std::vector<float> output(2 * kOutput);
         s.session->run(s.input, output);
       }},
      {"more images than max_batch", kArgument, "must be 1 to 2, got 3",
       [](Subject& s) {
         std::vector<float> output(3 * kOutput);
         s.session->run(std::vector<float>(3 * kInput), output);
       }},
      {"a batch of 0", kArgument, "must be 1 to 2, got 0", [](Subject& s) { s.session->execute(0); }},
      {"a batch below 0", kArgument, "must be 1 to 2, got -1", [](Subject& s) { s.session->execute(-1); }},
      {"a batch without end", kArgument, "must be 1 to 2, got 9223372036854775807",
       [](Subject& s) { s.session->execute(std::numeric_limits<std::int64_t>::max()); }},
      {"more images than were given", kArgument, "call set_input() with 2 pictures",
       [](Subject& s) {
         s.session->set_input(s.input);
         s.session->execute(2);
       }},
      {"layers of a batch that is not run", kArgument, "must be 1 to 2, got 3",
       [](Subject& s) { static_cast<void>(s.engine->layers(3)); }},
      {"warming up a batch that is not run", kArgument, "must be 1 to 2, got 5",
       [](Subject& s) {
         const std::array<std::int64_t, 2> batches{1, 5};
         s.session->warm_up(batches);
       }},
      {"staged input of 0 images", kArgument, "got 0",
       [](Subject& s) { static_cast<void>(s.session->staged_input(0)); }},
      {"staged output of too many images", kArgument, "got 3",
       [](Subject& s) { static_cast<void>(s.session->staged_output(3)); }},
      // ---- types
      {"bytes for an engine of floats", kArgument, "compile with EngineOptions::picture_input",
       [](Subject& s) { s.session->run(s.bytes, s.output); }},
      {"bytes set for an engine of floats", kArgument, "the engine takes float32, got uint8",
       [](Subject& s) { s.session->set_input(s.bytes); }},
      {"floats for an engine of bytes", kArgument, "compile without EngineOptions::picture_input",
       [](Subject& s) { s.session_of_bytes->run(s.input, s.output); }},
      {"staged floats of an engine of bytes", kArgument, "the engine takes uint8, got float32",
       [](Subject& s) { static_cast<void>(s.session_of_bytes->staged_input(1)); }},
      {"staged bytes of an engine of floats", kArgument, "the engine takes float32, got uint8",
       [](Subject& s) { static_cast<void>(s.session->staged_pictures(1)); }},
      {"a tensor read as another type", kArgument, "float32",
       [](Subject& /*subject*/) {
         const HostTensor tensor(DType::F32, Shape{2});
         static_cast<void>(tensor.data<std::int8_t>());
       }},
      // ---- order of calls
      {"outputs of nothing", kArgument, "nothing was executed", [](Subject& s) { s.session->get_output(s.output); }},
      {"outputs of a staged run", kArgument, "staged_output()",
       [](Subject& s) {
         s.session->run_staged(1);
         s.session->get_output(s.output);
       }},
      {"a layer out of order", kArgument, "must be 0, got 1", [](Subject& s) { s.session->execute_layer(1, 1); }},
      {"a layer that is not there", kArgument, "got 99", [](Subject& s) { s.session->execute_layer(1, 99); }},
      {"outputs of no layer", kArgument, "no layer was executed last",
       [](Subject& s) { s.session->get_layer_output(s.output); }},
      {"a layer's output of another size", kArgument, "must hold 192 values",
       [](Subject& s) {
         s.session->execute_layer(1, 0);
         s.session->get_layer_output(s.output);
       }},
      {"outputs in the middle of the layers", kArgument, "the last layer was not executed",
       [](Subject& s) {
         s.session->execute_layer(1, 0);
         s.session->get_output(s.output);
       }},
      {"a session of two threads", kArgument, "is in use by another thread", use_at_once},
      // ---- timing
      {"no iterations", kArgument, "iterations: must be >= 1, got 0",
       [](Subject& s) { static_cast<void>(s.session->time_executions(1, 0)); }},
      {"no runs", kArgument, "runs: must be >= 1, got 0",
       [](Subject& s) { static_cast<void>(s.session->time_executions(1, 1, 0)); }},
      {"a profile of -1 iterations", kArgument, "iterations: must be >= 1, got -1",
       [](Subject& s) { static_cast<void>(s.session->profile(1, -1)); }},
      // ---- options
      {"max_batch of 0", kArgument, "max_batch", compiled_with([](EngineOptions& o) { o.max_batch = 0; })},
      {"threads below 0", kArgument, "threads: must be >= 0, got -1",
       compiled_with([](EngineOptions& o) { o.threads = -1; })},
      {"a device below 0", kArgument, "device: must be >= 0, got -1",
       compiled_with([](EngineOptions& o) { o.device = -1; })},
      {"a limit of memory below 0", kArgument, "max_memory_bytes: must be >= 0, got -1",
       compiled_with([](EngineOptions& o) { o.max_memory_bytes = -1; })},
      {"a session over its limit of memory", ErrorCode::out_of_memory, "raise EngineOptions::max_memory_bytes",
       [](Subject& s) {
         static_cast<void>(s.compile([](EngineOptions& o) { o.max_memory_bytes = 1; })->create_session());
       }},
      {"plans for batches beyond max_batch", kArgument, "plan_batches: must be 1 to max_batch, 2, got 3",
       compiled_with([](EngineOptions& o) {
         o.max_batch = 2;
         o.plan_batches = {1, 3};
       })},
      {"plans for batches that fall", kArgument, "plan_batches: must rise, got 1 after 2",
       compiled_with([](EngineOptions& o) {
         o.max_batch = 2;
         o.plan_batches = {2, 1};
       })},
      {"a timing cache that is required and not named", kArgument, "require_timing_cache: needs a timing_cache",
       compiled_with([](EngineOptions& o) { o.require_timing_cache = true; })},
      {"a precision that the CPU has not", ErrorCode::unsupported, "fp16",
       compiled_with([](EngineOptions& o) { o.precision = Precision::Fp16; })},
      {"bytes for a network of 4 channels", ErrorCode::unsupported, "picture_input needs a network",
       [](Subject& s) {
         TestNetwork network(Shape{1, 4, 8, 8});
         network.head(2);
         EngineOptions options;
         options.picture_input.emplace();
         static_cast<void>(s.backend->compile(std::move(network).build(), options));
       }},
      // ---- graphs
      {"an input that does not exist", kModel, "value id 99 does not exist",
       built([](GraphBuilder& b, ValueId) { add(b, Identity{}, {99}); })},
      {"an input of -7", kModel, "value id -7 does not exist",
       built([](GraphBuilder& b, ValueId) { add(b, Identity{}, {-7}); })},
      {"too few inputs", kModel, "Add has 2 input positions, got 1",
       built([](GraphBuilder& b, ValueId x) { add(b, Add{}, {x}); })},
      {"too many inputs", kModel, "input positions, got 3", built([](GraphBuilder& b, ValueId x) {
         add(b, Add{}, {x, x, x});
       })},
      {"weights that are an activation", ErrorCode::unsupported, "must be a constant",
       built([](GraphBuilder& b, ValueId x) {
         add(b, Conv2d{}, {x, x, kNoValue, kNoValue});
       })},
      {"an activation that is a constant", ErrorCode::unsupported, "is a constant where an activation is meant",
       built([](GraphBuilder& b, ValueId x) {
         add(b, Add{}, {x, constant(b, Shape{1, 4, 6, 6})});
       })},
      {"filters of other channels", kModel, "channels", built([](GraphBuilder& b, ValueId x) {
         add(b, Conv2d{}, {x, constant(b, Shape{2, 3, 1, 1}), kNoValue, kNoValue});
       })},
      {"a stride of 0", kModel, "strides", built([](GraphBuilder& b, ValueId x) {
         Conv2d op;
         op.strides = {0, 1};
         add(b, op, {x, constant(b, Shape{2, 4, 1, 1}), kNoValue, kNoValue});
       })},
      {"a window that does not fit", kModel, "7", built([](GraphBuilder& b, ValueId x) { add(b, max_pool(7), {x}); })},
      {"images of other sizes added", kModel, "shape", built([](GraphBuilder& b, ValueId x) {
         add(b, Add{}, {x, add(b, max_pool(2), {x})});
       })},
      {"a permutation that is none", kModel, "must permute the 4 axes", built([](GraphBuilder& b, ValueId x) {
         add(b, Transpose{{0, 1, 1, 3}}, {x});
       })},
      {"a slice beyond the end", kModel, "4", built([](GraphBuilder& b, ValueId x) {
         add(b, Slice{1, 3, 2}, {x});
       })},
      {"a graph without a value that it gives out", kArgument, "99",
       built([](GraphBuilder& b, ValueId) { static_cast<void>(std::move(b).build(99)); })},
      {"a shape of a negative extent", kArgument, "-1",
       [](Subject& /*subject*/) {
         static_cast<void>(HostTensor(DType::F32, Shape{2, -1}));
       }},
      {"a shape of 9 axes", kArgument, "rank must be <= 8, got 9",
       [](Subject& /*subject*/) {
         const std::vector<std::int64_t> dims(9, 1);
         static_cast<void>(Shape(std::span<const std::int64_t>(dims)));
       }},
      // ---- files
      {"a model that is not there", ErrorCode::io, "none.onnx",
       [](Subject& /*subject*/) { static_cast<void>(onnx_import::load("/nowhere/none.onnx")); }},
      {"a plan file that is not there", ErrorCode::io, "none.plan",
       [](Subject& /*subject*/) { static_cast<void>(plan_file::read("/nowhere/none.plan")); }},
      {"a plan file in a folder that is not there", ErrorCode::io, "/nowhere/",
       [](Subject& s) { plan_file::save(*s.engine, "/nowhere/net.plan"); }},
      {"a plan file that is none", kModel, "is no plan file",
       [](Subject& s) { static_cast<void>(plan_file::read_from_memory(std::as_bytes(std::span(s.bytes)), "bytes")); }},
      {"a model that is none", kModel, "bytes",
       [](Subject& s) {
         static_cast<void>(onnx_import::load_from_memory(std::as_bytes(std::span(s.bytes)), "bytes"));
       }},
      {"a saved engine with other options", kArgument, "max_batch",
       [](Subject& s) {
         EngineOptions options;
         options.max_batch = 7;
         static_cast<void>(s.backend->restore(s.engine->saved(), options));
       }},
  };
  return all;
}

TEST_CASE("misuse: there are at least 40, each by a name of its own") {
  std::vector<std::string> names;
  for (const Misuse& one : misuses()) names.emplace_back(one.what);
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(names.size() >= 40);
}

TEST_CASE("misuse: each is an Error with its code, and the next call works") {
  for (const Misuse& one : misuses()) {
    Subject subject;
    INFO(one.what);
    try {
      one.act(subject);
      FAIL_CHECK("no error");
    } catch (const Error& error) {
      INFO(error.what());
      CHECK(to_string(error.code()) == to_string(one.code));
      CHECK(contains(error.what(), one.said));
    }
    CHECK_NOTHROW(subject.session->run(subject.input, subject.output));
  }
}

}  // namespace
}  // namespace mobicuda
