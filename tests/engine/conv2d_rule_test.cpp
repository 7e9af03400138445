// Which kernel the rule takes for a convolution that is no matrix product of chunks of 8 channels. No GPU is needed.
#include "choose/rules.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using kernels::ActivationKind;
using kernels::Conv2dParams;
using kernels::Conv2dVariant;
using kernels::Elem;

constexpr kernels::DeviceTraits kH200 = kernels::traits_of(90, 132);

/// LeNet's second.
Conv2dParams lenet(int n) {
  Conv2dParams p;
  p.elem = Elem::F16;
  p.n = n;
  p.h = p.w = 12;
  p.out_h = p.out_w = 8;
  p.c_in = 20;
  p.c_out = 50;
  p.kernel_h = p.kernel_w = 5;
  p.activation = kernels::Activation(ActivationKind::Tanh);
  return p;
}

TEST_CASE("the rule runs LeNet's second convolution on tensor cores, by larger tiles in larger batches") {
  using enum Conv2dVariant;
  const Rules rule(kH200, {});
  for (const int n : {1, 8, 32}) CHECK(rule.variant(lenet(n)).variant == Mma32x32x64C4);
  CHECK(rule.variant(lenet(256)).variant == Mma64x64x64C4);
  Conv2dParams narrow = lenet(256);
  narrow.c_out = 32;
  CHECK(rule.variant(narrow).variant == Mma64x32x64C4);
}

TEST_CASE("the rule gathers chunks of 4 channels only where chunks of 8 cross the border between taps") {
  using enum Conv2dVariant;
  const auto of_four = [](const Conv2dParams& p, const kernels::DeviceTraits& gpu) {
    const Conv2dVariant taken = Rules(gpu, {}).variant(p).variant;
    return taken == Mma64x64x64C4 || taken == Mma64x32x64C4 || taken == Mma32x32x64C4;
  };
  Conv2dParams p = lenet(32);
  CHECK(of_four(p, kernels::traits_of(80, 108)));
  CHECK_FALSE(of_four(p, kernels::traits_of(75, 40)));
  p.c_in = 24;
  CHECK_FALSE(of_four(p, kH200));
  p.c_in = 22;
  CHECK_FALSE(of_four(p, kH200));
  p = lenet(32);
  p.groups = 5;  // of 4 inputs and 10 outputs
  CHECK_FALSE(of_four(p, kH200));
  p.c_out = 80;
  CHECK(of_four(p, kH200));
  p.elem = Elem::F32;
  CHECK_FALSE(of_four(p, kH200));
}

}  // namespace
}  // namespace mobicuda
