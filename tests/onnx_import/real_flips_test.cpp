// Bytes of real models, changed one at a time: the importer accepts the file or throws Error. For minutes, so by hand:
// onnx_import_tests "[.flips]".

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "import_support.h"
#include "support/folders.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

constexpr std::size_t kFlips = 200'000;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// For each byte, whether it is of the elements of an initializer.
std::vector<bool> weight_bytes(const std::string& bytes) {
  schema::ModelProto model;
  REQUIRE(model.ParseFromString(bytes));
  std::vector<bool> is_weight(bytes.size(), false);
  std::size_t from = 0;
  for (const auto& initializer : model.graph().initializer()) {
    const std::string& data = initializer.raw_data();
    if (data.empty()) continue;
    const std::size_t at = bytes.find(data, from);
    REQUIRE(at != std::string::npos);
    std::fill_n(is_weight.begin() + static_cast<std::ptrdiff_t>(at), data.size(), true);
    from = at + data.size();
  }
  return is_weight;
}

struct Tally {
  std::size_t accepted = 0;
  std::size_t refused = 0;
};

void flip(std::string& bytes, std::size_t at, unsigned change, Tally& tally) {
  const char sound = bytes[at];
  bytes[at] = static_cast<char>(static_cast<unsigned char>(sound) ^ change);
  try {
    onnx_import::load_from_memory(as_bytes(bytes), "damaged.onnx");
    ++tally.accepted;
  } catch (const Error& error) {
    ++tally.refused;
    if (error.code() == ErrorCode::internal || std::string_view(error.what()).size() > 2000) {
      FAIL("byte " << at << " ^ " << change << ": " << error.what());
    }
  }
  bytes[at] = sound;
}

void flip_bytes_of(const char* name) {
  const std::filesystem::path path = test::shared_folder() / "models" / name;
  if (!std::filesystem::exists(path)) MOBICUDA_SKIP("no " + path.string());
  std::string bytes = read_file(path);
  const std::vector<bool> is_weight = weight_bytes(bytes);
  Tally structure;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (is_weight[at]) continue;
    flip(bytes, at, 0xFF, structure);
    flip(bytes, at, 1U << at % 8, structure);
  }
  Tally weights;
  std::mt19937 random(1);
  while (structure.accepted + structure.refused + weights.accepted + weights.refused < kFlips) {
    const std::size_t at = random() % bytes.size();
    if (is_weight[at]) flip(bytes, at, 1U << random() % 8, weights);
  }
  WARN(name << ": of the structure " << structure.refused << " changes refused, " << structure.accepted
            << " accepted; of the weights " << weights.refused << " and " << weights.accepted);
  CHECK(structure.refused > 0);
}

}  // namespace

TEST_CASE("damaged files: 200,000 changes of the real MobileNetV2", "[.flips]") {
  flip_bytes_of("mobilenetv2_imagenet_fp32.onnx");
}

TEST_CASE("damaged files: 200,000 changes of the real MobileNetV2 in int8", "[.flips]") {
  flip_bytes_of("mobilenetv2_imagenet_int8_qdq.onnx");
}
