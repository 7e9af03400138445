#include "bench_engine/tensors/timed_input.h"

#include "bench_engine/model/exit_codes.h"
#include "bench_engine/tensors/tensor_file.h"
#include "fake_session.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

// Pictures of 1 x 2 x 3 with two classes, and files of float32 beside them.
struct Setup {
  TemporaryFolder folder;
  Options options;
  ModelInfo model;

  Setup() {
    model.input.shape = Shape{1, 1, 2, 3};
    model.output.shape = Shape{1, 2};
  }

  std::filesystem::path file(const std::string& name, const std::vector<std::int64_t>& shape) const {
    std::size_t elements = 1;
    for (const std::int64_t extent : shape) elements *= static_cast<std::size_t>(extent);
    save_tensor(folder.path() / name, shape, std::vector<float>(elements, 1.0F));
    return folder.path() / name;
  }

  TimedInput make() const { return {options, model}; }
};

}  // namespace

TEST_CASE("input files have the shape of the model's input", "[timed_input]") {
  Setup setup;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{4, 1, 2, 3}, {1, 2, 3}, {4, 2, 3}}) {
    CAPTURE(shape);
    setup.options.load_inputs = setup.file("in.npy", shape);
    CHECK_NOTHROW(setup.make());
  }
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{4, 2, 3, 1, 2}, {3, 2}, {4, 1, 3, 2}, {6}}) {
    CAPTURE(shape);
    setup.options.load_inputs = setup.file("in.npy", shape);
    CHECK_THROWS_WITH(setup.make(), contains("in.npy: expected shape [N, 1, 2, 3], got ["));
  }
  setup.options.load_inputs = setup.file("in.f32", {7});
  CHECK_THROWS_WITH(setup.make(), contains("not whole pictures of 6"));
  setup.options.load_inputs = setup.file("in.f32", {12});
  CHECK_NOTHROW(setup.make());
}

TEST_CASE("pictures take the place of random numbers, where there are some", "[timed_input]") {
  Setup setup;
  TimedInput input = setup.make();
  CHECK_THROWS_WITH(input.take({}), contains("none of the pictures"));
  const std::vector<float> two{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  input.take(two);
  input.make(3);
  std::vector<float> three = two;  // starting over
  three.insert(three.end(), two.begin(), two.begin() + 6);
  const auto engine = fake_engine({1}, setup.model.input.shape);
  const auto session = engine->create_session();
  input.set(*session);
  CHECK(engine->calls().input == three);
  input.stage(*session);
  const auto staged = session->staged_input(3);
  CHECK(std::vector<float>(staged.begin(), staged.end()) == three);
  input.make(1);
  input.set(*session);
  CHECK(engine->calls().input == std::vector<float>(two.begin(), two.begin() + 6));
}

TEST_CASE("pictures arrive as bytes where the network takes bytes", "[timed_input]") {
  Setup setup;
  setup.options.pictures = true;
  TimedInput input = setup.make();
  const std::vector<float> one{0, 1, 127, 128, 254, 255};
  input.take(one);
  input.make(2);
  std::vector<float> two = one;
  two.insert(two.end(), one.begin(), one.end());
  const auto engine = fake_engine({1}, setup.model.input.shape, true);
  const auto session = engine->create_session();
  input.set(*session);
  CHECK(engine->calls().input == two);
  input.stage(*session);
  const auto staged = session->staged_pictures(2);
  CHECK(std::vector<float>(staged.begin(), staged.end()) == two);
}

TEST_CASE("bytes are fed as bytes only, height, width, channels", "[timed_input]") {
  Setup setup;
  setup.model.input.shape = Shape{1, 3, 2, 2};
  setup.options.load_inputs = setup.folder.path() / "in.npy";
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 3), }\n";
  setup.folder.write("in.npy", std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) +
                                   std::string(1, '\0') + header + std::string(12, '\xFF'));
  CHECK_THROWS_WITH(setup.make(), contains("--input uint8"));
  setup.options.pictures = true;
  CHECK_NOTHROW(setup.make());
  setup.options.load_inputs = setup.file("in2.npy", {1, 3, 2, 2});
  CHECK_THROWS_WITH(setup.make(), contains("expected shape [N, 2, 2, 3]"));
}

TEST_CASE("golden outputs are as many as the pictures of the batch or the input", "[timed_input]") {
  Setup setup;
  setup.options.batches = {1, 4};
  setup.options.golden = setup.file("golden.npy", {3, 2});
  CHECK_THROWS_WITH(setup.make(), contains("golden.npy: expected the outputs of 4 pictures, got 3"));
  setup.options.load_inputs = setup.file("in.npy", {3, 1, 2, 3});
  CHECK_NOTHROW(setup.make());
  setup.options.load_inputs = setup.file("in.npy", {2, 1, 2, 3});
  CHECK_THROWS_WITH(setup.make(), contains("of 2 pictures as in --loadInputs, got 3"));
  setup.options.load_inputs.clear();
  setup.options.golden = setup.file("golden.npy", {4, 3});
  CHECK_THROWS_WITH(setup.make(), contains("golden.npy: expected shape [N, 2], got [4, 3]"));
}

TEST_CASE("outputs are compared where there are golden ones", "[timed_input]") {
  Setup setup;
  const std::vector<float> output{1, 3};
  TimedInput without = setup.make();
  without.make(1);
  CHECK_FALSE(without.compare(output).has_value());
  setup.options.golden = setup.file("golden.npy", {1, 2});
  TimedInput with = setup.make();
  with.make(1);
  REQUIRE(with.compare(output).has_value());
  CHECK(with.compare(output)->max_abs == 2);
}
