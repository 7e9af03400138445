#include "kernels/conv2d.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/conv_shapes.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

std::ostream& operator<<(std::ostream& out, const Conv2dParams& p) {
  constexpr const char* kInputs[] = {"NHWC", "NCHW float", "NHWC float", "NHWC bytes"};
  return out << test::to_string(p.elem) << " from " << kInputs[static_cast<int>(p.input)] << " n" << p.n << ' ' << p.h
             << 'x' << p.w << 'x' << p.c_in << " -> " << p.out_h << 'x' << p.out_w << 'x' << p.c_out << " kernel "
             << p.kernel_h << 'x' << p.kernel_w << " stride " << p.stride_h << ',' << p.stride_w << " dilation "
             << p.dilation_h << ',' << p.dilation_w << " pad " << p.pad_top << ',' << p.pad_left << " groups "
             << p.groups << " bias " << p.bias << " residual " << p.residual << " clip " << p.activation.lo << ".."
             << p.activation.hi;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test {
namespace {

using kernels::Clip;
using kernels::Conv2dParams;
using kernels::Conv2dVariant;
using Input = Conv2dParams::Input;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Clip kNone{-kInfinity, kInfinity};
constexpr Clip kRelu6{0.0F, 6.0F};
constexpr Clip kClips[] = {kNone, {0.0F, kInfinity}, kRelu6};
constexpr Input kInputs[] = {Input::NhwcElem, Input::NchwFloat, Input::NhwcFloat};  // of all variants
constexpr std::size_t kSampledPixels = 2048;
constexpr std::size_t kAlarmElements = 4096;  // of a result large enough for the whole-tensor alarm

std::size_t count_of(int n, int h, int w, int c) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(h) * static_cast<std::size_t>(w) *
         static_cast<std::size_t>(c);
}

std::size_t input_count(const Conv2dParams& p) { return count_of(p.n, p.h, p.w, p.c_in); }
std::size_t output_count(const Conv2dParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c_out); }
std::size_t weight_count(const Conv2dParams& p) { return count_of(p.c_out, p.kernel_h, p.kernel_w, p.c_in / p.groups); }
Elem input_elem(const Conv2dParams& p) { return p.input == Input::NhwcElem ? p.elem : Elem::F32; }

OracleConv oracle_of(const Conv2dParams& p) {
  OracleConv o;
  o.n = p.n;
  o.h = p.h;
  o.w = p.w;
  o.c_in = p.c_in;
  o.c_out = p.c_out;
  o.groups = p.groups;
  o.out_h = p.out_h;
  o.out_w = p.out_w;
  o.kernel_h = p.kernel_h;
  o.kernel_w = p.kernel_w;
  o.stride_h = p.stride_h;
  o.stride_w = p.stride_w;
  o.dilation_h = p.dilation_h;
  o.dilation_w = p.dilation_w;
  o.pad_top = p.pad_top;
  o.pad_left = p.pad_left;
  o.clip = {static_cast<double>(p.activation.lo), static_cast<double>(p.activation.hi)};
  return o;
}

/// Inputs as stored, on the host; x in NHWC whatever the kernel reads.
struct Data {
  std::vector<float> x, weight, bias, residual;
};

Data random_data(const Conv2dParams& p, std::uint32_t seed) {
  Data data;
  data.x = rounded(input_elem(p), random_uniform(seed, input_count(p)));
  data.weight = rounded(p.elem, random_uniform(seed + 1, weight_count(p)));
  if (p.bias) data.bias = random_uniform(seed + 2, static_cast<std::size_t>(p.c_out));
  if (p.residual) data.residual = rounded(p.elem, random_uniform(seed + 3, output_count(p)));
  return data;
}

Data integer_data(const Conv2dParams& p, std::uint32_t seed) {
  Data data{random_integers(seed, input_count(p)), random_integers(seed + 1, weight_count(p)), {}, {}};
  if (p.bias) data.bias = random_integers(seed + 2, static_cast<std::size_t>(p.c_out));
  if (p.residual) data.residual = random_integers(seed + 3, output_count(p));
  return data;
}

std::vector<float> to_nchw(const Conv2dParams& p, const std::vector<float>& nhwc) {
  const auto pixels = static_cast<std::size_t>(p.h) * static_cast<std::size_t>(p.w);
  const auto channels = static_cast<std::size_t>(p.c_in);
  std::vector<float> nchw(nhwc.size());
  for (std::size_t n = 0; n < static_cast<std::size_t>(p.n); ++n) {
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      for (std::size_t c = 0; c < channels; ++c) {
        nchw[(n * channels + c) * pixels + pixel] = nhwc[(n * pixels + pixel) * channels + c];
      }
    }
  }
  return nchw;
}

/// The inputs on the GPU, for all variants.
class Device {
 public:
  Device(const Conv2dParams& p, const Data& data)
      : params_(p),
        x_(input_elem(p), p.input == Input::NchwFloat ? to_nchw(p, data.x) : data.x),
        packed_(pack(p, data.weight)),
        bias_(Elem::F32, data.bias),
        residual_(p.elem, data.residual) {}

  std::vector<float> run(Conv2dVariant variant) const {
    const auto enqueue = [&](void* out, const kernels::Launch& where) {
      return kernels::conv2d(variant, params_, x_.data(), packed_.data(), bias_.floats(), residual_.data(), out, where);
    };
    std::vector<float> y = run_kernel(params_.elem, output_count(params_), 0, enqueue);
    CHECK(x_.check_unchanged());
    CHECK(packed_.check_unchanged());
    CHECK(bias_.check_unchanged());
    CHECK(residual_.check_unchanged());
    return y;
  }

 private:
  static GuardedBuffer pack(const Conv2dParams& p, const std::vector<float>& weight) {
    std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
    kernels::conv2d_pack(p, weight.data(), packed.data());
    return GuardedBuffer(packed);
  }

  Conv2dParams params_;
  DeviceTensor x_;
  GuardedBuffer packed_;
  DeviceTensor bias_;
  DeviceTensor residual_;
};

/// Products of halves, summed on tensor cores.
bool on_tensor_cores(Conv2dVariant variant, const Conv2dParams& p) {
  return p.elem == Elem::F16 && kernels::conv2d_tile(variant).bk > 0;
}

/// Takes the network's input as half.
bool rounds_input(Conv2dVariant variant) {
  return variant == Conv2dVariant::First32 || variant == Conv2dVariant::First64;
}

/// The oracles of a result: of the input as it is, and as half.
struct Oracles {
  template <class Compute>
  Oracles(const Conv2dParams& p, const std::vector<float>& x, const Compute& compute) : exact(compute(x)) {
    if (p.elem == Elem::F16 && p.input != Input::NhwcElem) from_half = compute(rounded(Elem::F16, x));
  }
  const Oracle& of(Conv2dVariant variant) const { return rounds_input(variant) ? from_half : exact; }

  Oracle exact, from_half;
};

/// Products of a sum, zeros that the variant computes with the others among them.
std::int64_t products_of(Conv2dVariant variant, const Conv2dParams& p, const Oracle& oracle) {
  constexpr int kMatrixInputs = 16;
  if (rounds_input(variant)) return std::int64_t{p.kernel_h} * kernels::round_up(p.kernel_w, 4) * 4;
  if (variant == Conv2dVariant::Grouped3x3) {
    return std::int64_t{p.kernel_h} * p.kernel_w * kernels::round_up(p.c_in / p.groups, kMatrixInputs);
  }
  return oracle.products;
}

std::vector<double> bounds_of(Conv2dVariant variant, const Conv2dParams& p, const Oracle& oracle) {
  const double error = on_tensor_cores(variant, p) ? gamma_tensor_core(products_of(variant, p, oracle))
                                                   : gamma(oracle.products, unit_of(p.elem));
  return hard_bounds(error, oracle.magnitude, oracle.value, store_of(p.elem));
}

/// Calls body(variant) for all that support the parameters; returns how many.
template <class Body>
int for_each_variant(const Conv2dParams& p, const Body& body) {
  int count = 0;
  for (const Conv2dVariant variant : kernels::conv2d_variants()) {
    if (!kernels::supports(variant, p, compute_capability())) continue;
    CAPTURE(kernels::name(variant), p);
    body(variant);
    ++count;
  }
  return count;
}

void check_against_oracle(const Conv2dParams& p, std::uint32_t seed) {
  const Data data = random_data(p, seed);
  const OracleConv conv = oracle_of(p);
  const std::vector<std::size_t> pixels = sample_pixels(conv, seed, kSampledPixels);
  const Oracles oracles(p, data.x, [&](const std::vector<float>& x) {
    return conv2d_at(conv, pixels, x, data.weight, data.bias, data.residual);
  });
  const Store store = store_of(p.elem);
  const int shape[] = {static_cast<int>(pixels.size()), p.c_out};
  const Device device(p, data);
  CAPTURE(seed);
  for_each_variant(p, [&](Conv2dVariant variant) {
    const Oracle& oracle = oracles.of(variant);
    const std::vector<float> y = device.run(variant);
    const std::vector<float> sampled = gather(y, pixels, p.c_out);
    REQUIRE(compare_elements(sampled, oracle.value, bounds_of(variant, p, oracle), shape));
    if (sampled.size() >= kAlarmElements) {
      REQUIRE(compare_rel_l2(sampled, oracle.value, rel_l2_alarm(oracle.products, store)));
    }
  });
}

/// A stem of MobileNetV2: 3x3 with padding of one pixel.
Conv2dParams stem(Elem elem, Input input, int n, int h, int w, int c_out, int stride) {
  Conv2dParams p;
  p.elem = elem;
  p.input = input;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = 3;
  p.c_out = c_out;
  p.kernel_h = p.kernel_w = 3;
  p.stride_h = p.stride_w = stride;
  p.pad_top = p.pad_left = 1;
  p.out_h = output_extent(h, 3, stride, 1, 1, 1);
  p.out_w = output_extent(w, 3, stride, 1, 1, 1);
  p.bias = true;
  p.activation = kRelu6;
  return p;
}

/// A shape of the grid small enough for the oracle; `stems` asks for one that the stem variants support.
Conv2dParams random_shape(Choice& choose, Elem elem, Input input, bool stems) {
  constexpr std::size_t kLargest = 1U << 18U;
  constexpr std::size_t kMostWork = 1U << 26U;
  constexpr int kGroupGrid[] = {1, 1, 2, 3, 4, 8};
  for (;;) {
    Conv2dParams p;
    p.elem = elem;
    p.input = input;
    p.n = choose(kBatchGrid);
    p.h = choose(kSizeGrid);
    p.w = choose(kSizeGrid);
    p.groups = stems ? 1 : choose(kGroupGrid);
    p.c_in = stems ? 1 + choose.upto(3) : choose(kChannelGrid);
    p.c_out = stems ? 8 * (1 + choose.upto(7)) : choose(kChannelGrid);
    if (p.c_in % p.groups != 0 || p.c_out % p.groups != 0) continue;
    p.kernel_h = stems ? 3 : choose(kKernelGrid);
    p.kernel_w = stems ? 3 : choose(kKernelGrid);
    p.dilation_h = stems ? 1 : 1 + choose.upto(1);
    p.dilation_w = stems ? 1 : 1 + choose.upto(1);
    p.stride_h = 1 + choose.upto(stems ? 1 : 2);
    p.stride_w = stems ? p.stride_h : 1 + choose.upto(2);
    p.pad_top = choose.upto(3);
    p.pad_left = choose.upto(3);
    p.out_h = output_extent(p.h, p.kernel_h, p.stride_h, p.dilation_h, p.pad_top, choose.upto(3));
    p.out_w = output_extent(p.w, p.kernel_w, p.stride_w, p.dilation_w, p.pad_left, choose.upto(3));
    p.bias = choose.flip();
    p.residual = !stems && choose.flip();
    p.activation = kClips[choose.upto(2)];
    if (p.out_h == 0 || p.out_w == 0 || input_count(p) > kLargest || output_count(p) > kLargest) continue;
    const std::size_t products = weight_count(p) / static_cast<std::size_t>(p.c_out);
    if (output_count(p) * products <= kMostWork) return p;
  }
}

/// One that the matrix products support; `few` for the exact mode's short sums.
Conv2dParams random_product(Choice& choose, bool few) {
  constexpr std::size_t kLargest = 1U << 18U;
  constexpr std::size_t kMostWork = 1U << 26U;
  constexpr int kInputGrid[] = {8, 8, 16, 24, 40, 48, 64, 72, 96, 128, 136, 192, 256};
  constexpr int kOutputGrid[] = {1, 7, 8, 9, 16, 24, 30, 32, 33, 40, 64, 65, 72, 96, 127, 128, 136, 192, 264};
  constexpr int kGroupGrid[] = {1, 1, 1, 2, 3, 4};
  for (;;) {
    Conv2dParams p;
    p.elem = Elem::F16;
    p.n = choose(kBatchGrid);
    p.h = choose(kSizeGrid);
    p.w = choose(kSizeGrid);
    p.groups = choose(kGroupGrid);
    p.c_in = (few ? 8 : choose(kInputGrid)) * p.groups;
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

TEST_CASE("conv2d_pack moves output channels innermost and pads them with zeros") {
  Conv2dParams p = stem(Elem::F32, Input::NhwcElem, 1, 4, 4, 3, 1);
  p.c_in = 2;
  p.kernel_h = 1;
  p.kernel_w = 2;
  std::vector<float> weight = counting(3 * 2 * 2);  // (co = 3, ci = 2, 1, kx = 2)
  for (float& value : weight) value += 1.0F;
  std::vector<float> packed(2 * 2 * 8, kNan);  // (1, kx = 2, ci = 2, co = 8)
  REQUIRE(kernels::conv2d_packed_bytes(p) == packed.size() * sizeof(float));
  kernels::conv2d_pack(p, weight.data(), packed.data());
  REQUIRE(packed == std::vector<float>{1, 5, 9,  0, 0, 0, 0, 0, 3, 7, 11, 0, 0, 0, 0, 0,
                                       2, 6, 10, 0, 0, 0, 0, 0, 4, 8, 12, 0, 0, 0, 0, 0});
}

TEST_CASE("conv2d equals the oracle on the stem of MobileNetV2") {
  const StemLayer& layer = kMobileNetV2Stem;
  std::uint32_t seed = 100;
  for (const Elem elem : kAllElems) {
    for (const Input input : kInputs) {
      for (const int n : {1, 8, 32}) {
        Conv2dParams p = stem(elem, input, n, layer.size, layer.size, layer.c_out, layer.stride);
        if (n == 8) p.pad_top = p.pad_left = 0;  // TensorFlow pads below and to the right only
        check_against_oracle(p, seed);
        seed += 10;
      }
    }
  }
}

TEST_CASE("conv2d equals the oracle on random shapes") {
  constexpr int kShapes = 80;
  for (const Elem elem : kAllElems) {
    for (const Input input : kInputs) {
      for (const bool stems : {false, true}) {
        Choice choose(stems ? 7 : 8);
        for (std::uint32_t i = 0; i < kShapes; ++i) {
          check_against_oracle(random_shape(choose, elem, input, stems), 1000 + 10 * i);
        }
      }
    }
  }
}

TEST_CASE("conv2d equals the oracle on random shapes of matrix products") {
  constexpr int kShapes = 120;
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
      {33, 14, 256, 256, 3, 1, 1, 1}, {5, 32, 16, 16, 3, 1, 1, 1},   {2, 299, 32, 64, 3, 2, 1, 1}};
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
                               {3, 28, 1, 24, 5, 1, 0},  {2, 33, 4, 72, 4, 3, 2},  {1, 50, 2, 8, 9, 2, 1}};
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
    REQUIRE(kernels::supports(Conv2dVariant::Grouped3x3, p, 90));
    check_against_oracle(p, seed += 10);
  }
}

TEST_CASE("conv2d of groups is exact on small whole numbers", "[sanitize]") {
  for (const int channels : {4, 8, 16, 32}) {
    for (const int stride : {1, 2}) {
      Conv2dParams p = stem(Elem::F16, Input::NhwcElem, 2, 11, 15, 8, stride);
      p.groups = channels == 4 ? 22 : 3;
      p.c_in = p.c_out = channels * p.groups;
      p.residual = true;
      Data data = integer_data(p, 48);
      for (float& weight : data.weight) weight = weight > 0.0F ? 1.0F : 0.0F;  // sums exact in half
      const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias, data.residual);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      REQUIRE(compare_exact(Device(p, data).run(Conv2dVariant::Grouped3x3), oracle.value, shape));
    }
  }
}

TEST_CASE("conv2d as a matrix product gives a picture the same bits in every batch and place") {
  Conv2dParams p = stem(Elem::F16, Input::NhwcElem, 5, 9, 7, 72, 1);
  p.c_in = 64;
  p.residual = true;
  const Data data = random_data(p, 46);
  const Device device(p, data);
  Conv2dParams one = p;
  one.n = 1;
  const auto part = [](const std::vector<float>& all, std::size_t count, std::size_t index) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(index * count);
    return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count));
  };
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

TEST_CASE("conv2d equals the oracle at every boundary of the grid") {
  constexpr int kStemOutputs[] = {8, 16, 24, 32, 40, 48, 56, 64};
  for (const Elem elem : kAllElems) {
    for (const int stride : {1, 2}) {
      for (const int c_out : kStemOutputs) {
        for (int c_in = 1; c_in <= 4; ++c_in) {
          Conv2dParams p = stem(elem, Input::NchwFloat, 2, 35, 18, c_out, stride);
          p.c_in = c_in;
          check_against_oracle(p, 21);
        }
      }
      for (const int size : kSizeGrid) {
        check_against_oracle(stem(elem, Input::NhwcElem, 2, size, 9, 16, stride), 22);
        check_against_oracle(stem(elem, Input::NhwcFloat, 2, 9, size, 16, stride), 23);
      }
      for (const int n : kBatchGrid) check_against_oracle(stem(elem, Input::NchwFloat, n, 7, 6, 8, stride), 24);
      for (const int c : kChannelGrid) {
        Conv2dParams p = stem(elem, Input::NhwcElem, 1, 5, 4, c, stride);
        p.c_in = 9;
        p.residual = true;
        check_against_oracle(p, 25);
        p.c_out = 12;
        p.c_in = c;
        check_against_oracle(p, 26);
      }
    }
  }
}

TEST_CASE("conv2d equals the oracle for every padding, windows wholly outside among them") {
  for (const Elem elem : kAllElems) {
    for (const int stride : {1, 2}) {
      for (int top = 0; top <= 5; ++top) {
        for (int left = 0; left <= 5; ++left) {
          Conv2dParams p = stem(elem, Input::NchwFloat, 1, 5, 3, 8, stride);
          p.pad_top = top;
          p.pad_left = left;
          p.out_h = output_extent(p.h, 3, stride, 1, top, 5 - left);
          p.out_w = output_extent(p.w, 3, stride, 1, left, 5 - top);
          if (p.out_h == 0 || p.out_w == 0) continue;
          p.activation = kNone;
          check_against_oracle(p, 31);
        }
      }
    }
  }
}

TEST_CASE("conv2d is exact on small whole numbers", "[sanitize]") {
  constexpr std::uint32_t kShapes = 60;
  constexpr std::size_t kProductsExactInHalf = 125;  // 16 each, and 8 for bias and residual: at most 2048
  Choice choose(5);
  for (const Elem elem : kAllElems) {
    for (std::uint32_t i = 0; i < kShapes; ++i) {
      Conv2dParams p;
      do {
        p = random_shape(choose, elem, kInputs[i % 3], i % 2 == 0);
      } while (weight_count(p) / static_cast<std::size_t>(p.c_out) > kProductsExactInHalf);
      const Data data = integer_data(p, 50 + i);
      const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias, data.residual);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(
          p, [&](Conv2dVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
    }
  }
}

TEST_CASE("conv2d as a matrix product is exact on small whole numbers", "[sanitize]") {
  constexpr std::uint32_t kShapes = 40;
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
  Conv2dParams p = stem(Elem::F16, Input::NhwcElem, 2, 13, 11, 40, 2);
  p.c_in = 72;
  p.dilation_w = 2;
  Data data = random_data(p, 47);
  data.x[count_of(1, 3, 5, 72)] = kNan;
  data.x[count_of(1, 13, 11, 72) + 71] = kInfinity;
  data.x[count_of(2, 13, 11, 72) - 1] = -kInfinity;
  const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias);
  const Device device(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  const int variants = for_each_variant(p, [&](Conv2dVariant variant) {
    REQUIRE(compare_elements(device.run(variant), oracle.value, bounds_of(variant, p, oracle), shape));
  });
  REQUIRE(variants > 2);
}

TEST_CASE("conv2d gives the same bits with either stem and with either direct variant") {
  for (const Elem elem : kElems) {
    for (const int stride : {1, 2}) {
      const Conv2dParams p = stem(elem, Input::NchwFloat, 3, 37, 35, 24, stride);
      const Device device(p, random_data(p, 45));
      REQUIRE(compare_bits(device.run(Conv2dVariant::Stem3x3P8C8), device.run(Conv2dVariant::Stem3x3P2C4)));
      REQUIRE(compare_bits(device.run(Conv2dVariant::Direct4x4), device.run(Conv2dVariant::Direct)));
    }
  }
}

TEST_CASE("conv2d passes NaN and infinity on, to the windows that see them only", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const Input input : kInputs) {
      const Conv2dParams p = stem(elem, input, 2, 25, 21, 16, 2);
      Data data = random_data(p, 41);
      data.x[count_of(1, 7, 5, 3)] = kNan;
      data.x[count_of(1, 13, 21, 3) + 2] = kInfinity;
      data.x[count_of(2, 25, 21, 3) - 1] = -kInfinity;
      const Oracles oracles(p, data.x, [&](const std::vector<float>& half) {
        return conv2d(oracle_of(p), half, data.weight, data.bias);
      });
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](Conv2dVariant variant) {
        const Oracle& oracle = oracles.of(variant);
        REQUIRE(compare_elements(device.run(variant), oracle.value, bounds_of(variant, p, oracle), shape));
      });
    }
  }
}

TEST_CASE("conv2d does not round an input in float to half") {
  Conv2dParams p = stem(Elem::F16, Input::NhwcFloat, 1, 1, 1, 8, 1);
  p.activation = kNone;
  p.bias = false;
  const float unrounded = 1.0F + 0x1p-12F;
  const Data data{{unrounded, -1.0F, 0.0F}, std::vector<float>(weight_count(p), 1.0F), {}, {}};
  const Device device(p, data);
  for_each_variant(p, [&](Conv2dVariant variant) {
    if (rounds_input(variant)) return;
    for (const float y : device.run(variant)) REQUIRE(y == 0x1p-12F);
  });
}

/// A stem that reads bytes, whole numbers in `bytes`, and the same for an input in float.
void check_bytes(Conv2dParams p, const std::vector<float>& bytes) {
  for (int c = 0; c < 4; ++c) {
    p.scale[c] = 1.0F / (127.5F + static_cast<float>(c));
    p.shift[c] = 0.25F * static_cast<float>(c) - 1.0F;
  }
  Data data = random_data(p, 71);
  std::vector<std::byte> stored;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t c = i % static_cast<std::size_t>(p.c_in);
    stored.push_back(static_cast<std::byte>(static_cast<int>(bytes[i])));
    data.x[i] = std::fma(bytes[i], p.scale[c], p.shift[c]);
  }
  Conv2dParams in_float = p;
  in_float.input = Input::NhwcFloat;
  const Device device(in_float, data);
  GuardedBuffer x(stored.size(), 1);
  x.upload(stored);
  std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
  kernels::conv2d_pack(p, data.weight.data(), packed.data());
  const GuardedBuffer weights{std::span<const std::byte>(packed)};
  const DeviceTensor bias(Elem::F32, data.bias);
  const int variants = for_each_variant(p, [&](Conv2dVariant variant) {
    const std::vector<float> y = run_kernel(p.elem, output_count(p), 0, [&](void* out, const kernels::Launch& where) {
      return kernels::conv2d(variant, p, x.data(), weights.data(), bias.floats(), nullptr, out, where);
    });
    REQUIRE(compare_bits(y, device.run(variant)));
    REQUIRE(x.check_unchanged());
  });
  REQUIRE(variants == (p.elem == Elem::F16 ? 4 : 2));
}

TEST_CASE("conv2d takes bytes, scaled and shifted before padding, as it takes the same in float", "[sanitize]") {
  for (const Elem elem : kElems) {
    for (const int stride : {1, 2}) {
      for (int c_in = 1; c_in <= 4; ++c_in) {
        Conv2dParams p = stem(elem, Input::NhwcUint8, 2, 35, 18, 24, stride);
        p.c_in = c_in;
        p.activation = kNone;
        std::vector<float> bytes = random_uniform(72, input_count(p), 0.0F, 256.0F);
        for (float& byte : bytes) byte = std::floor(byte);
        check_bytes(p, bytes);
      }
    }
  }
}

TEST_CASE("conv2d may write over its residual", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    Conv2dParams p = stem(elem, Input::NhwcElem, 2, 9, 7, 24, 1);
    p.residual = true;
    const Data data = random_data(p, 51);
    const Device device(p, data);
    const DeviceTensor x(elem, data.x);
    std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
    kernels::conv2d_pack(p, data.weight.data(), packed.data());
    const GuardedBuffer weights{std::span<const std::byte>(packed)};
    const DeviceTensor bias(Elem::F32, data.bias);
    for_each_variant(p, [&](Conv2dVariant variant) {
      const std::vector<float> apart = device.run(variant);
      const DeviceTensor y(elem, data.residual);
      REQUIRE(kernels::conv2d(variant, p, x.data(), weights.data(), bias.floats(), y.data(), y.data(), {}) ==
              cudaSuccess);
      synchronize();
      REQUIRE(compare_bits(y.download(), apart));
    });
  }
}

TEST_CASE("conv2d takes more pictures than a grid's y or z dimension") {
  check_against_oracle(stem(Elem::F16, Input::NchwFloat, 70001, 3, 2, 8, 2), 61);
}

TEST_CASE("conv2d says what it supports, and refuses the rest") {
  const Conv2dParams good = stem(Elem::F16, Input::NchwFloat, 1, 8, 8, 16, 2);
  const auto supported = [](const Conv2dParams& p) { return for_each_variant(p, [](Conv2dVariant) {}); };
  REQUIRE(supported(good) == 6);
  Conv2dParams p = good;
  p.c_out = 12;  // not a multiple of 8
  REQUIRE(supported(p) == 2);
  p.c_out = 72;  // beyond the stem's shared memory
  REQUIRE(supported(p) == 4);
  p.c_out = 6;
  REQUIRE(supported(p) == 1);
  for (const auto& [member, value, count] :
       {std::tuple{&Conv2dParams::c_in, 5, 2}, std::tuple{&Conv2dParams::stride_w, 1, 4},
        std::tuple{&Conv2dParams::kernel_h, 1, 4}, std::tuple{&Conv2dParams::dilation_w, 2, 2}}) {
    p = good;
    p.*member = value;
    REQUIRE(supported(p) == count);
  }
  p = good;
  p.residual = true;
  REQUIRE(supported(p) == 2);
  for (const auto& [member, value] :
       {std::pair{&Conv2dParams::groups, 2}, std::pair{&Conv2dParams::groups, 0}, std::pair{&Conv2dParams::h, 0},
        std::pair{&Conv2dParams::out_w, 0}, std::pair{&Conv2dParams::stride_h, 0}, std::pair{&Conv2dParams::n, -1}}) {
    p = good;
    p.*member = value;
    REQUIRE(supported(p) == 0);
    REQUIRE(kernels::conv2d(Conv2dVariant::Direct, p, nullptr, nullptr, nullptr, nullptr, nullptr, {}) ==
            cudaErrorInvalidValue);
  }
  REQUIRE_FALSE(kernels::supports(Conv2dVariant::Direct, good, 70));

  Conv2dParams exact = stem(Elem::F32, Input::NhwcFloat, 1, 8, 8, 16, 2);
  REQUIRE(supported(exact) == 9);
  exact.elem = Elem::F64;  // neither the stems nor the largest tile
  REQUIRE(supported(exact) == 6);
  exact.input = Input::NhwcUint8;
  REQUIRE(supported(exact) == 0);
  exact = stem(Elem::F32, Input::NhwcElem, 1, 8, 8, 12, 2);
  exact.c_in = exact.groups = 2;  // six outputs each: no runs of four
  REQUIRE(supported(exact) == 1);
}

}  // namespace
}  // namespace mobicuda::test
