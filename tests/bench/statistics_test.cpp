#include "bench_engine/measure/statistics.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "bench_engine/tensors/compare.h"
#include "support/catch.h"

using namespace mobicuda::bench;

namespace {

// Chosen so that every expected value is exact in double.
std::vector<double> one_to(int last) {
  std::vector<double> samples(static_cast<std::size_t>(last));
  std::iota(samples.rbegin(), samples.rend(), 1.0);  // descending: the functions must sort
  return samples;
}

}  // namespace

TEST_CASE("statistics of 1 to 100 are the nearest ranks", "[statistics]") {
  const Statistics s = summarize(one_to(100));
  CHECK(s.count == 100);
  CHECK(s.mean == 50.5);
  CHECK(s.median == 50.5);
  CHECK(s.min == 1);
  CHECK(s.max == 100);
  CHECK(s.p90 == 90);
  CHECK(s.p95 == 95);
  CHECK(s.p99 == 99);
}

TEST_CASE("percentiles of few samples are samples", "[statistics]") {
  const std::vector<double> sorted{1, 2, 3};
  CHECK(percentile(sorted, 1) == 1);
  CHECK(percentile(sorted, 34) == 2);
  CHECK(percentile(sorted, 99) == 3);
  CHECK(percentile(sorted, 100) == 3);
  CHECK(median(sorted) == 2);
}

TEST_CASE("the standard deviation is that of a sample", "[statistics]") {
  const Statistics s = summarize(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9, 5});  // squares sum to 32, n - 1 = 8
  CHECK(s.mean == 5);
  CHECK(s.stddev == 2);
  CHECK(s.variation == 0.4);
  CHECK(s.unstable());
}

TEST_CASE("statistics of nothing and of one sample are defined", "[statistics]") {
  CHECK(summarize({}).count == 0);
  CHECK(median({}) == 0);
  CHECK(percentile({}, 50) == 0);
  const Statistics one = summarize(std::vector<double>{3});
  CHECK(one.mean == 3);
  CHECK(one.stddev == 0);
  CHECK_FALSE(one.unstable());
}

TEST_CASE("a speed-up is the ratio of medians, its interval that of paired bursts", "[statistics]") {
  const std::vector<double> slow{4, 4, 4};
  const std::vector<double> fast{2, 2, 2};
  const SpeedUp constant = speed_up(slow, fast, slow, fast);
  CHECK(constant.ratio == 2);
  CHECK(constant.low == 2);
  CHECK(constant.high == 2);
  // A drift that hits both alike does not widen the interval ...
  const SpeedUp drift = speed_up(slow, fast, std::vector<double>{4, 8, 16}, std::vector<double>{2, 4, 8});
  CHECK(drift.low == 2);
  CHECK(drift.high == 2);
  // ... a noise that hits one of them does.
  const SpeedUp noise = speed_up(slow, fast, std::vector<double>{4, 4, 4}, std::vector<double>{2, 1, 4});
  CHECK(noise.low < 2);
  CHECK(noise.high > 2);
}

TEST_CASE("comparing logits finds the largest difference, the norm and the agreement", "[compare]") {
  const std::vector<float> reference{3, 4, 0, 0};  // two pictures of two classes, norm 5
  const std::vector<float> got{3, 3, 0, 0};
  Comparer comparer;
  comparer.add(got, reference, 2);
  const Comparison c = comparer.result();
  CHECK(c.pictures == 2);
  CHECK(c.max_abs == 1);
  CHECK(c.relative_l2 == 0.2);
  CHECK(c.top1_equal == 1);  // 3, 3 ranks class 0 first; the reference class 1
  CHECK(c.top1_agreement() == 0.5);
}

TEST_CASE("a logit that is not finite makes the difference infinite", "[compare]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& got : {std::vector<float>{nan, 1}, std::vector<float>{1, nan}}) {
    Comparer comparer;
    comparer.add(got, std::vector<float>{1, 1}, 2);
    comparer.add(std::vector<float>{1, 1}, std::vector<float>{1, 1}, 2);
    CHECK(std::isinf(comparer.result().max_abs));
    CHECK(std::isinf(comparer.result().relative_l2));
  }
}

TEST_CASE("ranking logits breaks ties by index and puts NaN last", "[compare]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(argmax(std::vector<float>{nan, 1, 2, 2}) == 2);
  CHECK(argmax(std::vector<float>{nan, nan}) == 0);
  const std::vector<float> logits{5, 1, 5, 4, nan};
  CHECK(in_top(logits, 0, 1));
  CHECK_FALSE(in_top(logits, 2, 1));
  CHECK(in_top(logits, 2, 2));
  CHECK(in_top(logits, 3, 3));
  CHECK_FALSE(in_top(logits, 4, 5));
  CHECK_FALSE(in_top(logits, 9, 5));
}

TEST_CASE("a histogram counts every sample once", "[statistics]") {
  std::vector<double> samples;
  for (int i = 0; i < 1000; ++i) samples.push_back(1 + i % 100);
  const Histogram bins = histogram(samples);
  std::size_t total = bins.above;
  for (const std::size_t count : bins.counts) total += count;
  CHECK(total == samples.size());
  CHECK(bins.above == 10);  // the hundreds, above p99
  CHECK(bins.low == 1);
  CHECK(bins.low + bins.bin * static_cast<double>(bins.counts.size()) == Approx(99));
  CHECK(histogram(std::vector<double>{2, 2, 2}).counts == std::vector<std::size_t>{3});
  CHECK(histogram(std::vector<double>()).counts.empty());
}
