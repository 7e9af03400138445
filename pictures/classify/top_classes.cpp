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

template <std::size_t kCount>
bool any_higher(std::span<const float, kCount> scores, float than) {
  int higher = 0;
  for (const float score : scores) higher |= static_cast<int>(score > than);
  return higher != 0;
}

}  // namespace

std::vector<ClassScore> top_classes(std::span<const float> scores, std::size_t count) {
  constexpr std::size_t kAtOnce = 16;
  count = std::min(count, scores.size());
  std::vector<ClassScore> best;
  if (count == 0) return best;
  best.reserve(count + 1);
  const auto take = [&](std::size_t i) {
    const ClassScore one{i, scores[i]};
    // The first is better() of numbers, of which the later one has the higher index, and less work.
    if (best.size() == count && (best.back().score >= one.score || !better(one, best.back()))) return;
    best.insert(std::upper_bound(best.begin(), best.end(), one, better), one);
    if (best.size() > count) best.pop_back();
  };
  std::size_t i = 0;
  for (; scores.size() - i >= kAtOnce; i += kAtOnce) {
    // Most are not among the best: many are passed over at once. What is no number is not higher than one.
    const bool full = best.size() == count && !std::isnan(best.back().score);
    if (full && !any_higher(scores.subspan(i).first<kAtOnce>(), best.back().score)) continue;
    for (std::size_t k = 0; k < kAtOnce; ++k) take(i + k);
  }
  for (; i < scores.size(); ++i) take(i);
  return best;
}

void take_scores(std::span<const float> scores, const ClassifierOptions& options, Outcome& outcome) {
  outcome.best = top_classes(scores, static_cast<std::size_t>(options.top));
  if (options.outputs) outcome.outputs.assign(scores.begin(), scores.end());
}

}  // namespace mobicuda::pictures
