// Which kernels the rule takes for an inverted residual block in exact float:
// docs/kernels/inverted_residual_simt_cluster.md has the times. No GPU is needed.
#include "plan/choose_variant.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using kernels::InvertedResidualParams;
using kernels::InvertedResidualVariant;

constexpr GpuTraits kH100{90, 132};

InvertedResidualParams block(int n, int h, int w, int c_in, int c_out, int stride = 1) {
  InvertedResidualParams p;
  p.elem = kernels::Elem::F32;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = c_in;
  p.c_hidden = 6 * c_in;
  p.c_out = c_out;
  p.stride = stride;
  p.out_h = h / stride;
  p.out_w = w / stride;
  p.pad_top = p.pad_left = 1;
  p.residual = c_in == c_out;
  return p;
}

BlockForm form_of(const InvertedResidualParams& p, GpuTraits gpu = kH100) {
  return VariantChooser(gpu, {}).block_form(&p, nullptr).form;
}

TEST_CASE("the rule runs late blocks of few tiles in float by clusters") {
  using enum InvertedResidualVariant;
  const VariantChooser rule(kH100, {});
  for (const auto& [p, variant] : {std::pair{block(1, 14, 14, 64, 64), SimtCluster8K64N64},
                                   {block(4, 14, 14, 64, 64), SimtCluster8K64N64},
                                   {block(4, 14, 14, 64, 96), SimtCluster8K64N96},
                                   {block(1, 14, 14, 96, 96), SimtCluster8K96N96},
                                   {block(1, 14, 14, 96, 160, 2), SimtCluster8K96N160},
                                   {block(2, 7, 7, 160, 160), SimtCluster8K160N160},
                                   {block(2, 7, 7, 160, 320), SimtCluster8K160N320}}) {
    CAPTURE(p.n, p.h, p.c_in, p.c_out);
    CHECK(form_of(p) == BlockForm::Fused);
    CHECK(rule.inverted_residual(p) == variant);
  }
  for (const auto& p : {block(5, 14, 14, 64, 64), block(5, 14, 14, 64, 96), block(2, 14, 14, 96, 96),
                        block(2, 14, 14, 96, 160, 2), block(3, 7, 7, 160, 160), block(3, 7, 7, 160, 320)}) {
    CAPTURE(p.n, p.h, p.c_in, p.c_out);
    CHECK(form_of(p) == BlockForm::Layers);
  }
}

TEST_CASE("it is the tiles that count, for each multiprocessor") {
  CHECK(form_of(block(4, 56, 14, 64, 64)) == BlockForm::Layers);
  CHECK(form_of(block(1, 56, 14, 64, 64)) == BlockForm::Fused);
  CHECK(form_of(block(1, 28, 28, 96, 160, 2)) == BlockForm::Layers);
  CHECK(form_of(block(4, 14, 14, 64, 64), {90, 66}) == BlockForm::Layers);
  CHECK(form_of(block(2, 14, 14, 64, 64), {90, 66}) == BlockForm::Fused);
}

}  // namespace
}  // namespace mobicuda
