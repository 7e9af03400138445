#include "bench_engine/export/images_json.h"

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
  if (!result.pipeline_decoder.empty()) json["pipelineDecoder"] = result.pipeline_decoder;
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

}  // namespace

Json comparison_json(const std::optional<Comparison>& comparison) {
  if (!comparison) return nullptr;
  return {{"pictures", comparison->pictures},
          {"maxAbs", comparison->max_abs},
          {"relativeL2", comparison->relative_l2},
          {"top1Equal", comparison->top1_equal},
          {"top1Agreement", comparison->top1_agreement()}};
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

}  // namespace mobicuda::bench
