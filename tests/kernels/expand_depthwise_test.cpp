#include "kernels/expand_depthwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

#include "kernels/depthwise_conv.h"
#include "kernels/gemm.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/device_tensor.h"
#include "support/expand_shapes.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

std::ostream& operator<<(std::ostream& out, const ExpandDepthwiseParams& p) {
  return out << test::to_string(p.elem) << " n" << p.n << " " << p.h << 'x' << p.w << 'x' << p.c_in << " -> " << p.out_h
             << 'x' << p.out_w << 'x' << p.c << " stride " << p.stride << " pad " << p.pad_top << ',' << p.pad_left
             << " bias " << p.expand_bias << ',' << p.depthwise_bias << " clip " << p.expand_clip.lo << ".."
             << p.expand_clip.hi << ", " << p.depthwise_clip.lo << ".." << p.depthwise_clip.hi;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test {
namespace {

using kernels::Clip;
using kernels::ExpandDepthwiseParams;
using kernels::ExpandDepthwiseVariant;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Clip kNone{-kInfinity, kInfinity};
constexpr Clip kRelu6{0.0F, 6.0F};
constexpr Clip kClips[] = {kNone, {0.0F, kInfinity}, kRelu6};
constexpr int kTaps = 9;
constexpr int kStrides[] = {1, 2};

std::size_t count_of(int n, int h, int w, int c) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(h) * static_cast<std::size_t>(w) *
         static_cast<std::size_t>(c);
}

std::size_t input_count(const ExpandDepthwiseParams& p) { return count_of(p.n, p.h, p.w, p.c_in); }
std::size_t output_count(const ExpandDepthwiseParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c); }

OracleClip oracle_of(Clip clip) { return {static_cast<double>(clip.lo), static_cast<double>(clip.hi)}; }

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, expand, expand_bias, depthwise, depthwise_bias;
};

template <class Generate>
Data make_data(const ExpandDepthwiseParams& p, std::uint32_t seed, const Generate& generate) {
  Data data;
  data.x = rounded(p.elem, generate(seed, input_count(p)));
  data.expand = rounded(p.elem, generate(seed + 1, count_of(1, 1, p.c, p.c_in)));
  data.depthwise = rounded(p.elem, generate(seed + 2, count_of(1, 1, p.c, kTaps)));
  if (p.expand_bias) data.expand_bias = generate(seed + 3, static_cast<std::size_t>(p.c));
  if (p.depthwise_bias) data.depthwise_bias = generate(seed + 4, static_cast<std::size_t>(p.c));
  return data;
}

Data random_data(const ExpandDepthwiseParams& p, std::uint32_t seed) {
  return make_data(p, seed, [](std::uint32_t s, std::size_t count) { return random_uniform(s, count); });
}

Data integer_data(const ExpandDepthwiseParams& p, std::uint32_t seed) { return make_data(p, seed, random_integers); }

/// What must come out and how far from it a correct kernel may be: the hidden tensor's rounding errors pass through the
/// depthwise weights.
struct Expected {
  std::vector<double> value, bound;
};

Expected expected_of(const ExpandDepthwiseParams& p, const Data& data) {
  const Store store = store_of(p.elem);
  OracleConv expand;
  expand.n = p.n;
  expand.h = expand.out_h = p.h;
  expand.w = expand.out_w = p.w;
  expand.c_in = p.c_in;
  expand.c_out = p.c;
  expand.clip = oracle_of(p.expand_clip);
  const Oracle hidden = conv2d(expand, data.x, data.expand, data.expand_bias);
  const std::vector<double> hidden_bound =
      hard_bounds(gamma_tensor_core(p.c_in), hidden.magnitude, hidden.value, store);

  const double depthwise_gamma = gamma(kTaps);
  const OracleClip clip = oracle_of(p.depthwise_clip);
  const auto channels = static_cast<std::size_t>(p.c);
  Expected expected{std::vector<double>(output_count(p)), std::vector<double>(output_count(p))};
  parallel_for(expected.value.size() / channels, [&](std::size_t pixel) {
    const int ox = static_cast<int>(pixel % static_cast<std::size_t>(p.out_w));
    const int oy = static_cast<int>(pixel / static_cast<std::size_t>(p.out_w) % static_cast<std::size_t>(p.out_h));
    const std::size_t n = pixel / count_of(1, p.out_h, p.out_w, 1);
    for (std::size_t c = 0; c < channels; ++c) {
      double value = data.depthwise_bias.empty() ? 0.0 : static_cast<double>(data.depthwise_bias[c]);
      double magnitude = std::abs(value);
      double inherited = 0.0;
      for (int tap = 0; tap < kTaps; ++tap) {
        const int iy = oy * p.stride + tap / 3 - p.pad_top;
        const int ix = ox * p.stride + tap % 3 - p.pad_left;
        if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
        const std::size_t at =
            ((n * static_cast<std::size_t>(p.h) + static_cast<std::size_t>(iy)) * static_cast<std::size_t>(p.w) +
             static_cast<std::size_t>(ix)) *
                channels +
            c;
        const auto weight = static_cast<double>(data.depthwise[c * kTaps + static_cast<std::size_t>(tap)]);
        value += weight * hidden.value[at];
        magnitude += std::abs(weight) * (std::abs(hidden.value[at]) + hidden_bound[at]);
        inherited += std::abs(weight) * hidden_bound[at];
      }
      value = clip(value);
      const double before_store = inherited + depthwise_gamma * magnitude;
      expected.value[pixel * channels + c] = value;
      expected.bound[pixel * channels + c] = hard_bound(1.0, before_store, value, store);
    }
  });
  return expected;
}

/// The inputs on the GPU, for all variants.
class Device {
 public:
  Device(const ExpandDepthwiseParams& p, const Data& data)
      : params_(p),
        x_(p.elem, data.x),
        expand_(pack_expand(p, data.expand)),
        expand_bias_(Elem::F32, data.expand_bias),
        depthwise_(pack_depthwise(p, data.depthwise)),
        depthwise_bias_(Elem::F32, data.depthwise_bias) {}

  std::vector<float> run(ExpandDepthwiseVariant variant) const {
    std::vector<float> y =
        run_kernel(params_.elem, output_count(params_), 0, [&](void* out, const kernels::Launch& where) {
          return kernels::expand_depthwise(variant, params_, x_.data(), expand_.data(), expand_bias_.floats(),
                                           depthwise_.data(), depthwise_bias_.floats(), out, where);
        });
    CHECK(x_.check_unchanged());
    CHECK(expand_.check_unchanged());
    CHECK(expand_bias_.check_unchanged());
    CHECK(depthwise_.check_unchanged());
    CHECK(depthwise_bias_.check_unchanged());
    return y;
  }

 private:
  static GuardedBuffer pack_expand(const ExpandDepthwiseParams& p, const std::vector<float>& weight) {
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, p.c, p.c_in));
    kernels::gemm_pack(p.elem, p.c, p.c_in, weight.data(), packed.data());
    return GuardedBuffer(packed);
  }
  static GuardedBuffer pack_depthwise(const ExpandDepthwiseParams& p, const std::vector<float>& weight) {
    std::vector<std::byte> packed(kernels::depthwise_conv_packed_bytes(p.elem, p.c, 3, 3));
    kernels::depthwise_conv_pack(p.elem, p.c, 3, 3, weight.data(), packed.data());
    return GuardedBuffer(packed);
  }

  ExpandDepthwiseParams params_;
  DeviceTensor x_;
  GuardedBuffer expand_;
  DeviceTensor expand_bias_;
  GuardedBuffer depthwise_;
  DeviceTensor depthwise_bias_;
};

template <class Body>
int for_each_variant(const ExpandDepthwiseParams& p, const Body& body) {
  return for_each_supported(kernels::expand_depthwise_variants(), p, body);
}

int supported(const ExpandDepthwiseParams& p) {
  return for_each_variant(p, [](ExpandDepthwiseVariant) {});
}

void check_against_oracle(const ExpandDepthwiseParams& p, const Data& data) {
  const Expected expected = expected_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c};
  const Device device(p, data);
  for_each_variant(p, [&](ExpandDepthwiseVariant variant) {
    REQUIRE(compare_elements(device.run(variant), expected.value, expected.bound, shape));
  });
}

void check_exact(const ExpandDepthwiseParams& p, const Data& data) {
  const Expected expected = expected_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c};
  const Device device(p, data);
  for_each_variant(
      p, [&](ExpandDepthwiseVariant variant) { REQUIRE(compare_exact(device.run(variant), expected.value, shape)); });
}

/// Padding of one pixel all around.
ExpandDepthwiseParams same_padded(int n, int h, int w, int c_in, int c, int stride) {
  ExpandDepthwiseParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = c_in;
  p.c = c;
  p.stride = stride;
  p.pad_top = p.pad_left = 1;
  p.out_h = output_extent(h, 3, stride, 1, 1, 1);
  p.out_w = output_extent(w, 3, stride, 1, 1, 1);
  p.expand_bias = p.depthwise_bias = true;
  p.expand_clip = p.depthwise_clip = kRelu6;
  return p;
}

/// Whole numbers of integer_data() stay exact in half: hidden ones at most 16, results at most 9 * 16 * 4 + 4.
constexpr Clip kExactHidden{-16.0F, 16.0F};

ExpandDepthwiseParams random_shape(Choice& choose) {
  constexpr std::size_t kLargest = 1U << 18U;
  constexpr int kInputs[] = {8, 16, 24, 32, 40, 64, 72, 96, 104, 128, 152, 160};
  constexpr int kHidden[] = {8, 16, 24, 32, 48, 64, 96, 160};
  constexpr int kBatches[] = {1, 2, 3, 5, 8, 33};
  for (;;) {
    ExpandDepthwiseParams p;
    p.n = choose(kBatches);
    p.h = choose(kSizeGrid);
    p.w = choose(kSizeGrid);
    p.c_in = choose(kInputs);
    p.c = choose(kHidden);
    p.stride = choose(kStrides);
    p.pad_top = choose.upto(3);
    p.pad_left = choose.upto(3);
    p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, choose.upto(3));
    p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, choose.upto(3));
    p.expand_bias = choose.flip();
    p.depthwise_bias = choose.flip();
    p.expand_clip = kClips[choose.upto(2)];
    p.depthwise_clip = kClips[choose.upto(2)];
    const std::size_t hidden_count = count_of(p.n, p.h, p.w, p.c);
    if (p.out_h > 0 && p.out_w > 0 && hidden_count <= kLargest && output_count(p) <= kLargest) return p;
  }
}

TEST_CASE("expand_depthwise equals the oracle on the blocks of MobileNetV2") {
  std::uint32_t seed = 100;
  for (const ExpandLayer& layer : kMobileNetV2Expand) {
    for (const int n : {1, 3}) {
      ExpandDepthwiseParams p = same_padded(n, layer.size, layer.size, layer.c_in, layer.c, layer.stride);
      // TensorFlow pads below and to the right only when the stride is 2.
      if (layer.stride == 2 && n == 3) p.pad_top = p.pad_left = 0;
      CAPTURE(layer.name);
      REQUIRE(supported(p) > 0);
      check_against_oracle(p, random_data(p, seed));
      seed += 10;
    }
  }
}

TEST_CASE("expand_depthwise equals the oracle on random shapes") {
  constexpr int kShapes = 80;
  Choice choose(7);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const ExpandDepthwiseParams p = random_shape(choose);
    CAPTURE(i);
    check_against_oracle(p, random_data(p, 1000 + 10 * i));
  }
}

TEST_CASE("expand_depthwise is exact on small whole numbers", "[sanitize]") {
  constexpr int kShapes = 40;
  Choice choose(5);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    ExpandDepthwiseParams p = random_shape(choose);
    p.expand_clip = kExactHidden;
    CAPTURE(i);
    check_exact(p, integer_data(p, 50 + 10 * i));
  }
}

TEST_CASE("expand_depthwise is exact at every batch, odd size and border of its tiles") {
  for (const int stride : kStrides) {
    for (int n = 1; n <= 8; ++n) {
      ExpandDepthwiseParams p = same_padded(n, 7, 9, 24, 32, stride);
      p.expand_clip = kExactHidden;
      check_exact(p, integer_data(p, 60));
    }
    for (int size = 1; size <= 17; ++size) {
      ExpandDepthwiseParams p = same_padded(2, size, 18 - size, 40, 32, stride);
      p.expand_clip = kExactHidden;
      check_exact(p, integer_data(p, 61));
    }
    for (int c_in = 8; c_in <= 160; c_in += 8) {
      ExpandDepthwiseParams p = same_padded(1, 5, 6, c_in, 32, stride);
      p.expand_clip = kExactHidden;
      check_exact(p, integer_data(p, 62));
    }
  }
}

TEST_CASE("expand_depthwise is exact for every padding, windows wholly outside among them", "[sanitize]") {
  for (const int stride : kStrides) {
    for (int top = 0; top <= 5; ++top) {
      for (int left = 0; left <= 5; ++left) {
        ExpandDepthwiseParams p = same_padded(1, 5, 3, 8, 32, stride);
        p.pad_top = top;
        p.pad_left = left;
        p.out_h = output_extent(p.h, 3, stride, 1, top, 5 - left);
        p.out_w = output_extent(p.w, 3, stride, 1, left, 5 - top);
        if (p.out_h == 0 || p.out_w == 0) continue;
        p.expand_clip = kExactHidden;
        p.depthwise_clip = kNone;
        check_exact(p, integer_data(p, 31));
      }
    }
  }
}

TEST_CASE("expand_depthwise takes many pictures in each block") {
  for (const int stride : kStrides) {
    ExpandDepthwiseParams p = same_padded(20011, 3, 4, 8, 32, stride);
    p.expand_clip = kExactHidden;
    check_exact(p, integer_data(p, 71));
  }
  ExpandDepthwiseParams p = same_padded(301, 14, 14, 16, 64, 1);
  p.expand_clip = kExactHidden;
  check_exact(p, integer_data(p, 72));
}

TEST_CASE("expand_depthwise takes more pictures than a grid's z dimension") {
  ExpandDepthwiseParams p = same_padded(70001, 1, 1, 8, 8, 1);
  p.expand_clip = kExactHidden;
  check_exact(p, integer_data(p, 73));
}

TEST_CASE("expand_depthwise gives a picture the same bits in every batch and the same bits every time") {
  constexpr int kRepeats = 100;
  for (const int stride : kStrides) {
    ExpandDepthwiseParams p = same_padded(5, 15, 14, 40, 32, stride);
    const Data all = random_data(p, 45);
    const Device device(p, all);
    p.n = 1;
    Data first = all;
    first.x.resize(input_count(p));
    const Device alone(p, first);
    for_each_variant(p, [&](ExpandDepthwiseVariant variant) {
      const std::vector<float> expected = device.run(variant);
      REQUIRE(compare_bits(alone.run(variant), std::span(expected.data(), output_count(p))));
      for (int i = 0; i < kRepeats; ++i) REQUIRE(compare_bits(device.run(variant), expected));
    });
  }
}

TEST_CASE("expand_depthwise passes NaN on, to the windows that see it only", "[sanitize]") {
  for (const int stride : kStrides) {
    ExpandDepthwiseParams p = same_padded(2, 15, 14, 24, 32, stride);
    Data data = random_data(p, 41);
    data.x[count_of(1, 7, 5, p.c_in)] = kNan;
    data.x[input_count(p) - 1] = kNan;
    check_against_oracle(p, data);
  }
}

TEST_CASE("expand_depthwise says what it supports, and refuses the rest") {
  const ExpandDepthwiseParams good = same_padded(1, 8, 8, 16, 32, 1);
  REQUIRE(supported(good) == static_cast<int>(kernels::expand_depthwise_variants().size()));
  ExpandDepthwiseParams p = good;
  p.c = 16;
  REQUIRE(supported(p) == 8);
  p.c = 24;
  REQUIRE(supported(p) == 3);
  p = good;
  p.stride = 2;
  REQUIRE(supported(p) == 12);
  p = good;
  p.elem = Elem::F32;
  REQUIRE(supported(p) == 0);
  for (const auto& [member, value] :
       std::initializer_list<std::pair<int ExpandDepthwiseParams::*, int>>{{&ExpandDepthwiseParams::h, 0},
                                                                           {&ExpandDepthwiseParams::c_in, 0},
                                                                           {&ExpandDepthwiseParams::c_in, 12},
                                                                           {&ExpandDepthwiseParams::c_in, 168},
                                                                           {&ExpandDepthwiseParams::c, 4},
                                                                           {&ExpandDepthwiseParams::out_w, 0},
                                                                           {&ExpandDepthwiseParams::stride, 3},
                                                                           {&ExpandDepthwiseParams::stride, 0},
                                                                           {&ExpandDepthwiseParams::pad_top, -1},
                                                                           {&ExpandDepthwiseParams::n, -1},
                                                                           {&ExpandDepthwiseParams::w, 1 << 30},
                                                                           {&ExpandDepthwiseParams::out_h, 1 << 30}}) {
    p = good;
    p.*member = value;
    CAPTURE(p);
    REQUIRE(supported(p) == 0);
    REQUIRE(kernels::expand_depthwise(ExpandDepthwiseVariant::Slice8Bands1, p, nullptr, nullptr, nullptr, nullptr,
                                      nullptr, nullptr, {}) == cudaErrorInvalidValue);
  }
  REQUIRE(kernels::expand_depthwise(ExpandDepthwiseVariant::Slice8Bands1, good, nullptr, nullptr, nullptr, nullptr,
                                    nullptr, nullptr, {}) == cudaErrorInvalidValue);
  p = good;
  p.n = 0;
  p.expand_bias = p.depthwise_bias = false;
  REQUIRE(kernels::expand_depthwise(ExpandDepthwiseVariant::Slice8Bands1, p, nullptr, nullptr, nullptr, nullptr,
                                    nullptr, nullptr, {}) == cudaSuccess);
  for (const ExpandDepthwiseVariant variant : kernels::expand_depthwise_variants()) {
    REQUIRE_FALSE(kernels::supports(variant, good, 75));
  }
}

}  // namespace
}  // namespace mobicuda::test
