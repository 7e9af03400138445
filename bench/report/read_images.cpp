#include "report/read_images.h"

#include <limits>

namespace mobicuda::bench::report {
namespace {

std::vector<Confusion> read_confusions(const Field& f) {
  std::vector<Confusion> confusions;
  for (const Field& one : f.elements()) {
    confusions.push_back({one["referenceName"].text(), one["ownName"].text(), one["pictures"].size()});
  }
  return confusions;
}

AccuracyResult read_result(const Field& f, std::size_t classes) {
  AccuracyResult result;
  result.implementation = f["impl"].text();
  result.precision = f["precision"].precision();
  result.threads = f["threads"].threads();
  result.top1 = f["top1Pictures"].size();
  result.top5 = f["top5Pictures"].size();
  result.inference_ms = f["inferenceMs"].number();
  result.inference_rate = f["inferencePicturesPerSecond"].number();
  result.pipeline_rate = f["pipelinePicturesPerSecond"].number();
  result.pipeline_decoder = f["pipelineDecoder"].text();
  result.with_reference = read_comparison(f["withReference"]);
  result.with_reference_file = read_comparison(f["withReferenceLogits"]);
  const std::vector<Field> top1 = f["top1ByClass"].elements();
  const std::vector<Field> top5 = f["top5ByClass"].elements();
  for (const auto& [field, name] : {std::pair{&top1, "top1ByClass"}, {&top5, "top5ByClass"}}) {
    if (!field->empty() && field->size() != classes) f[name].fail("one for each of images.classes");
  }
  if (top1.size() != top5.size()) f["top5ByClass"].fail("as long as top1ByClass");
  for (std::size_t i = 0; i < top1.size(); ++i) result.by_class.push_back({top1[i].size(), top5[i].size()});
  result.confusion = read_confusions(f["confusion"]);
  result.confusion_file = read_confusions(f["confusionReferenceLogits"]);
  return result;
}

}  // namespace

std::optional<Comparison> read_comparison(const Field& f) {
  if (f.absent()) return std::nullopt;
  Comparison result;
  result.pictures = f["pictures"].size();
  // Numbers that are not finite are written as null.
  result.max_abs = f["maxAbs"].number(std::numeric_limits<double>::infinity());
  result.relative_l2 = f["relativeL2"].number(std::numeric_limits<double>::infinity());
  result.top1_equal = f["top1Equal"].size();
  return result;
}

std::optional<ImageReport> read_images(const Field& f) {
  if (f.absent()) return std::nullopt;
  ImageReport images;
  images.folder = f["folder"].text();
  images.preprocessing = f["preprocessing"].text();
  images.batch = f["batch"].batch();
  images.found = static_cast<std::size_t>(f["found"].size());
  images.evaluated = static_cast<std::size_t>(f["evaluated"].size());
  images.labelled = static_cast<std::size_t>(f["labelled"].size());
  for (const Field& one : f["broken"].elements()) images.broken.emplace_back(one["path"].text(), one["reason"].text());
  images.unlabelled = f["unlabelled"].texts();
  images.decode_threads = static_cast<std::size_t>(f["decodeThreads"].size());
  images.decode_rate = f["decodePicturesPerSecond"].number();
  for (const Field& one : f["classes"].elements()) {
    images.classes.push_back(
        {static_cast<std::size_t>(one["class"].size()), one["name"].text(), one["pictures"].size()});
  }
  for (const Field& one : f["results"].elements()) images.results.push_back(read_result(one, images.classes.size()));
  return images;
}

}  // namespace mobicuda::bench::report
