#include "bench_engine/tensors/golden.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "bench_engine/model/result_file.h"
#include "bench_engine/tensors/compare.h"
#include "text/numbers.h"

namespace mobicuda::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Floats in ascending order as ascending integers, both zeros at 0.
std::int64_t ordered(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::min()) - bits;
}

struct Sums {
  double difference = 0;
  double difference_squared = 0;
  double got_squared = 0;
  double golden_squared = 0;
  double product = 0;
  bool incomparable = false;  // a number where the other has NaN or infinity
};

void add(float got_value, float golden_value, Sums& sums, GoldenComparison& result) {
  result.max_ulp = std::max(result.max_ulp, ulp_distance(got_value, golden_value));
  const double got = got_value;
  const double golden = golden_value;
  if (!std::isfinite(got) || !std::isfinite(golden)) {
    // Both the same infinity, or both NaN: as they should be, and nothing to compute with.
    if (got != golden && !(std::isnan(got) && std::isnan(golden))) sums.incomparable = true;
    return;
  }
  const double difference = std::abs(got - golden);
  result.max_abs = std::max(result.max_abs, difference);
  sums.difference += difference;
  sums.difference_squared += difference * difference;
  sums.got_squared += got * got;
  sums.golden_squared += golden * golden;
  sums.product += got * golden;
}

void finish(const Sums& sums, GoldenComparison& result) {
  if (sums.incomparable) {
    result.max_abs = result.mean_abs = result.relative_l2 = result.max_ulp = kInfinity;
    result.cosine = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  if (result.elements > 0) result.mean_abs = sums.difference / static_cast<double>(result.elements);
  if (sums.golden_squared > 0) {
    result.relative_l2 = std::sqrt(sums.difference_squared / sums.golden_squared);
  } else {
    result.relative_l2 = sums.difference_squared > 0 ? kInfinity : 0;
  }
  const double lengths = std::sqrt(sums.got_squared) * std::sqrt(sums.golden_squared);
  if (lengths > 0) {
    result.cosine = std::clamp(sums.product / lengths, -1.0, 1.0);
  } else {
    result.cosine = sums.got_squared == sums.golden_squared ? 1 : 0;
  }
}

}  // namespace

double ulp_distance(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : kInfinity;
  return static_cast<double>(std::abs(ordered(a) - ordered(b)));
}

GoldenComparison compare_with_golden(std::span<const float> got, std::span<const float> golden, std::size_t classes,
                                     std::size_t period) {
  GoldenComparison result;
  Sums sums;
  for (std::size_t start = 0; start + classes <= got.size(); start += classes) {
    const auto row = got.subspan(start, classes);
    const auto expected = golden.subspan(start / classes % period * classes, classes);
    for (std::size_t i = 0; i < classes; ++i) add(row[i], expected[i], sums, result);
    ++result.pictures;
    if (argmax(row) == argmax(expected)) ++result.top1_equal;
  }
  result.elements = result.pictures * static_cast<std::int64_t>(classes);
  finish(sums, result);
  return result;
}

std::vector<std::string> missed_golden(const Options& options, const GoldenComparison& golden, const std::string& who) {
  std::vector<std::string> missed;
  // Written so that NaN misses every threshold.
  const auto at_most = [&](const char* what, double value, const std::optional<double>& threshold) {
    if (!threshold || value <= *threshold) return;
    missed.push_back(who + ": " + what + " against --golden is " + scientific(value) + ", allowed are " +
                     scientific(*threshold));
  };
  at_most("the largest difference", golden.max_abs, options.accuracy_threshold);
  at_most("the mean difference", golden.mean_abs, options.mean_threshold);
  at_most("the relative L2 difference", golden.relative_l2, options.relative_l2_threshold);
  at_most("the largest difference in ULP", golden.max_ulp, options.ulp_threshold);
  constexpr int kDecimals = 9;
  if (options.cosine_threshold && !(golden.cosine >= *options.cosine_threshold)) {
    missed.push_back(who + ": the cosine with --golden is " + fixed(golden.cosine, kDecimals) + ", asked were " +
                     fixed(*options.cosine_threshold, kDecimals));
  }
  const double agreement = 100 * static_cast<double>(golden.top1_equal) / static_cast<double>(golden.pictures);
  if (options.agreement_threshold && !(agreement >= *options.agreement_threshold)) {
    missed.push_back(who + ": top-1 agrees with --golden on " + fixed(agreement, 2) + " % of " +
                     std::to_string(golden.pictures) + " pictures, asked were " +
                     fixed(*options.agreement_threshold, 2) + " %");
  }
  return missed;
}

void save_outputs(const Options& options, const Report& report) {
  if (options.save_outputs.empty()) return;
  for (const CaseResult& result : report.cases) {
    const std::filesystem::path path =
        report.cases.size() > 1 ? result_file(options.save_outputs, result) : options.save_outputs;
    std::vector<std::int64_t> shape{result.batch};
    const auto dims = report.model.output.shape.dims().subspan(1);
    shape.insert(shape.end(), dims.begin(), dims.end());
    save_tensor(path, shape, result.output);
  }
}

}  // namespace mobicuda::bench
