#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "conv2d_case.h"
#include "support/emulated.h"

namespace mobicuda::test {
namespace {

using namespace conv2d_case;

/// A first layer of three channels that the variant on tensor cores with a split input supports.
Conv2dParams split_stem(Input input, int h, int w, int c_out) {
  Conv2dParams p = stem(Elem::F16, input, 2, h, w, c_out, 2);
  REQUIRE(kernels::supports(Conv2dVariant::Stem3x3Split, p, kernels::traits_of(90, 132)));
  return p;
}

TEST_CASE("conv2d with a split input equals the oracle for every width, padding and layout", "[sanitize]") {
  for (const Input input : {Input::NchwFloat, Input::NhwcFloat}) {
    for (const int c_out : {16, 32}) {
      // Widths of whole 16-byte chunks and others; tiles are 8 x 16 outputs.
      for (const int w : {1, 3, 4, 8, 30, 31, 32, 33, 36, 63, 64, 68, 100}) {
        check_against_oracle(split_stem(input, 35, w, c_out), 81);
      }
      for (const int h : {1, 2, 15, 16, 17, 18, 33}) check_against_oracle(split_stem(input, h, 36, c_out), 82);
      for (int pad = 0; pad <= 9; pad += is_emulated() ? 3 : 1) {
        Conv2dParams p = split_stem(input, 20, 40, c_out);
        p.pad_top = 9 - pad;
        p.pad_left = pad;
        p.out_h = output_extent(p.h, 3, 2, 1, p.pad_top, pad);
        p.out_w = output_extent(p.w, 3, 2, 1, p.pad_left, 1);
        p.activation = kNone;
        check_against_oracle(p, 83);
        p.bias = false;
        check_against_oracle(p, 84);
      }
    }
  }
}

TEST_CASE("conv2d with a split input takes floats beyond half's range and below it") {
  MOBICUDA_SKIP_BELOW(80);
  for (const float scale : {0x1p-24F, 0x1p-14F, 0x1p14F, 0x1p30F}) {
    Conv2dParams p = split_stem(Input::NchwFloat, 19, 36, 32);
    p.activation = kNone;
    p.bias = false;
    Data data = random_data(p, 85);
    for (float& value : data.x) value *= scale;
    // So that results are of half's normal range.
    const float weight_scale = std::clamp(1.0F / scale, 0x1p-10F, 0x1p10F);
    for (float& value : data.weight) value *= weight_scale;
    const Oracle oracle = conv2d(oracle_of(p), data.x, rounded(p.elem, data.weight), data.bias);
    const Device device(p, data);
    const std::vector<float> y = device.run(Conv2dVariant::Stem3x3Split);
    CAPTURE(scale);
    const bool overflows = scale > 0x1p20F;
    for (std::size_t i = 0; overflows && i < y.size(); ++i) {
      if (std::abs(oracle.value[i]) > 65536.0) REQUIRE(std::isinf(y[i]));
    }
    if (!overflows) {
      REQUIRE(compare_elements(y, oracle.value, bounds_of(Conv2dVariant::Stem3x3Split, p, oracle)));
    }
  }
}

TEST_CASE("conv2d with a split input keeps the bits of a float, and infinity", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  Conv2dParams p = split_stem(Input::NchwFloat, 4, 4, 16);
  p.activation = kNone;
  p.bias = false;
  const std::vector<float> ones(weight_count(p), 1.0F);
  for (const float little : {0x1p-12F, 0x1p-20F}) {
    std::vector<float> x(input_count(p), 0.0F);
    x[0] = 1.0F + little;
    x[1] = -1.0F;
    const Device device(p, Data{x, ones, {}, {}});
    REQUIRE(std::abs(device.run(Conv2dVariant::Stem3x3Split)[0] - little) <= 0x1p-22F);
  }
  for (const float large : {kInfinity, -kInfinity, std::numeric_limits<float>::max(), kNan}) {
    for (std::size_t at = 0; at < 48; ++at) {
      std::vector<float> x(input_count(p), 0.0F);
      x[at] = large;
      const Data data{x, ones, {}, {}};
      const Oracle oracle = conv2d(oracle_of(p), x, ones, {});
      const std::vector<float> y = Device(p, data).run(Conv2dVariant::Stem3x3Split);
      for (std::size_t i = 0; i < y.size(); ++i) {
        CAPTURE(large, at, i);
        if (std::isnan(oracle.value[i])) {
          REQUIRE(std::isnan(y[i]));
        } else if (oracle.value[i] != 0.0) {
          REQUIRE(y[i] == std::copysign(kInfinity, large));
        } else {
          REQUIRE(y[i] == 0.0F);
        }
      }
    }
  }
}

TEST_CASE("conv2d with a split input gives a picture the same bits in every batch and alignment") {
  MOBICUDA_SKIP_BELOW(80);
  Conv2dParams p = split_stem(Input::NchwFloat, 64, 64, 32);
  p.n = 9;
  const Data all = random_data(p, 86);
  const std::vector<float> expected = Device(p, all).run(Conv2dVariant::Stem3x3Split);
  Conv2dParams one = p;
  one.n = 1;
  const auto picture = static_cast<std::ptrdiff_t>(input_count(one));
  const Data last{{all.x.end() - picture, all.x.end()}, all.weight, all.bias, {}};
  const std::span<const float> expected_last(expected.data() + 8 * output_count(one), output_count(one));
  REQUIRE(compare_bits(Device(one, last).run(Conv2dVariant::Stem3x3Split), expected_last));
  for (const std::size_t floats : {1, 2, 3}) {  // copies of one float
    REQUIRE(compare_bits(Device(one, last, floats).run(Conv2dVariant::Stem3x3Split), expected_last));
  }
  one.input = Input::NhwcFloat;  // copies of one float
  REQUIRE(compare_bits(Device(one, last).run(Conv2dVariant::Stem3x3Split), expected_last));
}

}  // namespace
}  // namespace mobicuda::test
