// The blocks of MobileNetV3 that have a fused variant of their own.
#include <algorithm>
#include <string_view>

#include "kernels/inverted_residual_case.h"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;

InvertedResidualParams with_relu(InvertedResidualParams p) {
  p.expand_activation = p.depthwise_activation = kRelu;
  return p;
}

bool is_strip(InvertedResidualVariant variant) { return name(variant).starts_with("strip_"); }

int count_strips(const InvertedResidualParams& p) {
  int found = 0;
  for_each_variant(p, [&](InvertedResidualVariant variant) { found += is_strip(variant) ? 1 : 0; });
  return found;
}

/// Of the variants that `counts` says.
template <class Counts>
void check_exact(const InvertedResidualParams& p, const Data& data, const Tensor& oracle, const Counts& counts) {
  const Device device(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  for_each_variant(p, [&](InvertedResidualVariant variant) {
    if (counts(variant)) REQUIRE(compare_exact(device.run(variant), oracle.value, shape));
  });
}

TEST_CASE("inverted_residual runs the blocks of MobileNetV3 in strips") {
  MOBICUDA_SKIP_BELOW(90);
  for (const InvertedResidualLayer& layer : kMobileNetV3Blocks) {
    CAPTURE(layer.name);
    InvertedResidualParams p = block(layer, 1);
    REQUIRE(count_strips(p) >= 1);
    REQUIRE(count_strips(with_relu(p)) == count_strips(p));
    p.depthwise_activation.lo = -1.0F;
    REQUIRE(count_strips(p) == 0);
    p = block(layer, 1);
    p.c_out += 8;
    p.residual = false;
    REQUIRE(count_strips(p) == 0);
    p = block(layer, 1);
    p.elem = Elem::F32;
    REQUIRE(count_strips(p) == 0);
  }
}

TEST_CASE("inverted_residual equals the oracle on the blocks of MobileNetV3", "[large]") {
  std::uint32_t seed = 9000;
  for (const InvertedResidualLayer& layer : kMobileNetV3Blocks) {
    for (const int n : {1, 2}) {
      CAPTURE(layer.name, n);
      const InvertedResidualParams p = with_relu(block(layer, n));
      const int variants = check_against_oracle(p, random_data(p, seed, n == 1));
      REQUIRE((variants > 0 || gpu_traits().code < 90));  // older GPUs have variants for some of them
      seed += 10;
    }
  }
}

TEST_CASE("inverted_residual equals the oracle on MobileNetV3's channels in other sizes", "[sanitize]") {
  constexpr int kShapes = 60;
  constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 13, 14, 15, 17, 29, 30};
  Choice choose(17);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const InvertedResidualLayer& layer = kMobileNetV3Blocks[i % std::size(kMobileNetV3Blocks)];
    InvertedResidualParams p = block(1 + choose.upto(4), choose(kSizes), choose(kSizes), layer.c_in, layer.c_hidden,
                                     layer.c_out, layer.stride);
    p.pad_top = choose.upto(2);
    p.pad_left = choose.upto(2);
    p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, choose.upto(2));
    p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, choose.upto(2));
    if (p.out_h == 0 || p.out_w == 0) continue;
    p.residual = p.stride == 1 && p.c_in == p.c_out && p.out_h == p.h && p.out_w == p.w && choose.flip();
    p.expand_activation = kClips[1 + choose.upto(1)];
    p.depthwise_activation = kClips[1 + choose.upto(1)];
    p.project_clip = kClips[choose.upto(2)];
    CAPTURE(i);
    if (i % 2 == 0) {
      p.project_clip = {-2048.0F, 2048.0F};
      p.expand_activation = p.depthwise_activation = kRelu6;
      const Data data = integer_data(p, 9100 + 10 * i);
      check_exact(p, data, oracle_of(p, data), [](InvertedResidualVariant) { return true; });
    } else {
      check_against_oracle(p, random_data(p, 9100 + 10 * i, i % 4 != 1));
    }
  }
}

/// Three kernels would pass infinity on.
TEST_CASE("inverted_residual bounds what ReLU leaves by the largest half where depthwise multiplies by diagonals") {
  MOBICUDA_SKIP_BELOW(90);
  constexpr float kLargestHalf = 65504.0F;
  const auto has_diagonals = [](InvertedResidualVariant variant) {
    return is_strip(variant) || name(variant).starts_with("small_") || name(variant).starts_with("image");
  };
  const auto check = [&](const InvertedResidualLayer& layer, int h, int w) {
    CAPTURE(layer.name);
    InvertedResidualParams p = block(1, h, w, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
    if (!p.expand) return;
    p.residual = false;
    p.expand_activation = kRelu;
    p.project_clip = {-2048.0F, 2048.0F};
    Data data = integer_data(p, 9800);
    for (float& x : data.x) x *= 8192.0F;
    std::fill(data.expand_bias.begin(), data.expand_bias.end(), 0.0F);  // hidden values are exact in half
    InvertedResidualParams bounded = p;
    bounded.expand_activation.hi = kLargestHalf;
    check_exact(p, data, oracle_of(bounded, data), has_diagonals);
  };
  for (const InvertedResidualLayer& layer : kMobileNetV3Blocks) check(layer, 15, 17);
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks)
    check(layer, std::min(layer.size, 15), std::min(layer.size, 17));
}

TEST_CASE("inverted_residual passes NaN on in MobileNetV3's channels", "[sanitize]") {
  for (const InvertedResidualLayer& layer : kMobileNetV3Blocks) {
    CAPTURE(layer.name);
    const InvertedResidualParams p = block(2, 15, 16, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
    Data data = random_data(p, 9900);
    data.x[count_of(1, 7, 16, p.c_in) + 5] = kNan;
    data.x[input_count(p) - 1] = kNan;
    const Tensor oracle = oracle_of(p, data);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    for_each_variant(p, [&](InvertedResidualVariant variant) {
      REQUIRE(compare_elements(device.run(variant), oracle.value, oracle.bound, shape));
    });
  }
}

TEST_CASE("inverted_residual gives pictures of MobileNetV3's channels the same bits in any batch and every time") {
  constexpr int kPictures = 290;  // more pairs of strips than a GPU has warps for: some warps take a second one
  for (const InvertedResidualLayer& layer : kMobileNetV3Blocks) {
    CAPTURE(layer.name);
    const InvertedResidualParams p =
        with_relu(block(kPictures, 30, 29, layer.c_in, layer.c_hidden, layer.c_out, layer.stride));
    InvertedResidualParams one = p;
    one.n = 1;
    const std::size_t size = input_count(one);
    const Data all = random_data(p, 9950);
    const Device device(p, all);
    for_each_variant(p, [&](InvertedResidualVariant variant) {
      const std::vector<float> y = device.run(variant);
      REQUIRE(compare_bits(device.run(variant), y));
      for (const std::size_t n : {0, 13, kPictures - 1}) {
        Data alone = all;
        const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(n * size);
        alone.x.assign(from, from + static_cast<std::ptrdiff_t>(size));
        CAPTURE(n);
        const std::span<const float> in_batch(y.data() + n * output_count(one), output_count(one));
        REQUIRE(compare_bits(Device(one, alone).run(variant), in_batch));
      }
    });
  }
}

}  // namespace
}  // namespace mobicuda::test
