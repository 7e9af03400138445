#include "bench_engine/tensors/golden.h"

#include <cmath>
#include <limits>

#include "bench_engine/thresholds.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::size_t kManyPictures = SIZE_MAX;

using Floats = std::vector<float>;

GoldenComparison compare(const Floats& got, const Floats& golden) {
  return compare_with_golden(got, golden, got.size(), kManyPictures);
}

Report report_with(const GoldenComparison& golden) {
  Report report;
  report.cases.resize(1);
  report.cases[0].implementation = "cpu";
  report.cases[0].golden = golden;
  return report;
}

}  // namespace

TEST_CASE("distances in ULP count the floats between two", "[golden]") {
  CHECK(ulp_distance(1, 1) == 0);
  CHECK(ulp_distance(1, std::nextafter(1.0F, 2.0F)) == 1);
  CHECK(ulp_distance(0.0F, -0.0F) == 0);
  const float smallest = std::numeric_limits<float>::denorm_min();
  CHECK(ulp_distance(smallest, -smallest) == 2);
  CHECK(ulp_distance(1, 2) == 8388608);
  CHECK(ulp_distance(-1, -2) == 8388608);
  CHECK(ulp_distance(kInf, std::numeric_limits<float>::max()) == 1);
  CHECK(ulp_distance(kNan, kNan) == 0);
  CHECK(std::isinf(ulp_distance(kNan, 1)));
}

TEST_CASE("outputs are compared with golden ones", "[golden]") {
  const GoldenComparison same = compare({1, -2, 3}, {1, -2, 3});
  CHECK(same.max_abs == 0);
  CHECK(same.max_ulp == 0);
  CHECK(same.cosine == Approx(1));
  CHECK(same.elements == 3);
  const GoldenComparison other = compare({3, 5}, {3, 4});
  CHECK(other.max_abs == 1);
  CHECK(other.mean_abs == 0.5);
  CHECK(other.relative_l2 == Approx(0.2));
  CHECK(other.cosine == Approx(29 / (5 * std::sqrt(34.0))));
  CHECK(other.max_ulp == ulp_distance(4, 5));
  CHECK(other.top1_equal == 1);
  CHECK(compare({1, 2}, {-1, -2}).cosine == Approx(-1));
  CHECK(compare({0, 0}, {0, 0}).cosine == 1);
  CHECK(compare({0, 0}, {1, 0}).cosine == 0);
  CHECK(std::isinf(compare({1, 0}, {0, 0}).relative_l2));
}

TEST_CASE("golden outputs start over with the pictures of the input", "[golden]") {
  const Floats golden{1, 2, 3, 4};
  const GoldenComparison tiled = compare_with_golden(Floats{1, 2, 3, 4, 1, 2}, golden, 2, 2);
  CHECK(tiled.pictures == 3);
  CHECK(tiled.max_abs == 0);
  CHECK(compare_with_golden(Floats{1, 2}, golden, 2, kManyPictures).pictures == 1);
}

TEST_CASE("NaN and infinity equal themselves only", "[golden]") {
  const GoldenComparison same = compare({kNan, kInf, 1}, {kNan, kInf, 1});
  CHECK(same.max_abs == 0);
  CHECK(same.cosine == Approx(1));
  const std::vector<std::pair<Floats, Floats>> unequal{
      {{kNan, 1}, {0, 1}}, {{0, 1}, {kNan, 1}}, {{kInf, 1}, {-kInf, 1}}, {{kInf, 1}, {1, 1}}};
  for (const auto& [got, golden] : unequal) {
    CAPTURE(got, golden);
    const GoldenComparison result = compare(got, golden);
    CHECK(std::isinf(result.max_abs));
    CHECK(std::isinf(result.mean_abs));
    CHECK(std::isinf(result.relative_l2));
    CHECK(std::isinf(result.max_ulp));
    CHECK(std::isnan(result.cosine));
  }
}

TEST_CASE("each threshold of golden outputs can be missed and met", "[golden]") {
  const GoldenComparison golden{2, 2, 1, 0.5, 0.25, 0.75, 8, 1};
  struct Threshold {
    std::optional<double> Options::*option;
    double met;
    double missed;
    const char* message;
  };
  for (const Threshold& one :
       {Threshold{&Options::accuracy_threshold, 1, 0.9, "largest difference against"},
        Threshold{&Options::mean_threshold, 0.5, 0.4, "mean difference"},
        Threshold{&Options::relative_l2_threshold, 0.25, 0.2, "relative L2"},
        Threshold{&Options::cosine_threshold, 0.75, 0.8, "cosine"}, Threshold{&Options::ulp_threshold, 8, 7, "ULP"},
        Threshold{&Options::agreement_threshold, 50, 51, "top-1"}}) {
    CAPTURE(one.message);
    Options options;
    options.*one.option = one.met;
    CHECK(missed_thresholds(options, report_with(golden)).empty());
    options.*one.option = one.missed;
    const auto missed = missed_thresholds(options, report_with(golden));
    REQUIRE(missed.size() == 1);
    CHECK_THAT(missed[0], contains(one.message));
    CHECK_THAT(missed[0], contains("cpu fp32, batch 1"));
  }
}

TEST_CASE("a NaN in the output misses every threshold", "[golden]") {
  Options options;
  options.accuracy_threshold = options.mean_threshold = options.relative_l2_threshold = options.ulp_threshold = 1e9;
  options.cosine_threshold = -1;
  CHECK(missed_thresholds(options, report_with(compare({kNan, 1}, {0, 1}))).size() == 5);
}

TEST_CASE("outputs are saved under the name given, or one that tells the result", "[golden]") {
  const TemporaryFolder folder;
  Options options;
  options.save_outputs = folder.path() / "out.npy";
  Report report;
  report.model.output.shape = Shape{1, 2};
  CaseResult one;
  one.implementation = "cpu";
  one.output = {1, 2};
  report.cases = {one};
  save_outputs(options, report);
  const FileTensor saved = load_tensor(options.save_outputs, "--golden");
  CHECK(saved.shape == std::optional(std::vector<std::int64_t>{1, 2}));
  CHECK(saved.values == Floats{1, 2});
  one.batch = 2;
  one.threads = 3;
  one.output = {1, 2, 3, 4};
  report.cases.push_back(one);
  save_outputs(options, report);
  CHECK(load_tensor(folder.path() / "out.cpu-fp32-b1.npy", "--golden").values == Floats{1, 2});
  CHECK(load_tensor(folder.path() / "out.cpu-fp32-b2-t3.npy", "--golden").shape ==
        std::optional(std::vector<std::int64_t>{2, 2}));
}
