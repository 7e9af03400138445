// Each family of kernels under load: many streams, launches of random numbers of pictures, every output compared.
// MOBICUDA_STRESS_SECONDS: how long each variant runs, default 0.05 s.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/race_case.h"
#include "stress/kernel_cases.h"
#include "support/catch.h"
#include "support/gpu_traits.h"

namespace mobicuda::stress {
namespace {

double seconds() {
  const char* const text = std::getenv("MOBICUDA_STRESS_SECONDS");
  return text == nullptr ? 0.05 : std::stod(text);
}

using Cases = std::vector<KernelCase>;

const std::vector<KernelFamily>& families() {
  static const std::vector<KernelFamily> all = [] {
    std::vector<KernelFamily> made = kernel_families();
    for (KernelFamily& family : made) run_alone(family.cases);
    return made;
  }();
  return all;
}

const Cases& all_kernels() {
  static const Cases all = [] {
    Cases together;
    for (const KernelFamily& family : families()) {
      together.insert(together.end(), family.cases.begin(), family.cases.end());
    }
    return together;
  }();
  return all;
}

KernelConditions conditions(double how_long) {
  KernelConditions made;
  made.seconds = how_long;
  made.seed += Catch::rngSeed();
  return made;
}

void check(const Cases& cases, const Cases& neighbours, double how_long) {
  const KernelTally tally = launch_side_by_side(cases, neighbours, conditions(how_long));
  CAPTURE(tally.where);
  CHECK(tally.launches > 0);
  CHECK(tally.wrong == 0);
}

bool has_case(const KernelFamily& family, const std::string& variant) {
  const std::string name = family.name + "/" + variant;
  return std::any_of(family.cases.begin(), family.cases.end(),
                     [&](const KernelCase& one) { return one.name == name || one.name.starts_with(name + " "); });
}

/// Each variant and then the whole family, by itself and beside all kernels.
void stress(const KernelFamily& family) {
  constexpr double kLonger = 10;  // for a family
  REQUIRE_FALSE(family.cases.empty());
  if (test::race_case::all_variants_run()) {
    for (const std::string& variant : family.variants) {
      CAPTURE(variant);
      CHECK(has_case(family, variant));  // else it needs a shape
    }
  }
  for (const KernelCase& one : family.cases) {
    CAPTURE(one.name);
    check({one}, {}, seconds());
    check({one}, all_kernels(), seconds());
  }
  check(family.cases, {}, kLonger * seconds());
  check(family.cases, all_kernels(), kLonger * seconds());
}

// One family: -c stem_block.
TEST_CASE("kernels under load", "[stress]") {
  for (const KernelFamily& family : families()) {
    DYNAMIC_SECTION(family.name) {
      if (test::gpu_traits().code < family.oldest) {
        std::cout << family.name << ": left out, code older than sm_" << family.oldest << '\n';
      } else {
        stress(family);
      }
    }
  }
}

TEST_CASE("a kernel whose output depends on n is told of") {
  KernelCase wrong;
  wrong.name = "wrong/for fewer pictures";
  wrong.pictures = 16;
  wrong.output_bytes = 64;
  wrong.enqueue = [](int n, int, void* y, const kernels::Launch& where) {
    return cudaMemsetAsync(y, n == 16 ? 1 : 2, static_cast<std::size_t>(n) * 64, where.stream);
  };
  Cases cases = {wrong};
  run_alone(cases);
  const KernelTally tally = launch_side_by_side(cases, {}, conditions(0.05));
  CHECK(tally.wrong > 0);
  CHECK(tally.where == wrong.name);
}

}  // namespace
}  // namespace mobicuda::stress
