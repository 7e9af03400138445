// Memory that is not there, at each place where the library asks for some.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>

#include <mobicuda/mobicuda.h>

#include "baselines/allocation_count.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/onnx_builder.h"
#include "support/random.h"
#include "support/temporary_folder.h"

// What protobuf loses (below) is no finding of LeakSanitizer's, which asks for this function where it is linked.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:google::protobuf::RepeatedPtrField"; }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace mobicuda::test {
namespace {

// Runs `calls` again and again, each time with another allocation that fails, until there is none left, which is the
// run that must succeed. What a failed run had allocated is given back, but for `lost` pieces.
void check_only_errors(const std::function<void()>& calls, std::int64_t lost = 0) {
  calls();  // what is made once for all is there now
  int errors = 0;
  int escaped = 0;
  std::int64_t most_lost = 0;
  bool failed = true;
  for (std::int64_t succeed = 0; failed; ++succeed) {
    const std::int64_t live = live_allocations();
    fail_allocation_after(succeed);
    try {
      calls();
    } catch (const Error&) {
      ++errors;
    } catch (const std::bad_alloc&) {
      ++escaped;
    }
    failed = fail_allocation_after(-1);
    most_lost = std::max(most_lost, live_allocations() - live);
  }
  CHECK(errors > 0);
  CHECK(escaped == 0);
  CHECK(most_lost <= lost);
}

// Protobuf loses the message that it was about to add to a list where the list finds no memory to grow.
constexpr std::int64_t kLostByProtobuf = 1;

struct Case {
  Case() : backend(make_cpu_backend()), graph(make()) {
    options.threads = 1;
    options.max_batch = 2;
  }

  static Graph make() {
    TestNetwork network(Shape{1, 3, 8, 8});
    network.conv(8, 3, 2, {1, 1, 1, 1}, 1, Activation::relu6());
    network.scale_shift();
    network.head(10);
    return std::move(network).build();
  }

  std::unique_ptr<Backend> backend;
  Graph graph;
  EngineOptions options;
};

std::string model_bytes() {
  OnnxBuilder builder(13);
  builder.input("x", {kDynamic, 3, 8, 8}).output("y");
  builder.floats("w", {8, 3, 3, 3}, random_uniform(3, 216)).floats("s", {8}, random_uniform(4, 8));
  builder.floats("v", {8}, std::vector<float>(8, 1.0F)).floats("fc", {8, 5}, random_uniform(5, 40));
  builder.node("Conv", {"x", "w"}, {"a node with a name that is too long to stand in a string itself"})
      .ints("strides", {2, 2});
  builder.node("BatchNormalization",
               {"a node with a name that is too long to stand in a string itself", "s", "s", "s", "v"}, {"n"});
  builder.node("Relu", {"n"}, {"r"});
  builder.node("GlobalAveragePool", {"r"}, {"g"});
  builder.node("Flatten", {"g"}, {"f"});
  builder.node("MatMul", {"f", "fc"}, {"y"});
  return builder.bytes();
}

TEST_CASE("importing without memory ends in Error, and the next import gives the same network") {
  const std::string bytes = model_bytes();
  const TemporaryFolder folder;
  const auto path = folder.path() / "a model with a name that is too long to stand in a string itself.onnx";
  folder.write(path.filename().string(), bytes);
  const std::string expected = print(onnx_import::load(path));
  std::string last;
  check_only_errors(
      [&] {
        const Graph graph = onnx_import::load(path);
        last = {};
        last = print(graph);
      },
      kLostByProtobuf);
  CHECK(last == expected);
  const std::string name = "a name that is too long to stand in a string itself";
  check_only_errors([&] { onnx_import::load_from_memory(as_bytes(bytes), name); }, kLostByProtobuf);
}

TEST_CASE("compiling, running and saving without memory end in Error") {
  const Case c;
  const auto input = random_uniform(1, 2 * 3 * 8 * 8);
  std::vector<float> output(20);
  check_only_errors([&] { optimize(c.graph); });
  check_only_errors([&] { print(c.graph); });
  check_only_errors([&] { c.backend->compile(c.graph, c.options); });
  const auto engine = c.backend->compile(c.graph, c.options);
  check_only_errors([&] {
    const auto session = engine->create_session();
    session->run(input, output);
    session->set_input(input);
    session->execute(2);
    session->get_output(output);
    session->time_executions(1, 3);
    session->profile(1, 3);
    session->run_staged(1);
  });
  check_only_errors([&] { engine->saved(); });
}

TEST_CASE("plan files without memory end in Error") {
  const Case c;
  const auto engine = c.backend->compile(c.graph, c.options);
  const SavedEngine saved = engine->saved();
  const auto bytes = plan_file::save_to_memory(saved);
  const std::string name = "a name that is too long to stand in a string itself";
  const TemporaryFolder folder;
  const auto path = folder.path() / "net.plan";
  check_only_errors([&] { plan_file::save(*engine, path); }, kLostByProtobuf);
  check_only_errors([&] { plan_file::save_to_memory(saved); }, kLostByProtobuf);
  check_only_errors([&] { plan_file::read_from_memory(bytes, name); }, kLostByProtobuf);
  check_only_errors([&] { plan_file::read(path); }, kLostByProtobuf);
  check_only_errors([&] { c.backend->restore(saved, c.options); });
  check_only_errors([&] { plan_file::load(*c.backend, path, c.options); }, kLostByProtobuf);
}

}  // namespace
}  // namespace mobicuda::test
