#include <algorithm>
#include <fstream>

#include <mobicuda/mobicuda.h>

#include "plan_networks.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace mobicuda::test {
namespace {

TEST_CASE("a loaded engine computes what the saved one does, bit for bit") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp64);
  const bool bytes = GENERATE(false, true);
  CAPTURE(to_string(precision), bytes);
  const TemporaryFolder folder;
  EngineOptions options = cpu_options(precision, 3);
  if (bytes) options.picture_input = PictureInput{{0.01F, 0.02F, 0.03F}, {-1.0F, -2.0F, 0.5F}};
  const auto backend = make_cpu_backend();
  const auto engine = backend->compile(every_operation(), options);
  plan_file::save(*engine, folder.path() / "net.plan");

  options.threads = 2;  // how it runs is the loading program's business
  const auto loaded = plan_file::load(*backend, folder.path() / "net.plan", options);
  CHECK(loaded->backend() == "cpu");
  CHECK(loaded->input() == engine->input());
  CHECK(loaded->output() == engine->output());
  CHECK(loaded->memory().weight_bytes == engine->memory().weight_bytes);
  CHECK(loaded->memory().arena_bytes == engine->memory().arena_bytes);
  REQUIRE(loaded->layers().size() == engine->layers().size());
  for (std::size_t i = 0; i < engine->layers().size(); ++i) {
    CHECK(loaded->layers()[i].name == engine->layers()[i].name);
    CHECK(loaded->layers()[i].kernel == engine->layers()[i].kernel);
    CHECK(loaded->layers()[i].weight_bytes == engine->layers()[i].weight_bytes);
  }
  for (const std::int64_t n : {1, 3}) CHECK(outputs_of(*loaded, n) == outputs_of(*engine, n));
}

TEST_CASE("a plan file keeps the graph, its names and its origins") {
  const auto engine = make_cpu_backend()->compile(every_operation(), cpu_options());
  const SavedEngine saved = engine->saved();
  const auto bytes = plan_file::save_to_memory(saved);
  const SavedEngine read = plan_file::read_from_memory(bytes, "plan");
  CHECK(read.backend == "cpu");
  CHECK(read.processor == saved.processor);
  CHECK(read.pieces == saved.pieces);
  CHECK(print(read.graph) == print(saved.graph));
  REQUIRE(read.graph.nodes().size() == saved.graph.nodes().size());
  for (std::size_t i = 0; i < read.graph.nodes().size(); ++i) {
    CHECK(read.graph.nodes()[i].origin.describe() == saved.graph.nodes()[i].origin.describe());
  }
  CHECK(std::ranges::equal(read.weights.span(), saved.weights.span()));
}

TEST_CASE("saving what was loaded gives the same file") {
  const auto backend = make_cpu_backend();
  const auto engine = backend->compile(every_operation(), cpu_options());
  const auto bytes = plan_file::save_to_memory(engine->saved());
  const auto loaded = backend->restore(plan_file::read_from_memory(bytes, "plan"), cpu_options());
  CHECK(plan_file::save_to_memory(loaded->saved()) == bytes);
}

TEST_CASE("an engine keeps working when the saved one it came from is gone") {
  const auto backend = make_cpu_backend();
  std::shared_ptr<const Engine> loaded;
  std::vector<float> expected;
  {
    const auto engine = backend->compile(small_network(), cpu_options());
    expected = outputs_of(*engine, 1);
    SavedEngine saved = engine->saved();
    loaded = backend->restore(saved, cpu_options());
    saved.weights = {};
  }
  CHECK(outputs_of(*loaded, 1) == expected);
}

TEST_CASE("a saved graph has no weights, and says so") {
  const SavedEngine saved = make_cpu_backend()->compile(small_network(), cpu_options())->saved();
  const auto& values = saved.graph.values();
  const auto constant =
      std::find_if(values.begin(), values.end(), [](const Value& value) { return value.constant != nullptr; });
  REQUIRE(constant != values.end());
  CHECK(contains(refusal([&] { static_cast<void>(constant->constant->data<float>()); }).second, "and no elements"));
}

TEST_CASE("a plan that cannot be written leaves nothing behind") {
  const TemporaryFolder folder;
  const auto engine = make_cpu_backend()->compile(small_network(), cpu_options());
  CHECK(contains(refusal([&] { plan_file::save(*engine, folder.path() / "absent" / "net.plan"); }).second,
                 "cannot be written"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace mobicuda::test
