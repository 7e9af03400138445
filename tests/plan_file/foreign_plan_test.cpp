// Whole plan files that are not for this program, machine or question.
#include <cstring>
#include <functional>

#include <mobicuda/mobicuda.h>

#include "plan_file/frame.h"
#include "plan_networks.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace mobicuda::test {
namespace {

SavedEngine small_saved() { return make_cpu_backend()->compile(small_network(), cpu_options())->saved(); }

void check_refused(const SavedEngine& saved, const EngineOptions& options, ErrorCode code, const std::string& says) {
  const auto [got, text] = refusal([&] { make_cpu_backend()->restore(saved, options); });
  CHECK(got == code);
  CHECK(contains(text, says));
}

// Implementations that cannot be saved, as cudnn.
class PlainEngine final : public Engine {
 public:
  PlainEngine() : Engine(cpu_options(), {}, {}) {}
  std::string_view backend() const noexcept override { return "plain"; }
  MemoryReport memory() const noexcept override { return {}; }

 private:
  std::span<const LayerInfo> do_layers(std::int64_t /*n*/) const noexcept override { return {}; }
  std::unique_ptr<Session> do_create_session() const override { return nullptr; }
};

class PlainBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "plain"; }
  std::optional<std::string> why_unsupported(const Graph&, const Node&, const EngineOptions&) const override {
    return std::nullopt;
  }
  std::shared_ptr<const Engine> compile(const Graph&, const EngineOptions&) const override { return nullptr; }
};

TEST_CASE("implementations that cannot be saved say so by name") {
  const TemporaryFolder folder;
  auto [code, text] = refusal([&] { plan_file::save(PlainEngine(), folder.path() / "net.plan"); });
  CHECK(code == ErrorCode::unsupported);
  CHECK(contains(text, "the plain engine: cannot be saved"));
  CHECK(std::filesystem::is_empty(folder.path()));
  std::tie(code, text) = refusal([] { PlainBackend().restore(small_saved(), cpu_options()); });
  CHECK(code == ErrorCode::unsupported);
  CHECK(contains(text, "the plain engine: cannot be loaded"));
}

TEST_CASE("an engine of another implementation or processor is refused") {
  SavedEngine saved = small_saved();
  saved.backend = "custom";
  check_refused(saved, cpu_options(), ErrorCode::unsupported, "is of the implementation 'custom', not of 'cpu'");
  saved = small_saved();
  saved.processor = "a CPU with sse9";
  check_refused(saved, cpu_options(), ErrorCode::unsupported, "was made for a CPU with sse9, this is a CPU with");
}

TEST_CASE("options that a saved engine was not compiled with are refused") {
  const SavedEngine saved = small_saved();
  EngineOptions options = cpu_options(Precision::Fp64);
  check_refused(saved, options, ErrorCode::invalid_argument, "precision fp32, asked for is fp64");
  options = cpu_options(Precision::Fp32, 2);
  check_refused(saved, options, ErrorCode::invalid_argument, "max_batch 1, asked for is 2");
  options = cpu_options();
  options.picture_input.emplace();
  check_refused(saved, options, ErrorCode::invalid_argument, "picture_input absent (floats), asked for is bytes");
  options = cpu_options();
  options.kernel_variants["gemm"] = "simt";
  check_refused(saved, options, ErrorCode::invalid_argument, "kernel_variants");
  options = cpu_options();
  options.plan_batches = std::vector<std::int64_t>{1};
  check_refused(saved, options, ErrorCode::invalid_argument, "plan_batches chosen by itself, asked for is 1");
  options = cpu_options();
  options.timing_cache = "times";
  check_refused(saved, options, ErrorCode::invalid_argument, "timing_cache");
}

TEST_CASE("weights that are not those of the layers are refused") {
  SavedEngine saved = small_saved();
  saved.pieces.front().bytes += 4;
  check_refused(saved, cpu_options(), ErrorCode::invalid_model, "packed weight 0: should have");
  saved = small_saved();
  saved.pieces.pop_back();
  check_refused(saved, cpu_options(), ErrorCode::invalid_model, "has none");
  saved = small_saved();
  saved.pieces.push_back({0, 4});
  check_refused(saved, cpu_options(), ErrorCode::invalid_model, "belong to its layers");
  saved = small_saved();
  saved.pieces.back().offset += 4;
  check_refused(saved, cpu_options(), ErrorCode::invalid_model, "from a multiple of 256 on, lies at");
  for (const std::int64_t offset :
       {std::int64_t{-256}, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::max() - 255}) {
    saved = small_saved();
    saved.pieces.back().offset = offset;
    check_refused(saved, cpu_options(), ErrorCode::invalid_model, "should lie within the");
  }
  saved = small_saved();
  saved.pieces.back().offset = 0;
  check_refused(saved, cpu_options(), ErrorCode::invalid_model, "bytes of weights, its packed weights end at");
  saved = small_saved();
  saved.weights = WeightBytes(kWeightAlignment);
  check_refused(saved, cpu_options(), ErrorCode::invalid_model, "packed weight");
}

TEST_CASE("files of another format, byte order or kind are refused") {
  auto bytes = plan_file::save_to_memory(small_saved());
  const auto read = [&] { plan_file::read_from_memory(bytes, "net.plan"); };
  constexpr std::size_t kFormat = 8;
  constexpr std::size_t kByteOrder = 12;
  bytes[kFormat] = std::byte{1};
  auto [code, text] = refusal(read);
  CHECK(code == ErrorCode::unsupported);
  CHECK(contains(text, "net.plan: has plan format 1, this version reads format 4"));
  bytes[kFormat] = std::byte{5};
  std::tie(code, text) = refusal(read);
  CHECK(code == ErrorCode::unsupported);
  CHECK(contains(text, "net.plan: has plan format 5, this version reads format 4"));
  bytes[kFormat] = std::byte{3};
  std::reverse(bytes.begin() + kByteOrder, bytes.begin() + kByteOrder + 4);
  std::tie(code, text) = refusal(read);
  CHECK(code == ErrorCode::unsupported);
  CHECK(contains(text, "other byte order"));
  std::memcpy(bytes.data(), "\x08\x07onnx...", 8);
  CHECK(contains(refusal(read).second, "is no plan file"));
}

TEST_CASE("a file of another library version is refused") {
  const SavedEngine saved = small_saved();
  auto bytes = plan_file::save_to_memory(saved);
  std::string structure(reinterpret_cast<const char*>(bytes.data()) + 64,
                        bytes.size() - 64 - saved.weights.span().size());
  // The text is the first field; the zeros behind the structure are no part of it.
  structure.resize(structure.find_last_not_of('\0') + 1);
  const std::size_t digit = structure.find_first_of("0123456789");
  REQUIRE(digit < 4);
  structure[digit] = '9';
  auto other = plan_file::make_front(structure, saved.weights.span());
  other.insert(other.end(), saved.weights.span().begin(), saved.weights.span().end());
  const auto [code, text] = refusal([&] { plan_file::read_from_memory(other, "net.plan"); });
  CHECK(code == ErrorCode::unsupported);
  CHECK(contains(text, "was made by version 9."));
}

TEST_CASE("what is no file, or a file above the limit, is refused") {
  const TemporaryFolder folder;
  CHECK(contains(refusal([&] { plan_file::read(folder.path() / "absent"); }).second, "there is no such file"));
  CHECK(contains(refusal([&] { plan_file::read(folder.path()); }).second, "is not a regular file"));
  const auto bytes = plan_file::save_to_memory(small_saved());
  plan_file::Limits limits;
  limits.file_bytes = 1000;
  CHECK(contains(refusal([&] { plan_file::read_from_memory(bytes, "net.plan", limits); }).second, "the limit is 1000"));
  limits = {};
  limits.nodes = 2;
  CHECK(contains(refusal([&] { plan_file::read_from_memory(bytes, "net.plan", limits); }).second, "must be 1 to 2"));
}

}  // namespace
}  // namespace mobicuda::test
