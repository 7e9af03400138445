#include <algorithm>
#include <fstream>

#include <sys/stat.h>

#include <mobicuda/mobicuda.h>

#include "plan_networks.h"
#include "support/catch.h"
#include "support/sanitizer.h"
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

TEST_CASE("a plan file keeps the code of specialised kernels, whatever bytes it has") {
  SavedEngine saved = make_cpu_backend()->compile(every_operation(), cpu_options())->saved();
  std::string image;
  for (int i = 0; i < 1000; ++i) image += static_cast<char>(i % 256);
  saved.code = {{"kernels/a.cuh", "a<1>", "_Z1a", image, "hash"}, {"kernels/b.cuh", "b<2>", "_Z1b", "", "hash"}};
  CHECK(plan_file::read_from_memory(plan_file::save_to_memory(saved), "plan").code == saved.code);
}

TEST_CASE("names of a plan file are printable when they are read") {
  TestNetwork net(Shape{1, 3, 4, 4});
  net.conv(2, 1, 1, {}, 1, {}, "\x1b]0;title\x07");
  const auto backend = make_cpu_backend();
  SavedEngine saved = backend->compile(std::move(net).build(), cpu_options())->saved();
  const auto read = plan_file::read_from_memory(plan_file::save_to_memory(saved), "plan");
  const auto engine = backend->restore(read, cpu_options());
  bool found = false;
  for (const LayerInfo& layer : engine->layers()) {
    CHECK(layer.name == printable(layer.name));
    CHECK(layer.value == printable(layer.value));
    found = found || layer.name == "\\x1b]0;title\\x07";
  }
  CHECK(found);
  saved.processor = "\x1b[31mred";
  const auto other = plan_file::read_from_memory(plan_file::save_to_memory(saved), "\x1b[1m");
  CHECK(contains(refusal([&] { backend->restore(other, cpu_options()); }).second, "was made for \\x1b[31mred"));
  const std::vector<std::byte> nothing;
  CHECK(
      refusal([&] { plan_file::read_from_memory(nothing, "\x1b[1m"); }).second.starts_with("invalid_model: \\x1b[1m"));
}

TEST_CASE("what is saved can be read, and what cannot be read is not saved") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "net.plan";
  const auto backend = make_cpu_backend();
  constexpr int kNodes = on_one_thread(65536);  // as many as there may be
  TestNetwork longest(Shape{1, 2, 2, 2});
  for (int i = 0; i < kNodes; ++i) longest.add(Unary{}, {longest.last()});
  plan_file::save(*backend->compile(std::move(longest).build(), cpu_options()), path);
  CHECK(plan_file::load(*backend, path, cpu_options())->layers().size() == kNodes + 2);  // layout, at both ends
  TestNetwork nothing(Shape{1, 2});
  nothing.add(Identity{}, {nothing.last()});
  plan_file::save(*backend->compile(std::move(nothing).build(), cpu_options()), path);
  CHECK_NOTHROW(plan_file::load(*backend, path, cpu_options()));
  std::filesystem::remove(path);
  TestNetwork named(Shape{1, 2});
  named.add(Unary{}, {named.last()}, std::string(65537, 'n'));
  const auto engine = backend->compile(std::move(named).build(), cpu_options());
  const auto [code, text] = refusal([&] { plan_file::save(*engine, path); });
  CHECK(code == ErrorCode::unsupported);
  CHECK(contains(text,
                 "the cpu engine: cannot be saved, as no plan file may have it: bytes of a name: must be 0 to 65536"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a plan that cannot be written says why") {
  const auto engine = make_cpu_backend()->compile(every_operation(), cpu_options());
  const TemporaryFolder folder;
  CHECK(contains(refusal([&] { plan_file::save(*engine, folder.path() / "absent" / "net.plan"); }).second,
                 "cannot be written: No such file or directory"));
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

TEST_CASE("a plan replaces a regular file, and goes where a symbolic link leads") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const auto engine = make_cpu_backend()->compile(small_network(), cpu_options());
  fs::create_directory(folder.path() / "plans");
  std::ofstream(folder.path() / "plans" / "old.plan") << "what was there";
  fs::create_symlink("old.plan", folder.path() / "plans" / "latest.plan");
  fs::create_symlink(fs::path("plans") / "latest.plan", folder.path() / "net.plan");  // a link to a link
  fs::create_symlink(fs::path("plans") / "new.plan", folder.path() / "first.plan");   // to no file yet
  for (const auto& [link, target] : {std::pair{"net.plan", "old.plan"}, std::pair{"first.plan", "new.plan"}}) {
    CAPTURE(link);
    plan_file::save(*engine, folder.path() / link);
    CHECK(fs::is_symlink(folder.path() / link));
    CHECK(fs::is_regular_file(fs::symlink_status(folder.path() / "plans" / target)));
    CHECK(plan_file::read(folder.path() / "plans" / target).backend == "cpu");
  }
  CHECK(fs::is_symlink(folder.path() / "plans" / "latest.plan"));
  CHECK(std::distance(fs::directory_iterator(folder.path() / "plans"), {}) == 3);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 3);
}

TEST_CASE("a plan does not take the place of what is no regular file") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const auto engine = make_cpu_backend()->compile(small_network(), cpu_options());
  const fs::path fifo = folder.path() / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  fs::create_symlink("fifo", folder.path() / "link");
  fs::create_symlink("loop", folder.path() / "loop");
  fs::create_directory(folder.path() / "folder");
  for (const auto& [name, why] : {std::pair{"fifo", "not a regular file"}, std::pair{"link", "not a regular file"},
                                  std::pair{"folder", "is a folder"}, std::pair{"loop", "symbolic links"}}) {
    CAPTURE(name);
    const fs::path path = folder.path() / name;
    const std::string message = refusal([&] { plan_file::save(*engine, path); }).second;
    CAPTURE(message);
    CHECK(contains(message, path.string()));
    CHECK(contains(message, why));
  }
  CHECK(fs::is_fifo(fs::symlink_status(fifo)));
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(fs::is_empty(folder.path() / "folder"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 4);
}

}  // namespace
}  // namespace mobicuda::test
