// Small files that ask for much. Each must get its verdict within the memory and time that docs/reliability.md states
// for any file (R26), with the limits as they are by default.
#include <chrono>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "baselines/allocation_count.h"
#include "plan_file/frame.h"
#include "support/catch.h"
#include "support/onnx_builder.h"
#include "support/repeated.h"
#include "support/sanitizer.h"
#include "support/texts.h"

namespace mobicuda::test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kMostMemory = 256 * kMiB;

// The bar is one second. Sanitizers and a machine that others use multiply CPU time; what a second of work would not
// end takes minutes.
constexpr double kMostSeconds = 20;

struct Verdict {
  std::string error;  ///< empty: accepted
  std::int64_t bytes = 0;
  double seconds = 0;  ///< of the processor
};

Verdict judge(const std::function<void()>& read) {
  Verdict verdict;
  const std::clock_t start = std::clock();
  verdict.bytes = peak_bytes_of([&] {
    try {
      read();
    } catch (const Error& error) {
      verdict.error = error.what();
    }
  });
  verdict.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return verdict;
}

// `expected`: a part of the error; empty: the file is accepted.
void check(const std::string& what, std::size_t file_bytes, const std::string& expected,
           const std::function<void()>& read) {
  const Verdict verdict = judge(read);
  CAPTURE(what, file_bytes, verdict.error, verdict.bytes / kMiB, verdict.seconds);
  CHECK(verdict.bytes <= kMostMemory + static_cast<std::int64_t>(file_bytes));
  CHECK(verdict.seconds < kMostSeconds);
  CHECK(contains(verdict.error, expected));
  CHECK(verdict.error.empty() == expected.empty());
}

void check_model(const std::string& what, const std::string& bytes, const std::string& expected) {
  check(what, bytes.size(), expected, [&] { onnx_import::load_from_memory(as_bytes(bytes), "hostile.onnx"); });
}

void check_model(const std::string& what, const OnnxBuilder& builder, const std::string& expected) {
  check_model(what, builder.bytes(), expected);
}

std::string varint(std::size_t value) {
  std::string text;
  for (; value > 0x7FU; value >>= 7U) text += static_cast<char>((value & 0x7FU) | 0x80U);
  return text + static_cast<char>(value);
}

std::string length_tag(int field) { return varint(static_cast<std::size_t>(field) << 3U | 2U); }

// `count` times `field`, within messages that are the fields of `path`, the innermost first.
std::string nested(std::initializer_list<int> path, const std::string& field, std::size_t count) {
  std::string content = repeated(field, count);
  for (const int number : path) content = length_tag(number) + varint(content.size()) + content;
  return content;
}

OnnxBuilder network(const Dims& input) {
  OnnxBuilder builder(13);
  builder.input("x", input).output("y");
  return builder;
}

constexpr const char* kSmallFields = "has so many small fields that they would take more than";

}  // namespace

TEST_CASE("hostile files: messages of two bytes get a verdict before they are parsed") {
  constexpr std::size_t kCount = kThreadSanitized ? 2000000 : 4000000;
  const auto empty = [](int field) { return length_tag(field) + '\0'; };
  check_model("nodes", nested({7}, empty(1), kCount), kSmallFields);
  check_model("initializers", nested({7}, empty(5), kCount), kSmallFields);
  check_model("value infos", nested({7}, empty(13), kCount), kSmallFields);
  check_model("attributes", nested({1, 7}, empty(5), kCount), kSmallFields);
  check_model("graphs", nested({5, 1, 7}, empty(11), kCount), kSmallFields);
  check_model("tensors", nested({5, 1, 7}, empty(10), kCount), kSmallFields);
  check_model("strings", nested({5, 1, 7}, empty(9), kCount), kSmallFields);
  check_model("inputs of a node", nested({1, 7}, empty(1), kCount), kSmallFields);
  check_model("opset imports", nested({}, empty(8), kCount), kSmallFields);
  check_model("functions", nested({}, empty(25), kCount), kSmallFields);
}

TEST_CASE("hostile files: a plan's messages of two bytes get a verdict before they are parsed") {
  constexpr std::size_t kCount = kThreadSanitized ? 2000000 : 4000000;
  const auto empty = [](int field) { return length_tag(field) + '\0'; };
  const auto check_plan = [&](const std::string& what, const std::string& structure) {
    const auto bytes = plan_file::make_front(structure, {});
    check(what, bytes.size(), "has a structure of so many small fields",
          [&] { plan_file::read_from_memory(bytes, "hostile.plan"); });
  };
  check_plan("values", nested({5}, empty(2), kCount));
  check_plan("nodes", nested({5}, empty(3), kCount));
  check_plan("sources", nested({3, 5}, empty(2), kCount));
  check_plan("plans", nested({}, empty(6), kCount));
  check_plan("choices", nested({6}, empty(2), kCount));
  check_plan("pieces", nested({}, empty(7), kCount));
  check_plan("code", nested({}, empty(8), kCount));
  check_plan("kernel variants", nested({4}, empty(4), kCount));
}

TEST_CASE("hostile files: constants out of nothing get a verdict") {
  constexpr const char* kRaise = "raise ImportLimits::generated_elements";
  constexpr std::int64_t kMost = onnx_import::ImportLimits{}.generated_elements;
  const auto made = [](std::int64_t rows, std::int64_t columns) {
    OnnxBuilder builder = network({kDynamic, rows});
    builder.ints("n", {2}, {rows, columns});
    builder.node("ConstantOfShape", {"n"}, {"w"}).attr("value", tensor("", {1}, std::vector<float>{0.5F}));
    return builder;
  };
  OnnxBuilder most = made(4096, kMost / 4096);
  most.node("MatMul", {"x", "w"}, {"y"});
  check_model("the most that nodes may make, and its transposed copy", most, "");
  OnnxBuilder more = made(4096, kMost / 4096 + 1);
  more.node("MatMul", {"x", "w"}, {"y"});
  check_model("more than that", more, kRaise);
  OnnxBuilder copies = made(4096, kMost / 4096);
  for (const char* op : {"Neg", "Abs", "Exp", "Relu"}) copies.node(op, {"w"}, {op});
  copies.node("Add", {"Neg", "Abs"}, {"a"});
  copies.node("Add", {"Exp", "Relu"}, {"b"});
  copies.node("Add", {"a", "b"}, {"c"});
  copies.node("MatMul", {"x", "c"}, {"y"});
  check_model("copies of it", copies, "bytes of memory");
  for (const std::string op : {"Add", "Sub", "Mul", "Div"}) {
    if (kThreadSanitized && op != "Add") continue;
    OnnxBuilder scalar = network({kDynamic, 2000000000});
    scalar.floats("s", {}, {2}).node(op, {"x", "s"}, {"y"});
    check_model("a scalar for billions of channels: " + op, scalar, kRaise);
    OnnxBuilder fits = network({kDynamic, kMost / 2});
    fits.floats("s", {}, {2}).node(op, {"x", "s"}, {"y"});
    check_model("a scalar for as many channels as there may be: " + op, fits, "");
  }
  OnnxBuilder chain = network({kDynamic, 1});
  chain.ints("n", {1}, {on_one_thread(kMost / 2)}).ints("i", {}, {0});
  chain.node("ConstantOfShape", {"n"}, {"c0"}).attr("value", tensor("", {1}, std::vector<float>{1}));
  constexpr int kNodes = kThreadSanitized ? 4000 : 400;
  for (int i = 0; i < kNodes; ++i) chain.node("Neg", {"c" + std::to_string(i)}, {"c" + std::to_string(i + 1)});
  chain.node("Gather", {"c" + std::to_string(kNodes), "i"}, {"e"});
  chain.node("Add", {"x", "e"}, {"y"});
  check_model("a chain of constants", chain, "bytes to compute");
}

TEST_CASE("hostile files: activations without end get a verdict, and an engine says what it would take") {
  OnnxBuilder wide = network({kDynamic, 2147483647, 1, 1});
  wide.node("Relu", {"x"}, {"y"});
  check_model("billions of channels", wide, "");
  const std::string bytes = wide.bytes();
  check("a session of it", bytes.size(), "max_memory_bytes", [&] {
    EngineOptions options;
    options.max_memory_bytes = kMostMemory;
    const Graph graph = onnx_import::load_from_memory(as_bytes(bytes), "hostile.onnx");
    make_cpu_backend()->compile(graph, options)->create_session();
  });
}

TEST_CASE("hostile files: as many nodes as there may be get a verdict") {
  constexpr int kNodes = 65536;
  const auto chain = [](int nodes) {
    OnnxBuilder builder = network({kDynamic, 4, 4, 4});
    std::string value = "x";
    for (int i = 0; i < nodes; ++i) {
      const std::string next = i == nodes - 1 ? "y" : "v" + std::to_string(i);
      builder.node("MaxPool", {value}, {next}).ints("kernel_shape", {1, 1}).ints("strides", {1, 1});
      value = next;
    }
    return builder;
  };
  check_model("pools", chain(on_one_thread(kNodes)), "");
  check_model("one more", chain(kNodes + 1), "number of nodes");
}

}  // namespace mobicuda::test
