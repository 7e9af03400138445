// Damaged files: whatever byte is changed, cut out or put in, the importer accepts the file or throws Error.

#include <algorithm>
#include <cstdint>
#include <random>

#include "import_support.h"
#include "support/sanitizer.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

// A little of everything: window attributes, a shape chain, typed and raw payloads, constants, two opsets' forms.
std::string victim() {
  OnnxBuilder builder = network(13, {kDynamic, 3, 6, 6});
  builder.floats("w", {4, 3, 3, 3}, std::vector<float>(108, 0.5F)).floats("b", {4}, {1, 2, 3, 4});
  builder.floats("s", {4}, {1, 1, 1, 1})
      .floats("fc", {4, 5}, std::vector<float>(20, 1))
      .floats("bias", {5}, {1, 2, 3, 4, 5});
  builder.floats("lo", {}, {0}).floats("hi", {}, {6});
  auto& typed = *builder.graph().add_initializer();
  typed.set_name("zero");
  typed.set_data_type(onnx_schema::TensorProto::INT64);
  typed.add_dims(1);
  typed.add_int64_data(0);
  builder.node("Conv", {"x", "w", "b"}, {"c"}, "conv")
      .ints("kernel_shape", {3, 3})
      .ints("strides", {2, 2})
      .ints("pads", {0, 0, 1, 1})
      .ints("dilations", {1, 1})
      .attr("group", 1);
  builder.node("BatchNormalization", {"c", "s", "b", "b", "s"}, {"n"}).attr("epsilon", 1e-3F);
  builder.node("Clip", {"n", "lo", "hi"}, {"r"});
  builder.node("Add", {"r", "n"}, {"a"});
  builder.node("ReduceMean", {"a"}, {"m"}).ints("axes", {2, 3}).attr("keepdims", 1);
  builder.node("Shape", {"m"}, {"shape"});
  builder.node("Gather", {"shape", "zero"}, {"batch"}).attr("axis", 0);
  builder.node("Constant", {}, {"rest"}).attr("value", tensor("", {1}, std::vector<std::int64_t>{-1}));
  builder.node("Concat", {"batch", "rest"}, {"target"}).attr("axis", 0);
  builder.node("Reshape", {"m", "target"}, {"f"});
  builder.node("MatMul", {"f", "fc"}, {"p"});
  builder.node("Add", {"p", "bias"}, {"l"});
  builder.node("Softmax", {"l"}, {"y"}).attr("axis", 1);
  return builder.bytes();
}

struct Tally {
  int accepted = 0;
  int refused = 0;
};

void attack(const std::string& bytes, Tally& tally) {
  try {
    onnx_import::load_from_memory(as_bytes(bytes), "damaged.onnx");
    ++tally.accepted;
  } catch (const Error& error) {
    ++tally.refused;
    const bool open_extent =
        error.code() == ErrorCode::invalid_argument && error.hint().starts_with("set ImportOptions::picture_shape");
    if (error.code() == ErrorCode::internal || (error.code() == ErrorCode::invalid_argument && !open_extent)) {
      FAIL("not the file's fault: " << error.what());
    }
    if (std::string(error.what()).size() > 2000) FAIL("a message of " << std::string(error.what()).size() << " bytes");
  }
}

}  // namespace

TEST_CASE("damaged files: the undamaged one is read") {
  CHECK(ops(onnx_import::load_from_memory(as_bytes(victim()), "sound.onnx")) ==
        "Conv2d ScaleShift Clip Add GlobalAveragePool Reshape Gemm Softmax");
}

TEST_CASE("damaged files: every byte changed in several ways") {
  const std::string sound = victim();
  Tally tally;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    if (kThreadSanitized && i % 10 != 0) continue;
    for (const int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF}) {
      std::string damaged = sound;
      damaged[i] = static_cast<char>(static_cast<unsigned char>(damaged[i]) ^ static_cast<unsigned>(change));
      attack(damaged, tally);
    }
  }
  CHECK(tally.accepted > 0);
  CHECK(tally.refused > on_one_thread(1000));
}

TEST_CASE("damaged files: cut off at every byte, and every byte left out or doubled") {
  const std::string sound = victim();
  Tally tally;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    attack(sound.substr(0, i), tally);
    attack(sound.substr(0, i) + sound.substr(i + 1), tally);
    attack(sound.substr(0, i) + sound.substr(i > 0 ? i - 1 : 0), tally);
  }
  CHECK(tally.refused > 1000);
}

TEST_CASE("damaged files: pieces exchanged at random") {
  const std::string sound = victim();
  constexpr std::uint32_t kSeed = 20240229;
  std::mt19937 random(kSeed);
  Tally tally;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = sound;
    for (int edit = 0; edit < 3; ++edit) {
      const std::size_t from = random() % sound.size();
      const std::size_t to = random() % sound.size();
      const std::size_t length = 1 + random() % 12;
      damaged.replace(std::min(to, damaged.size()), length, sound.substr(from, length));
    }
    attack(damaged, tally);
  }
  CHECK(tally.refused > 1000);
}
