#include "pictures/classify/top_classes.h"

#include <algorithm>
#include <cmath>

#include "pictures/classify/batch_classifier.h"

namespace mobicuda::pictures {
namespace {

bool better(const ClassScore& a, const ClassScore& b) {
  if (std::isnan(a.score) || std::isnan(b.score)) {
    return std::isnan(a.score) == std::isnan(b.score) ? a.index < b.index : std::isnan(b.score);
  }
  return a.score != b.score ? a.score > b.score : a.index < b.index;
}

}  // namespace

std::vector<ClassScore> top_classes(std::span<const float> scores, std::size_t count) {
  count = std::min(count, scores.size());
  std::vector<ClassScore> best;
  best.reserve(count + 1);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const ClassScore one{i, scores[i]};
    if (best.size() == count && !better(one, best.back())) continue;
    best.insert(std::upper_bound(best.begin(), best.end(), one, better), one);
    if (best.size() > count) best.pop_back();
  }
  return best;
}

void take_scores(std::span<const float> scores, const ClassifierOptions& options, Outcome& outcome) {
  outcome.best = top_classes(scores, static_cast<std::size_t>(options.top));
  if (options.outputs) outcome.outputs.assign(scores.begin(), scores.end());
}

}  // namespace mobicuda::pictures
