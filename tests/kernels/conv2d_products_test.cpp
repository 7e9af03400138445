// The variants of conv2d on tensor cores.
#include <limits>

#include "conv2d_case.h"

namespace mobicuda::test {
namespace {

using namespace conv2d_case;

/// One that the matrix products support; `few` for the exact mode's short sums.
Conv2dParams random_product(Choice& choose, bool few) {
  constexpr std::size_t kLargest = 1U << 18U;
  constexpr std::size_t kMostWork = 1U << 26U;
  constexpr int kInputGrid[] = {4, 8, 8, 12, 16, 20, 24, 40, 48, 64, 68, 72, 96, 128, 136, 180, 192, 256};
  constexpr int kFewInputs[] = {4, 8, 8, 12};
  constexpr int kOutputGrid[] = {1, 7, 8, 9, 16, 24, 30, 32, 33, 40, 64, 65, 72, 96, 127, 128, 136, 192, 264};
  constexpr int kGroupGrid[] = {1, 1, 1, 2, 3, 4};
  for (;;) {
    Conv2dParams p;
    p.elem = Elem::F16;
    p.n = choose(kBatchGrid);
    p.h = choose(kSizeGrid);
    p.w = choose(kSizeGrid);
    p.groups = choose(kGroupGrid);
    p.c_in = (few ? choose(kFewInputs) : choose(kInputGrid)) * p.groups;
    p.c_out = choose(kOutputGrid) * p.groups;
    if (p.groups > 1) p.c_out = p.c_out / p.groups * 8 * p.groups;
    p.kernel_h = choose(kKernelGrid);
    p.kernel_w = choose(kKernelGrid);
    p.dilation_h = 1 + choose.upto(2);
    p.dilation_w = 1 + choose.upto(2);
    p.stride_h = 1 + choose.upto(3);
    p.stride_w = 1 + choose.upto(3);
    p.pad_top = choose.upto(4);
    p.pad_left = choose.upto(4);
    p.out_h = output_extent(p.h, p.kernel_h, p.stride_h, p.dilation_h, p.pad_top, choose.upto(4));
    p.out_w = output_extent(p.w, p.kernel_w, p.stride_w, p.dilation_w, p.pad_left, choose.upto(4));
    p.bias = choose.flip();
    p.residual = choose.flip();
    p.activation = kClips[choose.upto(2)];
    if (p.out_h == 0 || p.out_w == 0 || input_count(p) > kLargest || output_count(p) > kLargest) continue;
    const std::size_t products = weight_count(p) / static_cast<std::size_t>(p.c_out);
    if (output_count(p) * products <= kMostWork) return p;
  }
}

TEST_CASE("conv2d equals the oracle on random shapes of matrix products") {
  constexpr int kShapes = 150;
  Choice choose(9);
  for (std::uint32_t i = 0; i < kShapes; ++i) check_against_oracle(random_product(choose, false), 3000 + 10 * i);
}

TEST_CASE("conv2d as a matrix product equals the oracle on layers of ResNet, VGG, Inception and CaffeNet") {
  struct Layer {
    int n, size, c_in, c_out, kernel, stride, pad, groups;
  };
  constexpr Layer kLayers[] = {
      {1, 56, 64, 64, 3, 1, 1, 1},    {3, 28, 128, 128, 3, 1, 1, 1}, {1, 14, 256, 256, 3, 1, 1, 1},
      {1, 7, 512, 512, 3, 1, 1, 1},   {2, 7, 512, 512, 3, 1, 1, 1},  {2, 56, 128, 128, 3, 2, 1, 1},
      {1, 56, 256, 512, 1, 2, 0, 1},  {2, 28, 64, 96, 5, 1, 2, 1},   {1, 35, 48, 64, 5, 1, 2, 1},
      {1, 27, 96, 256, 5, 1, 2, 2},   {1, 13, 384, 384, 3, 1, 1, 2}, {8, 28, 256, 512, 3, 1, 1, 1},
      {33, 14, 256, 256, 3, 1, 1, 1}, {5, 32, 16, 16, 3, 1, 1, 1},   {2, 299, 32, 64, 3, 2, 1, 1},
      {4, 14, 1024, 256, 1, 1, 0, 1}, {2, 56, 64, 256, 1, 1, 0, 1}};
  std::uint32_t seed = 5000;
  for (const Layer& layer : kLayers) {
    Conv2dParams p = stem(Elem::F16, Input::NhwcElem, layer.n, layer.size, layer.size, layer.c_out, layer.stride);
    p.c_in = layer.c_in;
    p.groups = layer.groups;
    p.kernel_h = p.kernel_w = layer.kernel;
    p.pad_top = p.pad_left = layer.pad;
    p.out_h = p.out_w = output_extent(layer.size, layer.kernel, layer.stride, 1, layer.pad, layer.pad);
    p.residual = layer.stride == 1;
    check_against_oracle(p, seed += 10);
  }
}

TEST_CASE("conv2d equals the oracle on first layers of ResNet, VGG, CaffeNet and LeNet") {
  struct Layer {
    int n, size, c_in, c_out, kernel, stride, pad;
  };
  constexpr Layer kLayers[] = {{2, 224, 3, 64, 7, 2, 3}, {1, 113, 3, 64, 3, 1, 1}, {1, 227, 3, 96, 11, 4, 0},
                               {3, 28, 1, 24, 5, 1, 0},  {2, 33, 4, 72, 4, 3, 2},  {1, 50, 2, 8, 9, 2, 1},
                               {1, 61, 3, 104, 3, 1, 1}};
  std::uint32_t seed = 6000;
  for (const Input input : {Input::NchwFloat, Input::NhwcFloat}) {
    for (const Layer& layer : kLayers) {
      Conv2dParams p = stem(Elem::F16, input, layer.n, layer.size, layer.size, layer.c_out, layer.stride);
      p.c_in = layer.c_in;
      p.kernel_h = p.kernel_w = layer.kernel;
      p.pad_top = p.pad_left = layer.pad;
      p.out_h = p.out_w = output_extent(layer.size, layer.kernel, layer.stride, 1, layer.pad, layer.pad);
      check_against_oracle(p, seed += 10);
    }
  }
}

TEST_CASE("conv2d in half equals the oracle on channels that are no multiple of 8, as in LeNet", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  struct Layer {
    int n, h, w, c_in, c_out, kernel, groups, stride, pad;
    bool tensor_cores;
  };
  constexpr Layer kLayers[] = {{3, 12, 12, 20, 50, 5, 1, 1, 0, true},  {1, 9, 7, 3, 7, 3, 1, 1, 0, false},
                               {2, 5, 6, 12, 24, 1, 2, 1, 0, false},   {5, 13, 9, 12, 33, 3, 1, 2, 1, true},
                               {2, 11, 14, 60, 48, 3, 3, 1, 2, true},  {1, 7, 5, 4, 1, 7, 1, 1, 3, true},
                               {2, 10, 10, 68, 135, 2, 1, 3, 0, true}, {9, 8, 8, 36, 64, 1, 1, 1, 0, true}};
  std::uint32_t seed = 8000;
  for (const Input input : {Input::NhwcElem, Input::NchwFloat}) {
    for (const Layer& layer : kLayers) {
      Conv2dParams p = stem(Elem::F16, input, layer.n, layer.h, layer.w, layer.c_out, layer.stride);
      p.c_in = layer.c_in;
      p.groups = layer.groups;
      p.kernel_h = p.kernel_w = layer.kernel;
      p.pad_top = p.pad_left = layer.pad;
      p.out_h = output_extent(layer.h, layer.kernel, layer.stride, 1, layer.pad, layer.pad);
      p.out_w = output_extent(layer.w, layer.kernel, layer.stride, 1, layer.pad, layer.pad);
      p.residual = true;
      const int on_tensor_cores = layer.tensor_cores && input == Input::NhwcElem ? 3 : 0;
      REQUIRE(for_each_variant(p, [](Conv2dVariant) {}) >= 4 + on_tensor_cores);  // direct and three products
      check_against_oracle(p, seed += 10);
    }
  }
}

constexpr Conv2dVariant kGroupedVariants[] = {Conv2dVariant::Grouped3x3, Conv2dVariant::Grouped3x3Tma};
constexpr std::span<const Conv2dVariant> kGrouped = kGroupedVariants;

TEST_CASE("conv2d equals the oracle on groups of few channels") {
  struct Layer {
    int n, h, w, groups, channels, stride, pad;
  };
  constexpr Layer kLayers[] = {{2, 56, 56, 64, 4, 1, 1},  {1, 56, 56, 64, 8, 2, 1},  {3, 14, 14, 64, 16, 1, 1},
                               {2, 7, 7, 64, 32, 1, 1},   {1, 28, 28, 32, 32, 2, 1}, {5, 9, 31, 6, 4, 1, 0},
                               {33, 5, 3, 3, 8, 2, 2},    {1, 1, 1, 2, 16, 1, 1},    {2, 113, 17, 5, 32, 1, 3},
                               {150, 14, 13, 10, 4, 2, 1}};
  std::uint32_t seed = 7000;
  for (const Layer& layer : kLayers) {
    Conv2dParams p = stem(Elem::F16, Input::NhwcElem, layer.n, layer.h, layer.w, 8, layer.stride);
    p.groups = layer.groups;
    p.c_in = p.c_out = layer.groups * layer.channels;
    p.pad_top = p.pad_left = layer.pad;
    p.out_h = output_extent(layer.h, 3, layer.stride, 1, layer.pad, layer.pad);
    p.out_w = output_extent(layer.w, 3, layer.stride, 1, layer.pad, 1);
    p.residual = layer.stride == 1;
    for (const Conv2dVariant variant : kGrouped) REQUIRE(kernels::supports(variant, p, kernels::traits_of(90, 132)));
    check_against_oracle(p, seed += 10);
  }
}

TEST_CASE("conv2d of groups is exact on small whole numbers", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const int channels : {4, 8, 16, 32}) {
    for (const int stride : {1, 2}) {
      const int h = channels == 8 ? 29 : 11;  // several tiles, one below the other
      Conv2dParams p = stem(Elem::F16, Input::NhwcElem, 2, h, 15, 8, stride);
      p.groups = channels == 4 ? 22 : 3;
      p.c_in = p.c_out = channels * p.groups;
      p.residual = true;
      Data data = integer_data(p, 48);
      for (float& weight : data.weight) weight = weight > 0.0F ? 1.0F : 0.0F;  // sums exact in half
      const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias, data.residual);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      const Device device(p, data);
      for_each_supported(kGrouped, p, [&](Conv2dVariant variant) {
        REQUIRE(compare_exact(device.run(variant), oracle.value, shape));
      });
    }
  }
}

// Whole tiles and parts of them, in both directions; tiles of two images and half of one; rings that wrap around, of
// one stage and of all; windows that are outside of the image.
TEST_CASE("conv2d of groups by tensor copies has the other variant's bits", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  struct Layer {
    int n, h, w, groups, channels, stride_h, stride_w, pad_top, pad_left, pad_bottom, pad_right;
  };
  constexpr Layer kLayers[] = {
      {1, 14, 14, 4, 16, 1, 1, 1, 1, 1, 1}, {5, 7, 7, 3, 32, 1, 1, 1, 1, 1, 1},   {1, 7, 8, 2, 32, 1, 1, 0, 1, 1, 0},
      {3, 9, 33, 9, 8, 1, 1, 1, 0, 0, 1},   {1, 37, 17, 10, 4, 1, 1, 1, 1, 1, 1}, {2, 15, 29, 5, 16, 2, 2, 1, 1, 1, 1},
      {2, 16, 18, 3, 32, 2, 2, 0, 0, 1, 1}, {9, 5, 9, 18, 4, 2, 2, 1, 1, 0, 0},   {1, 12, 19, 5, 8, 1, 2, 0, 1, 1, 1},
      {2, 13, 20, 2, 16, 2, 1, 1, 1, 1, 0}, {3, 1, 1, 3, 8, 1, 1, 1, 1, 1, 1},    {2, 4, 3, 2, 4, 1, 1, 4, 3, 5, 4},
      {151, 3, 3, 2, 16, 1, 1, 1, 1, 1, 1}, {201, 2, 5, 2, 4, 1, 1, 1, 1, 1, 1},  {40, 14, 14, 2, 8, 1, 1, 1, 1, 1, 1},
      {70, 3, 12, 2, 32, 2, 1, 1, 1, 1, 1}, {1, 6, 16, 3, 8, 1, 1, 1, 1, 1, 1},   {1, 9, 31, 2, 16, 2, 2, 1, 1, 1, 1}};
  std::uint32_t seed = 9000;
  for (const Layer& layer : kLayers) {
    Conv2dParams p = stem(Elem::F16, Input::NhwcElem, layer.n, layer.h, layer.w, layer.groups * layer.channels, 1);
    p.groups = layer.groups;
    p.c_in = p.c_out;
    p.stride_h = layer.stride_h;
    p.stride_w = layer.stride_w;
    p.pad_top = layer.pad_top;
    p.pad_left = layer.pad_left;
    p.out_h = output_extent(layer.h, 3, layer.stride_h, 1, layer.pad_top, layer.pad_bottom);
    p.out_w = output_extent(layer.w, 3, layer.stride_w, 1, layer.pad_left, layer.pad_right);
    for (const bool adds : {false, true}) {  // at first clipped
      p.bias = p.residual = adds;
      if (adds) p.activation = kernels::Activation(kernels::ActivationKind::HardSwish);
      const Device device(p, random_data(p, seed += 10));
      CAPTURE(p);
      REQUIRE(compare_bits(device.run(Conv2dVariant::Grouped3x3Tma), device.run(Conv2dVariant::Grouped3x3)));
    }
  }
}

TEST_CASE("conv2d of groups: NaN stays with the channels of its products", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  constexpr int kChannels = 8;
  Conv2dParams p = stem(Elem::F16, Input::NhwcElem, 1, 5, 6, 3 * kChannels, 1);
  p.groups = 3;
  p.c_in = p.c_out;
  Data data = random_data(p, 71);
  constexpr std::size_t kPixel = 2 * 6 + 2;  // at (2, 2)
  data.x[kPixel * 3 * kChannels + kChannels] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = Device(p, data).run(Conv2dVariant::Grouped3x3Tma);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t channel = i % (3 * kChannels);
    const std::size_t pixel = i / (3 * kChannels);
    const bool sees = pixel / 6 >= 1 && pixel / 6 <= 3 && pixel % 6 >= 1 && pixel % 6 <= 3;
    CAPTURE(pixel, channel);
    REQUIRE(std::isnan(y[i]) == (sees && channel / kChannels == 1));
  }
}

constexpr Conv2dVariant kFirstVariants[] = {Conv2dVariant::First32, Conv2dVariant::First64, Conv2dVariant::First96};
constexpr std::span<const Conv2dVariant> kFirst = kFirstVariants;

TEST_CASE("conv2d of a network's input is exact where blocks walk over tiles", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  struct Layer {
    int h, w, kernel, stride, c_out;
  };
  // More tiles than tests/emulator runs at once; then windows of more pixels than come while a tile is multiplied.
  constexpr Layer kLayers[] = {{81, 77, 3, 1, 8}, {131, 133, 2, 6, 104}};
  for (const Input input : {Input::NchwFloat, Input::NhwcFloat}) {
    for (const Layer& layer : kLayers) {
      Conv2dParams p = stem(Elem::F16, input, 3, layer.h, layer.w, layer.c_out, layer.stride);
      p.kernel_h = p.kernel_w = layer.kernel;
      p.out_h = output_extent(layer.h, layer.kernel, layer.stride, 1, 1, 1);
      p.out_w = output_extent(layer.w, layer.kernel, layer.stride, 1, 1, 1);
      Data data = integer_data(p, 58);
      for (float& weight : data.weight) weight = weight > 0.0F ? 1.0F : 0.0F;  // sums exact in half
      const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias, data.residual);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      const Device device(p, data);
      CAPTURE(layer.stride);
      const int variants = for_each_supported(
          kFirst, p, [&](Conv2dVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
      REQUIRE(variants >= 2);
    }
  }
}

TEST_CASE("conv2d gives a network's input the same bits in every batch and variant of first layers", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  Conv2dParams p = stem(Elem::F16, Input::NchwFloat, 3, 37, 45, 40, 2);
  p.kernel_h = p.kernel_w = 7;
  p.pad_top = p.pad_left = 3;
  const Data data = random_data(p, 59);
  const Device device(p, data);
  Conv2dParams one = p;
  one.n = 1;
  const std::vector<float> expected = device.run(kFirst[0]);
  const std::size_t pixels = input_count(one);
  for_each_supported(kFirst, p, [&](Conv2dVariant variant) {
    REQUIRE(compare_bits(device.run(variant), expected));
    for (std::size_t n = 0; n < 3; ++n) {
      Data alone = data;
      alone.x.assign(data.x.begin() + static_cast<std::ptrdiff_t>(n * pixels),
                     data.x.begin() + static_cast<std::ptrdiff_t>((n + 1) * pixels));
      const std::vector<float> y = Device(one, alone).run(variant);
      REQUIRE(compare_bits(y, std::vector<float>(expected.begin() + static_cast<std::ptrdiff_t>(n * y.size()),
                                                 expected.begin() + static_cast<std::ptrdiff_t>((n + 1) * y.size()))));
    }
  });
}

TEST_CASE("conv2d as a matrix product gives a picture the same bits in every batch and place") {
  const auto part = [](const std::vector<float>& all, std::size_t count, std::size_t index) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(index * count);
    return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count));
  };
  for (const int c_in : {20, 64}) {
    Conv2dParams p = stem(Elem::F16, Input::NhwcElem, 5, 9, 7, 72, 1);
    p.c_in = c_in;
    p.residual = true;
    const Data data = random_data(p, 46);
    const Device device(p, data);
    Conv2dParams one = p;
    one.n = 1;
    for_each_variant(p, [&](Conv2dVariant variant) {
      const std::vector<float> all = device.run(variant);
      for (std::size_t n = 0; n < 5; ++n) {
        Data alone = data;
        alone.x = part(data.x, input_count(one), n);
        alone.residual = part(data.residual, output_count(one), n);
        REQUIRE(compare_bits(Device(one, alone).run(variant), part(all, output_count(one), n)));
      }
    });
  }
}

TEST_CASE("conv2d as a matrix product is exact on small whole numbers", "[sanitize][slow]") {
  constexpr std::uint32_t kShapes = 50;
  constexpr std::size_t kProductsExactInHalf = 125;
  Choice choose(6);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    Conv2dParams p;
    do {
      p = random_product(choose, true);
    } while (weight_count(p) / static_cast<std::size_t>(p.c_out) > kProductsExactInHalf);
    const Data data = integer_data(p, 150 + i);
    const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias, data.residual);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    for_each_variant(p,
                     [&](Conv2dVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
  }
}

TEST_CASE("conv2d as a matrix product passes NaN and infinity on, to the windows that see them only", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const int c_in : {72, 76}) {
    Conv2dParams p = stem(Elem::F16, Input::NhwcElem, 2, 13, 11, 40, 2);
    p.c_in = c_in;
    p.dilation_w = 2;
    Data data = random_data(p, 47);
    data.x[count_of(1, 3, 5, c_in)] = kNan;
    data.x[count_of(1, 13, 11, c_in) + 71] = kInfinity;
    data.x[count_of(2, 13, 11, c_in) - 1] = -kInfinity;
    const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    const int variants = for_each_variant(p, [&](Conv2dVariant variant) {
      REQUIRE(compare_elements(device.run(variant), oracle.value, bounds_of(variant, p, oracle), shape));
    });
    REQUIRE(variants > 2);
  }
}

}  // namespace
}  // namespace mobicuda::test
