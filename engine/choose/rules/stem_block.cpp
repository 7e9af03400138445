#include "choose/rules/preferences.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum StemBlockVariant;

struct StemShape {
  const StemBlockParams& params;
  int multiprocessors;

  // Warps of so many output rows and 28 columns for each SM.
  double warps(int rows) const {
    constexpr int kColumns = 28;
    return static_cast<double>(params.n) * ceil_div(params.out_h, rows) * ceil_div(params.out_w, kColumns) /
           multiprocessors;
  }
};

// clang-format off
constexpr Row<StemShape, StemBlockVariant> kRows[] = {
    {MOBICUDA_WHEN(s.warps(56) >= 7), {Rows56}, "warps of 56 rows fill the GPU"},
    {MOBICUDA_WHEN(s.warps(28) >= 7), {Rows28}, "warps of 28 rows fill the GPU"},
    {MOBICUDA_WHEN(s.warps(14) >= 3.3), {Rows14}, "warps of 14 rows fill the GPU"},
    {MOBICUDA_WHEN(s.warps(7) >= 3.3), {Rows7}, "warps of 7 rows fill the GPU"},
    {MOBICUDA_WHEN(s.warps(4) >= 3.3), {Rows4}, "warps of 4 rows fill the GPU"},
    {MOBICUDA_ALWAYS, {Rows2}, "few images: warps of 2 rows"},
};
// clang-format on

}  // namespace

Preferences<StemBlockVariant> preferences(const StemBlockParams& params, const DeviceTraits& gpu) {
  Preferences<StemBlockVariant> found;
  append(kRows, StemShape{params, gpu.multiprocessors}, found);
  return found;
}

std::string_view why_fused(const StemBlockParams&, const DeviceTraits&) {
  return "one launch for the first three layers";
}

// A form asked for of all blocks is meant for the first one too.
FusedOption fused_option(const StemBlockParams&) { return {"stem", "block"}; }

std::vector<RuleText> rule_texts(const StemBlockParams&) { return {text_of("stem_block", kRows)}; }

}  // namespace mobicuda
