#include "pictures/classify/top_classes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>

#include "pictures/classify/batch_classifier.h"

namespace mobicuda::pictures {
namespace {

bool better(const ClassScore& a, const ClassScore& b) {
  if (std::isnan(a.score) || std::isnan(b.score)) {
    return std::isnan(a.score) == std::isnan(b.score) ? a.index < b.index : std::isnan(b.score);
  }
  return a.score != b.score ? a.score > b.score : a.index < b.index;
}

// Vectors of the compiler's, as loops that compare floats stay scalar where their traps count.
using Floats = float __attribute__((vector_size(16)));
constexpr std::size_t kLanes = sizeof(Floats) / sizeof(float);
constexpr std::size_t kAtOnce = 4 * kLanes;

Floats load(const float* from) {
  Floats floats;
  std::memcpy(&floats, from, sizeof floats);
  return floats;
}

// A score that the best `count`, at most kAtOnce, do not fall short of: the count-th of the highest in each of kAtOnce
// shares of the classes. -infinity where that many shares have no number above it.
float not_above_the_best(std::span<const float> scores, std::size_t count) {
  std::array<Floats, kAtOnce / kLanes> most;
  most.fill(Floats{} - std::numeric_limits<float>::infinity());
  for (; scores.size() >= kAtOnce; scores = scores.subspan(kAtOnce)) {
    for (std::size_t k = 0; k < most.size(); ++k) {
      const Floats some = load(&scores[k * kLanes]);
      most[k] = some > most[k] ? some : most[k];  // what is no number is not higher than one
    }
  }
  std::array<float, kAtOnce> highest;
  std::memcpy(highest.data(), most.data(), sizeof most);
  const auto last = highest.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::nth_element(highest.begin(), last, highest.end(), std::greater<>());
  return *last;
}

// Of kAtOnce scores.
bool any_at_least(const float* scores, float least) {
  auto found = load(scores) >= least;
  for (std::size_t k = kLanes; k < kAtOnce; k += kLanes) found |= load(scores + k) >= least;
  std::array<std::uint64_t, sizeof found / sizeof(std::uint64_t)> words;
  std::memcpy(words.data(), &found, sizeof found);
  return (words[0] | words[1]) != 0;
}

}  // namespace

std::vector<ClassScore> top_classes(std::span<const float> scores, std::size_t count) {
  count = std::min(count, scores.size());
  std::vector<ClassScore> best;
  if (count == 0) return best;
  best.reserve(count + 1);
  const auto take = [&](std::size_t i) {
    const ClassScore one{i, scores[i]};
    if (best.size() == count && !better(one, best.back())) return;
    best.insert(std::upper_bound(best.begin(), best.end(), one, better), one);
    if (best.size() > count) best.pop_back();
  };
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const float least = count <= kAtOnce ? not_above_the_best(scores, count) : kLowest;
  std::size_t i = 0;
  for (; scores.size() - i >= kAtOnce; i += kAtOnce) {
    // Most are not among the best: many are passed over at once. Where all may be, so may what is no number.
    if (least > kLowest && !any_at_least(scores.data() + i, least)) continue;
    for (std::size_t k = 0; k < kAtOnce; ++k) {
      if (!(scores[i + k] < least)) take(i + k);
    }
  }
  for (; i < scores.size(); ++i) take(i);
  return best;
}

void take_scores(std::span<const float> scores, const ClassifierOptions& options, Outcome& outcome) {
  outcome.best = top_classes(scores, static_cast<std::size_t>(options.top));
  if (options.outputs) outcome.outputs.assign(scores.begin(), scores.end());
}

}  // namespace mobicuda::pictures
