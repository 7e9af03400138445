// An input is the length of the model, 4 bytes, the lowest first; the model; and the content of its external data. In
// the model's folder are the files w.bin and sub/w.bin, and ways out of it, none of which may be taken.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLengthBytes = 4;
constexpr std::uint32_t kForeign = 0x4B1DFACE;  // what all of the file outside consists of

fs::path make_folders() {
  const fs::path& root = scratch_folder();
  const std::vector<std::uint32_t> foreign(64, kForeign);
  scratch_file("outside.bin", {reinterpret_cast<const std::uint8_t*>(foreign.data()), foreign.size() * 4});
  fs::create_directories(root / "model/sub");
  fs::create_symlink("../outside.bin", root / "model/link.bin");
  fs::create_directory_symlink("..", root / "model/up");
  fs::create_hard_link(root / "outside.bin", root / "model/hard.bin");
  return root / "model";
}

void check_origin(const Graph& graph) {
  for (const Value& value : graph.values()) {
    if (!value.constant || value.desc.dtype != DType::F32) continue;
    const auto data = value.constant->data<float>();
    if (std::any_of(data.begin(), data.end(), [](float x) { return std::bit_cast<std::uint32_t>(x) == kForeign; })) {
      fail("a file outside of the model's folder was read");
    }
  }
}

std::size_t model_bytes(Bytes input) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<std::uint32_t>(input[i]) << (8 * i);
  return std::min<std::size_t>(length, input.size() - kLengthBytes);
}

bool run(Bytes input) {
  static const fs::path folder = make_folders();
  if (input.size() < kLengthBytes) return false;
  const Bytes model = input.subspan(kLengthBytes, model_bytes(input));
  const Bytes data = input.subspan(kLengthBytes + model.size());
  const auto holds_foreign = [](Bytes bytes) {
    const auto* pattern = reinterpret_cast<const std::uint8_t*>(&kForeign);
    return std::search(bytes.begin(), bytes.end(), pattern, pattern + sizeof kForeign) != bytes.end();
  };
  if (holds_foreign(input)) return false;
  scratch_file("model/w.bin", data);
  scratch_file("model/sub/w.bin", data);
  return returns([&] {
    onnx_import::ImportOptions options;
    options.limits = small_limits();
    check_origin(onnx_import::load(scratch_file("model/m.onnx", model), options));
    // Without a folder there is no external data.
    returns([&] { onnx_import::load_from_memory(std::as_bytes(model), "input", options); });
  });
}

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  constexpr unsigned kPlainOneIn = 4;
  if (size < kLengthBytes || seed % kPlainOneIn == 0) return plain_mutation(data, size, room);
  const std::size_t before = model_bytes({data, size});
  const std::vector<std::uint8_t> behind(data + kLengthBytes + before, data + size);
  const std::size_t after =
      mutate_message(data + kLengthBytes, before, room - kLengthBytes - behind.size(), seed / kPlainOneIn);
  for (std::size_t i = 0; i < kLengthBytes; ++i) data[i] = static_cast<std::uint8_t>(after >> (8 * i));
  std::copy(behind.begin(), behind.end(), data + kLengthBytes + after);
  return kLengthBytes + after + behind.size();
}

}  // namespace

Target onnx_external() { return {run, mutate}; }

}  // namespace mobicuda::fuzz
