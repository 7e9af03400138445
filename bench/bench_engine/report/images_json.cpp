#include "bench_engine/report/images_json.h"

#include <limits>

namespace mobicuda::bench {
namespace {

using Json = nlohmann::ordered_json;

// What was not measured is null.
Json rate_json(double rate) { return rate > 0 ? Json(rate) : Json(nullptr); }

Json confusions_json(const std::vector<Confusion>& confusions) {
  Json json = Json::array();
  for (const Confusion& one : confusions) {
    json.push_back({{"reference", one.reference},
                    {"referenceName", one.reference_name},
                    {"own", one.own},
                    {"ownName", one.own_name},
                    {"pictures", one.pictures}});
  }
  return json;
}

std::vector<Confusion> read_confusions(const Field& f) {
  std::vector<Confusion> confusions;
  for (const Field& one : f.elements()) {
    confusions.push_back({static_cast<std::size_t>(one["reference"].size()), one["referenceName"].text(),
                          static_cast<std::size_t>(one["own"].size()), one["ownName"].text(), one["pictures"].size()});
  }
  return confusions;
}

Json result_json(const AccuracyResult& result, std::size_t labelled) {
  const auto share = [labelled](std::int64_t hits) {
    return labelled == 0 ? Json(nullptr) : Json(static_cast<double>(hits) / static_cast<double>(labelled));
  };
  Json json = {{"impl", result.implementation},
               {"precision", to_string(result.precision)},
               {"top1", share(result.top1)},
               {"top5", share(result.top5)},
               {"top1Pictures", result.top1},
               {"top5Pictures", result.top5},
               {"inferenceMs", result.inference_ms},
               {"inferencePicturesPerSecond", rate_json(result.inference_rate)},
               {"pipelinePicturesPerSecond", rate_json(result.pipeline_rate)},
               {"withReference", comparison_json(result.with_reference)},
               {"withReferenceLogits", comparison_json(result.with_reference_file)}};
  if (result.threads) json["threads"] = *result.threads;
  json["top1ByClass"] = Json::array();
  json["top5ByClass"] = Json::array();
  for (const ClassHits& hits : result.by_class) {
    json["top1ByClass"].push_back(hits.top1);
    json["top5ByClass"].push_back(hits.top5);
  }
  json["confusion"] = confusions_json(result.confusion);
  json["confusionReferenceLogits"] = confusions_json(result.confusion_file);
  return json;
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

Json comparison_json(const std::optional<Comparison>& comparison) {
  if (!comparison) return nullptr;
  return {{"pictures", comparison->pictures},
          {"maxAbs", comparison->max_abs},
          {"relativeL2", comparison->relative_l2},
          {"top1Equal", comparison->top1_equal},
          {"top1Agreement", comparison->top1_agreement()}};
}

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

Json images_json(const ImageReport& images) {
  Json broken = Json::array();
  for (const auto& [path, reason] : images.broken) broken.push_back({{"path", path}, {"reason", reason}});
  Json classes = Json::array();
  for (const ClassCount& one : images.classes) {
    classes.push_back({{"class", one.index}, {"name", one.name}, {"pictures", one.pictures}});
  }
  Json results = Json::array();
  for (const AccuracyResult& result : images.results) results.push_back(result_json(result, images.labelled));
  return {{"folder", images.folder},
          {"preprocessing", images.preprocessing},
          {"batch", images.batch},
          {"found", images.found},
          {"evaluated", images.evaluated},
          {"labelled", images.labelled},
          {"broken", std::move(broken)},
          {"unlabelled", images.unlabelled},
          {"decodeThreads", images.decode_threads},
          {"decodeMs", images.decode_ms},
          {"wallMs", images.wall_ms},
          {"decodePicturesPerSecond", rate_json(images.decode_rate)},
          {"classes", std::move(classes)},
          {"results", std::move(results)}};
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
  images.decode_ms = f["decodeMs"].number();
  images.wall_ms = f["wallMs"].number();
  images.decode_rate = f["decodePicturesPerSecond"].number();
  for (const Field& one : f["classes"].elements()) {
    images.classes.push_back(
        {static_cast<std::size_t>(one["class"].size()), one["name"].text(), one["pictures"].size()});
  }
  for (const Field& one : f["results"].elements()) images.results.push_back(read_result(one, images.classes.size()));
  return images;
}

}  // namespace mobicuda::bench
