#include "choose/kernels.h"
#include "choose/pointwise_layer.h"

namespace mobicuda {
namespace {

using namespace kernels;
using enum PointwisePoolVariant;

using HeadRow = Row<PointwisePoolParams, PointwisePoolVariant>;

// clang-format off
constexpr HeadRow kPays[] = {
    {MOBICUDA_WHEN(s.n <= 4), {}, "one launch pays for few images"},
    {MOBICUDA_WHEN(s.n >= 16 && s.pixels > 40 && s.c <= 1280), {Pictures2N128}, "one launch pays for many images"},
    {MOBICUDA_ALWAYS, {WgmmaN128}, "one launch with wgmma"},
    {MOBICUDA_ALWAYS, {WgmmaPaddedN128}, "one launch with wgmma"},
};
constexpr HeadRow kRows[] = {
    {MOBICUDA_WHEN(s.n >= 2), {WgmmaN128, WgmmaPaddedN128}, "wgmma, whole images"},
    {MOBICUDA_WHEN(s.n >= 16), {Pictures2N128, Slice32}, "many images: wide slices"},
    {MOBICUDA_WHEN(s.n < 2 && s.c_in > 320), {WgmmaPaddedN128, WgmmaN128}, "one image of many channels"},
    {MOBICUDA_WHEN(s.n < 2 && (s.c > 1280 || s.pixels <= 9)), {Slice8}, "one image: narrow slices of many channels"},
    {MOBICUDA_ALWAYS, {Slice16, Slice8}, "few images: narrow slices"},
    {MOBICUDA_ALWAYS, {SimtSlice16, SimtSlice8}, "exact float"},
};
// clang-format on

Conv2dParams convolution_of(const PointwisePoolParams& head) {
  Conv2dParams params = pointwise_layer(images_of_pixels(head.elem, head.n, head.pixels), head.c_in, head.c);
  params.bias = head.bias;
  params.activation = head.activation;
  return params;
}

}  // namespace

Preferences<PointwisePoolVariant> preferences(const PointwisePoolParams& params, const DeviceTraits&) {
  Preferences<PointwisePoolVariant> found;
  append(kRows, params, found);
  return found;
}

std::string_view why_fused(const PointwisePoolParams& params, const DeviceTraits& gpu) {
  return first_why(kPays, params, [&](PointwisePoolVariant variant) { return supports(variant, params, gpu); });
}

FusedOption fused_option(const PointwisePoolParams&) { return {"head"}; }

std::vector<LayerApart> layers_apart(const PointwisePoolParams& head) {
  return {convolution_of(head), timed(GlobalAveragePoolParams{head.elem, head.n, head.pixels, 1, head.c})};
}

std::vector<RuleText> rule_texts(const PointwisePoolParams&) {
  return {text_of("pointwise_pool, where it pays", kPays), text_of("pointwise_pool", kRows)};
}

}  // namespace mobicuda
