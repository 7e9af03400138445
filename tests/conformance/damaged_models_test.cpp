// ONNX's test models, damaged: between them they have every operator and every type of the format. Whatever is changed,
// the importer reads the file or throws Error.

#include <algorithm>
#include <random>
#include <span>

#include <mobicuda/error.h>
#include <mobicuda/onnx_import.h>

#include "onnx_case.h"
#include "support/catch.h"
#include "support/sanitizer.h"

using namespace mobicuda;
using namespace mobicuda::conformance;

namespace {

constexpr std::size_t kLargestBytes = 20000;
constexpr int kRounds = mobicuda::test::on_one_thread(12);

// Changes of single bits, and pieces of the file put where others were.
std::string damage(std::string bytes, std::mt19937& random) {
  const std::string sound = bytes;
  const auto edits = 1 + random() % 3;
  for (std::size_t edit = 0; edit < edits; ++edit) {
    const std::size_t at = random() % sound.size();
    if (random() % 2 == 0) {
      char& byte = bytes[at % bytes.size()];
      byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (random() % 8)));
    } else {
      const std::size_t from = random() % sound.size();
      bytes.replace(std::min(at, bytes.size()), 1 + random() % 12, sound.substr(from, 1 + random() % 12));
    }
  }
  return bytes;
}

bool is_the_files_fault(const Error& error) {
  const bool open_extent = error.hint().starts_with("set ImportOptions::picture_shape");
  return error.code() != ErrorCode::internal && (error.code() != ErrorCode::invalid_argument || open_extent);
}

}  // namespace

TEST_CASE("damaged test models of ONNX are read or refused") {
  const std::vector<CaseFolder> folders = list_cases(MOBICUDA_ONNX_TESTDATA);
  if (folders.empty()) MOBICUDA_SKIP("no ONNX test models in " MOBICUDA_ONNX_TESTDATA);
  constexpr std::uint32_t kSeed = 20240229;
  std::mt19937 random(kSeed);
  int accepted = 0;
  int refused = 0;
  for (const CaseFolder& folder : folders) {
    const std::vector<OnnxCase> cases = read_cases(folder);
    const std::string sound = cases.empty() ? std::string() : cases.front().model.SerializeAsString();
    if (sound.empty() || sound.size() > kLargestBytes) continue;
    for (int round = 0; round < kRounds; ++round) {
      const std::string bytes = damage(sound, random);
      CAPTURE(folder.name, round);
      try {
        onnx_import::load_from_memory(std::as_bytes(std::span(bytes.data(), bytes.size())), "damaged.onnx");
        ++accepted;
      } catch (const Error& error) {
        ++refused;
        if (!is_the_files_fault(error)) FAIL("not the file's fault: " << error.what());
      }
    }
  }
  CHECK(accepted > mobicuda::test::on_one_thread(100));
  CHECK(refused > mobicuda::test::on_one_thread(1000));
}
