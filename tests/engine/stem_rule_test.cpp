// Which kernel the rule takes for the first convolution and the block without expansion behind it:
// kernels/stem_block/README.md has the times. No GPU is needed.
#include <optional>
#include <string>

#include "choose/rules.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using kernels::Elem;
using kernels::StemBlockParams;
using kernels::StemBlockVariant;

constexpr kernels::DeviceTraits kH200 = kernels::traits_of(90, 132);

/// Of MobileNetV2.
StemBlockParams stem(Elem elem, int n) {
  StemBlockParams p;
  p.elem = elem;
  p.n = n;
  p.h = p.w = 224;
  p.c_stem = 32;
  p.c_out = 16;
  p.stem_h = p.stem_w = p.out_h = p.out_w = 112;
  p.stem_pad_top = p.stem_pad_left = p.depthwise_pad_top = p.depthwise_pad_left = 1;
  p.stem_clip = p.depthwise_clip = {0.0F, 6.0F};
  return p;
}

std::optional<StemBlockVariant> fused(const Rules& rules, const StemBlockParams& params) {
  const auto found = rules.fused(params);
  return found ? std::optional(found->variant) : std::nullopt;
}

TEST_CASE("the rule takes variants of the stem's element") {
  using enum StemBlockVariant;
  const Rules rule(kH200, {});
  CHECK(fused(rule, stem(Elem::F16, 1)) == Rows2);
  CHECK(fused(rule, stem(Elem::F32, 1)) == Simt7x14);
  CHECK(fused(rule, stem(Elem::F32, 256)) == Dmma14x14);
  CHECK(fused(Rules(kernels::traits_of(120, 170), {}), stem(Elem::F32, 256)) == Simt14x14);
  CHECK(fused(Rules(kernels::traits_of(80, 108), {}), stem(Elem::F32, 256)) == std::nullopt);
  CHECK(fused(rule, stem(Elem::F64, 1)) == std::nullopt);
}

TEST_CASE("a variant asked for by name fuses stems of its element only") {
  using enum StemBlockVariant;
  const Rules half(kH200, {{"stem_block", "rows28"}});
  CHECK(fused(half, stem(Elem::F16, 1)) == Rows28);
  CHECK(fused(half, stem(Elem::F32, 1)) == std::nullopt);
  std::string message;
  try {
    half.variant(stem(Elem::F32, 1));
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("'rows28' of 'stem_block'") != std::string::npos);
  const Rules exact(kH200, {{"stem_block", "simt_14x14"}});
  CHECK(fused(exact, stem(Elem::F16, 1)) == std::nullopt);
  CHECK(fused(exact, stem(Elem::F32, 1)) == Simt14x14);
}

}  // namespace
}  // namespace mobicuda
