#include "bench_engine/thresholds.h"

#include "bench_engine/layers/layer_comparison.h"
#include "bench_engine/tensors/golden.h"

namespace mobicuda::bench {
namespace {

std::string text_of(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

void check_comparison(const Options& options, const std::string& who, const std::string& against,
                      const std::optional<Comparison>& comparison, std::vector<std::string>& missed) {
  if (!comparison) return;
  if (comparison->pictures == 0) {
    if (options.accuracy_threshold || options.agreement_threshold) {
      missed.push_back(who + ": no picture was compared with " + against);
    }
    return;
  }
  if (options.accuracy_threshold && comparison->max_abs > *options.accuracy_threshold) {
    missed.push_back(who + ": a logit differs by " + std::to_string(comparison->max_abs) + " from " + against +
                     ", allowed are " + text_of(*options.accuracy_threshold));
  }
  const double agreement = 100 * comparison->top1_agreement();
  if (options.agreement_threshold && agreement < *options.agreement_threshold) {
    missed.push_back(who + ": top-1 agrees with " + against + " on " + text_of(agreement) + " % of " +
                     std::to_string(comparison->pictures) + " pictures, asked were " +
                     text_of(*options.agreement_threshold) + " %");
  }
}

void check_top1(const Options& options, const ImageReport& images, std::vector<std::string>& missed) {
  if (!options.top1_threshold) return;
  if (images.labelled == 0) missed.emplace_back("top-1: no picture with a label was evaluated");
  for (const AccuracyResult& result : images.results) {
    if (images.labelled == 0) break;
    const double top1 = 100 * static_cast<double>(result.top1) / static_cast<double>(images.labelled);
    if (top1 < *options.top1_threshold) {
      missed.push_back(result.label() + ": top-1 " + text_of(top1) + " %, asked were " +
                       text_of(*options.top1_threshold) + " %");
    }
  }
}

void check_images(const Options& options, const ImageReport& images, const std::string& reference,
                  std::vector<std::string>& missed) {
  check_top1(options, images, missed);
  for (const AccuracyResult& result : images.results) {
    const std::string who = result.label() + ", " + std::to_string(images.found) + " pictures";
    check_comparison(options, who, reference, result.with_reference, missed);
    check_comparison(options, who, "--referenceLogits", result.with_reference_file, missed);
  }
}

}  // namespace

std::vector<std::string> missed_thresholds(const Options& options, const Report& report) {
  std::vector<std::string> missed;
  for (const CaseResult& result : report.cases) {
    if (!result.golden) continue;
    const std::string who = result.label() + ", batch " + std::to_string(result.batch);
    const std::vector<std::string> golden = missed_golden(options, *result.golden, who);
    missed.insert(missed.end(), golden.begin(), golden.end());
  }
  for (const CaseResult& result : report.cases) {
    for (const LayerComparison& comparison : result.layer_comparisons) {
      std::string text = missed_layers(comparison, result.label() + ", batch " + std::to_string(result.batch));
      if (!text.empty()) missed.push_back(std::move(text));
    }
  }
  if (options.images.empty()) {
    for (const CaseResult& result : report.cases) {
      check_comparison(options, result.label() + ", batch " + std::to_string(result.batch), report.reference,
                       result.comparison, missed);
    }
  }
  for (const ImageReport& images : report.fewer_images) check_images(options, images, report.reference, missed);
  if (report.images) check_images(options, *report.images, report.reference, missed);
  return missed;
}

}  // namespace mobicuda::bench
