// Reads that fall short, are interrupted, or find another file than the one that was opened.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "faults/system_calls.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/onnx_builder.h"
#include "support/temporary_folder.h"
#include "support/texts.h"
#include "timing/timing_cache.h"

namespace mobicuda::test {
namespace {

namespace fs = std::filesystem;

// Weights in the file, or beside it in w.bin.
std::string model(bool external) {
  OnnxBuilder builder(13);
  builder.input("x", {kDynamic, 3, 8, 8}).output("y");
  const std::vector<float> values = random_uniform(3, 4096 * 3);
  if (external) {
    auto& weight = *builder.graph().add_initializer();
    weight.set_name("w");
    weight.set_data_type(schema::TensorProto::FLOAT);
    for (const int dim : {4096, 3, 1, 1}) weight.add_dims(dim);
    weight.set_data_location(schema::TensorProto::EXTERNAL);
    auto& entry = *weight.add_external_data();
    entry.set_key("location");
    entry.set_value("w.bin");
  } else {
    builder.floats("w", {4096, 3, 1, 1}, values);
  }
  builder.node("Conv", {"x", "w"}, {"y"});
  return builder.bytes();
}

std::string weight_file() { return raw_bytes(random_uniform(3, 4096 * 3)); }

std::vector<std::byte> plan_bytes() {
  TestNetwork network(Shape{1, 3, 8, 8});
  network.conv(4096, 1);
  network.head(10);
  return plan_file::save_to_memory(make_cpu_backend()->compile(std::move(network).build(), {})->saved());
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

float first_weight(const Graph& graph) {
  for (const Value& value : graph.values()) {
    if (value.constant) return value.constant->data<float>()[0];
  }
  return 0;
}

// Runs `read` with the file changed before each of its reads in turn, in each way, until a change comes too late. It
// must give what the old or the new file holds, or an Error of what was found.
template <class Read>
int check_changes(const fs::path& file, const std::string& content, const Read& read) {
  const std::string other(content.size(), 'x');
  const std::function<void()> changes[] = {
      [&] { fs::resize_file(file, content.size() / 2); },
      [&] { fs::resize_file(file, 0); },
      [&] { fs::resize_file(file, content.size() * 2); },
      [&] { std::ofstream(file, std::ios::binary) << other; },
      [&] { fs::remove(file); },
  };
  int changed = 0;
  for (const auto& change : changes) {
    bool again = true;
    for (int at = 0; again; ++at) {
      std::ofstream(file, std::ios::binary) << content;
      again = false;
      const ObstinateCalls calls(content.size() / 8 + 1, [&](int number) {
        if (number != at) return;
        change();
        again = true;
        ++changed;
      });
      try {
        read();
      } catch (const Error& error) {
        CHECK((error.code() == ErrorCode::io || error.code() == ErrorCode::invalid_model));
        CHECK(contains(error.what(), file.filename().string()));
      }
    }
  }
  return changed;
}

}  // namespace

TEST_CASE("short and interrupted reads give the whole file") {
  const TemporaryFolder folder;
  folder.write("in.onnx", model(false));
  folder.write("ex.onnx", model(true));
  folder.write("w.bin", weight_file());
  folder.write("net.plan", as_text(plan_bytes()));
  const Graph expected = onnx_import::load(folder.path() / "in.onnx");
  {
    TimingCache times(folder.path() / "times");
    for (int i = 0; i < 100; ++i) times.add("a|b|c|d|e|f", "kernel " + std::to_string(i), 1.0 + i);
    times.save();
  }
  for (const std::size_t most : {std::size_t{1}, std::size_t{7}, std::size_t{4096}}) {
    CAPTURE(most);
    const ObstinateCalls calls(most);
    for (const char* name : {"in.onnx", "ex.onnx"}) {
      const Graph graph = onnx_import::load(folder.path() / name);
      CHECK(print(graph) == print(expected));
      CHECK(first_weight(graph) == first_weight(expected));
    }
    CHECK(plan_file::save_to_memory(plan_file::read(folder.path() / "net.plan")) == plan_bytes());
    CHECK(TimingCache(folder.path() / "times").find("a|b|c|d|e|f", "kernel 99") == 100.0);
    CHECK(calls.interrupted() > 0);
    CHECK(calls.fell_short() > 0);
  }
}

TEST_CASE("files that change while they are read give what they held, or an Error") {
  const TemporaryFolder folder;
  const fs::path onnx = folder.path() / "in.onnx";
  CHECK(check_changes(onnx, model(false), [&] { onnx_import::load(onnx); }) >= 5);
  folder.write("ex.onnx", model(true));
  CHECK(check_changes(folder.path() / "w.bin", weight_file(), [&] { onnx_import::load(folder.path() / "ex.onnx"); }) >=
        5);
  const fs::path plan = folder.path() / "net.plan";
  CHECK(check_changes(plan, as_text(plan_bytes()), [&] { plan_file::read(plan); }) >= 5);
}

}  // namespace mobicuda::test
