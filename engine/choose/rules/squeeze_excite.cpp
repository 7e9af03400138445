#include <cstdint>

#include "choose/rules/preferences.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum SqueezeExciteVariant;

struct GateShape {
  double images;       // for each SM
  std::int64_t bytes;  // of an image
};

// Two blocks for each SM, each with half of its shared memory at the most: of as few ranks as that allows.
// clang-format off
constexpr Row<GateShape, SqueezeExciteVariant> kRows[] = {
    {MOBICUDA_WHEN(s.images * 2 >= 2 && s.bytes / 2 <= 100 * 1024), {Cluster2}, "clusters of two fill the GPU"},
    {MOBICUDA_WHEN(s.images * 4 >= 2 && s.bytes / 4 <= 100 * 1024), {Cluster4}, "clusters of four fill the GPU"},
    {MOBICUDA_ALWAYS, {Cluster8}, "few images: clusters of eight"},
    {MOBICUDA_ALWAYS, {Cluster8Reread}, "images too large for shared memory"},
};
// clang-format on

}  // namespace

Preferences<SqueezeExciteVariant> preferences(const SqueezeExciteParams& params, const DeviceTraits& gpu) {
  const GateShape shape{static_cast<double>(params.n) / gpu.multiprocessors,
                        std::int64_t{params.pixels} * params.c * static_cast<std::int64_t>(size_of(params.elem))};
  Preferences<SqueezeExciteVariant> found;
  append(kRows, shape, found);
  return found;
}

std::string_view why_fused(const SqueezeExciteParams&, const DeviceTraits&) {
  return "one launch for mean, products and gates";
}

FusedOption fused_option(const SqueezeExciteParams&) { return {"gate"}; }

std::vector<RuleText> rule_texts(const SqueezeExciteParams&) { return {text_of("squeeze_excite", kRows)}; }

}  // namespace mobicuda
