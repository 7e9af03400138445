// Plan files with changed bytes: the checksum refuses them, and where it was made to fit, nothing worse than an Error
// comes of them.
#include <random>
#include <string>

#include <mobicuda/mobicuda.h>

#include "plan_file/frame.h"
#include "plan_networks.h"
#include "support/catch.h"
#include "support/sanitizer.h"

namespace mobicuda::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kHeadBytes = 64;

bool is_refused(std::span<const std::byte> bytes) {
  try {
    plan_file::read_from_memory(bytes, "damaged");
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_model || error.code() == ErrorCode::unsupported;
  }
  return false;
}

Bytes small_plan() {
  return plan_file::save_to_memory(make_cpu_backend()->compile(small_network(), cpu_options())->saved());
}

TEST_CASE("10,000 plan files with a flipped bit are refused") {
  Bytes bytes = small_plan();
  std::mt19937 random(1);
  for (int i = 0; i < on_one_thread(10000); ++i) {
    // The first bytes say what the rest is: all of theirs are flipped, then any.
    const std::size_t bit =
        static_cast<std::size_t>(i) < kHeadBytes * 8 ? static_cast<std::size_t>(i) : random() % (bytes.size() * 8);
    CAPTURE(bit);
    const std::byte mask{static_cast<unsigned char>(1U << (bit % 8))};
    bytes[bit / 8] ^= mask;
    REQUIRE(is_refused(bytes));
    bytes[bit / 8] ^= mask;
  }
  REQUIRE_FALSE(is_refused(bytes));
}

TEST_CASE("truncated and lengthened plan files are refused") {
  Bytes bytes = small_plan();
  const std::span<const std::byte> whole(bytes);
  for (std::size_t size = 0; size < bytes.size(); size += size < 2 * kHeadBytes ? 1 : 37) {
    CAPTURE(size);
    REQUIRE(is_refused(whole.first(size)));
  }
  REQUIRE(is_refused(whole.first(bytes.size() - 1)));
  bytes.push_back(std::byte{0});
  REQUIRE(is_refused(bytes));
}

// The structure, without the zeros behind it.
std::string structure_of(const Bytes& plan, std::size_t weight_bytes) {
  std::string structure(reinterpret_cast<const char*>(plan.data()) + kHeadBytes,
                        plan.size() - kHeadBytes - weight_bytes);
  structure.resize(structure.find_last_not_of('\0') + 1);
  return structure;
}

// What comes of a plan whose checksum is right: an engine or an Error.
bool survives(const std::string& structure, const SavedEngine& original) {
  constexpr std::int64_t kLargestSession = 16 << 20;
  const auto weights = original.weights.span();
  Bytes plan = plan_file::make_front(structure, weights);
  plan.insert(plan.end(), weights.begin(), weights.end());
  try {
    const SavedEngine saved = plan_file::read_from_memory(plan, "forged");
    EngineOptions options = saved.options;
    options.threads = 1;
    const auto engine = make_cpu_backend()->restore(saved, options);
    if (engine->memory().total() > kLargestSession) return true;
    outputs_of(*engine, 1);
    return true;
  } catch (const Error& error) {
    return error.code() != ErrorCode::internal;
  }
}

TEST_CASE("plan files that were changed on purpose give an engine or an Error") {
  const SavedEngine saved = make_cpu_backend()->compile(every_operation(), cpu_options())->saved();
  const std::string structure = structure_of(plan_file::save_to_memory(saved), saved.weights.span().size());
  REQUIRE(survives(structure, saved));
  std::mt19937 random(2);
  for (int i = 0; i < on_one_thread(3000); ++i) {
    CAPTURE(i);
    std::string changed = structure;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % changed.size();
      changed[at] =
          random() % 2 == 0 ? static_cast<char>(random()) : static_cast<char>(changed[at] ^ (1 << random() % 8));
    }
    REQUIRE(survives(changed, saved));
  }
}

}  // namespace
}  // namespace mobicuda::test
