// Files may have 65,536 nodes: what compiling takes must grow with their number, not with its square.

#include <ctime>

#include <algorithm>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "support/catch.h"
#include "support/graphs.h"
#include "support/sanitizer.h"

namespace mobicuda {
namespace {

using test::TestNetwork;

constexpr int kShort = test::kThreadSanitized ? 150 : test::kSanitized ? 400 : 4000;
constexpr int kLong = 15 * kShort;
// The square would be 15 times 15. Memory outgrows caches meanwhile, and other programs use them too.
constexpr double kMostTimes = 4 * 15;

// Of this thread, so that other programs' use of the processor does not count.
double cpu_seconds() {
  timespec now{};
  REQUIRE(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Whether `work(nodes)` takes time in proportion to the number, by and large.
template <class Work>
bool grows_with(Work&& work) {
  const auto seconds = [&](int nodes) {
    const double start = cpu_seconds();
    work(nodes);
    return cpu_seconds() - start;
  };
  constexpr int kAgain = 2;  // a core that another program shares takes twice as long, now and then
  double few = seconds(kShort);
  for (int again = 0; again < kAgain; ++again) few = std::min(few, seconds(kShort));
  double many = seconds(kLong);
  for (int again = 0; again < kAgain && many > kMostTimes * few; ++again) many = std::min(many, seconds(kLong));
  INFO(kShort << " nodes take " << few << " s, " << kLong << " take " << many << " s");
  CHECK(many <= kMostTimes * few);
  return many <= kMostTimes * few;
}

// `add(network)` so often, in a row.
template <class Add>
Graph chain(int nodes, Add&& add) {
  TestNetwork network(Shape{1, 2, 2, 2});
  for (int i = 0; i < nodes; ++i) add(network);
  return std::move(network).build();
}

TEST_CASE("compiling a chain of 60,000 nodes takes time in proportion to their number") {
  CHECK(grows_with([](int nodes) {
    const Graph graph = chain(nodes, [](TestNetwork& network) { network.add(Unary{}, {network.last()}); });
    EngineOptions options;
    options.threads = 1;
    const auto engine = make_cpu_backend()->compile(graph, options);
    CHECK(static_cast<int>(engine->layers().size()) == nodes + 2);  // and a change of layout at either end
  }));
}

// All values of half of the nodes live at the same time.
Graph nested_residuals(int nodes) {
  TestNetwork network(Shape{1, 2, 2, 2});
  std::vector<ValueId> skipped;
  for (int i = 0; i < nodes / 2; ++i) {
    skipped.push_back(network.last());
    network.add(Unary{}, {network.last()});
  }
  for (; !skipped.empty(); skipped.pop_back()) network.add(Add{}, {network.last(), skipped.back()});
  return std::move(network).build();
}

// The same, and while the other half is computed only every third value lives: there are gaps everywhere.
Graph branches_with_gaps(int nodes) {
  TestNetwork network(Shape{1, 2, 2, 2});
  const ValueId x = network.last();
  std::vector<ValueId> long_lived;
  std::vector<ValueId> read_at_once;
  for (int i = 0; i < nodes / 2; ++i) {
    (i % 3 == 0 ? long_lived : read_at_once).push_back(network.add(Unary{}, {x}));
  }
  network.add(Concat{}, read_at_once);
  network.add(Slice{1, 0, 2}, {network.last()});
  for (int i = 0; i < nodes / 2; ++i) network.add(Unary{}, {network.last()});
  long_lived.push_back(network.last());
  network.add(Concat{}, long_lived);
  return std::move(network).build();
}

TEST_CASE("compiling 60,000 nodes whose values live together takes time in proportion to their number") {
  const auto make = GENERATE(nested_residuals, branches_with_gaps);
  CHECK(grows_with([&](int nodes) {
    EngineOptions options;
    options.threads = 1;
    const auto engine = make_cpu_backend()->compile(make(nodes), options);
    CHECK(static_cast<int>(engine->layers().size()) >= nodes);
  }));
}

TEST_CASE("a run of a Concat of 60,000 inputs takes time in proportion to their number") {
  CHECK(grows_with([](int nodes) {
    TestNetwork network(Shape{1, 1});
    network.add(Concat{}, std::vector<ValueId>(static_cast<std::size_t>(nodes), network.last()));
    EngineOptions options;
    options.threads = 1;
    const auto session = make_cpu_backend()->compile(std::move(network).build(), options)->create_session();
    const std::vector<float> input(1, 2.0F);
    std::vector<float> output(static_cast<std::size_t>(nodes));
    for (int i = 0; i < 3; ++i) session->run(input, output);
    CHECK(output.back() == 2.0F);
  }));
}

TEST_CASE("a convolution and 60,000 scales behind it become one in time in proportion to their number") {
  const bool behind = GENERATE(true, false);
  CHECK(grows_with([&](int nodes) {
    TestNetwork network(Shape{1, 2, 2, 2});
    const ValueId scale = network.constant(Shape{2}, 0.999F, 1.001F);
    const ValueId shift = network.constant(Shape{2}, -0.001F, 0.001F);
    if (behind) network.conv(2, 1);
    for (int i = 0; i < nodes; ++i) network.add(ScaleShift{}, {network.last(), scale, shift});
    if (!behind) network.conv(2, 1);
    const Graph graph = optimize(std::move(network).build());
    CHECK(test::count_of<ScaleShift>(graph) == 0);
    CHECK(test::count_of<Conv2d>(graph) == 1);
  }));
}

TEST_CASE("passes over chains of what they join take time in proportion to the number of nodes") {
  const int kind = GENERATE(range(0, 5));
  CHECK(grows_with([&](int nodes) {
    const Graph graph = chain(nodes, [&](TestNetwork& network) {
      const ValueId x = network.last();
      if (kind == 0) network.add(Clip{Activation::relu()}, {x});
      if (kind == 1) network.add(Transpose{{0, 1, 3, 2}}, {x});
      if (kind == 2) network.add(Mul{}, {x, network.add(Unary{}, {x})});
      if (kind == 3) network.add(Identity{}, {x});
      if (kind == 4) network.add(Add{}, {network.conv(2, 1), x});
    });
    CHECK(optimize(graph).nodes().size() <= graph.nodes().size() + 2);  // a change of layout at either end
  }));
}

}  // namespace
}  // namespace mobicuda
