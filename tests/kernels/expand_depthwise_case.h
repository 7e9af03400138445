// Parameters, data and checks that the tests of expand_depthwise share.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <span>
#include <vector>

#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gemm/gemm.h"
#include "support/activation.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/device_tensor.h"
#include "support/network_shapes.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const ExpandDepthwiseParams& p) {
  return out << test::to_string(p.elem) << " n" << p.n << " " << p.h << 'x' << p.w << 'x' << p.c_in << " -> " << p.out_h
             << 'x' << p.out_w << 'x' << p.c << " kernel " << p.kernel << " stride " << p.stride << " pad " << p.pad_top
             << ',' << p.pad_left << " bias " << p.expand_bias << ',' << p.depthwise_bias << ' ' << p.expand_activation
             << ' ' << p.depthwise_activation;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::expand_depthwise_case {

using kernels::Clip;
using kernels::ExpandDepthwiseParams;
using kernels::ExpandDepthwiseVariant;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr Clip kNone{-kInfinity, kInfinity};
inline constexpr Clip kRelu6{0.0F, 6.0F};
inline constexpr Clip kClips[] = {kNone, {0.0F, kInfinity}, kRelu6};
inline constexpr int kKernels[] = {3, 5};
inline constexpr int kStrides[] = {1, 2};

struct Window {
  int kernel, stride;
};
inline constexpr Window kWindows[] = {{3, 1}, {3, 2}, {5, 1}, {5, 2}};

/// Activations of hidden values and results that are no clips.
inline constexpr std::pair<kernels::ActivationKind, kernels::ActivationKind> kSwish[] = {
    {kernels::ActivationKind::HardSwish, kernels::ActivationKind::HardSwish},
    {kernels::ActivationKind::Silu, kernels::ActivationKind::Silu},
    {kernels::ActivationKind::Silu, kernels::ActivationKind::HardSwish}};

inline ExpandDepthwiseParams with_activations(
    ExpandDepthwiseParams p, const std::pair<kernels::ActivationKind, kernels::ActivationKind>& kinds) {
  p.expand_activation = kernels::Activation(kinds.first);
  p.depthwise_activation = kernels::Activation(kinds.second);
  return p;
}

/// Of EfficientNet-Lite0, FBNet-C and MNASNet 1.3 at 224 x 224.
inline constexpr ExpandLayer kExpand5x5[] = {
    {56, 24, 144, 2},  {56, 32, 96, 2},   {28, 40, 240, 1},  {28, 32, 192, 1},  {28, 32, 192, 2},  {28, 56, 168, 1},
    {14, 80, 480, 1},  {14, 64, 192, 1},  {14, 112, 672, 1}, {14, 112, 336, 1}, {14, 104, 624, 1}, {14, 112, 672, 2},
    {14, 128, 768, 2}, {7, 192, 1152, 1}, {7, 184, 1104, 1}, {7, 248, 1488, 1},
};

inline std::size_t count_of(int n, int h, int w, int c) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(h) * static_cast<std::size_t>(w) *
         static_cast<std::size_t>(c);
}

inline int taps(const ExpandDepthwiseParams& p) { return p.kernel * p.kernel; }
inline std::size_t input_count(const ExpandDepthwiseParams& p) { return count_of(p.n, p.h, p.w, p.c_in); }
inline std::size_t output_count(const ExpandDepthwiseParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c); }

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, expand, expand_bias, depthwise, depthwise_bias;
};

template <class Generate>
Data make_data(const ExpandDepthwiseParams& p, std::uint32_t seed, const Generate& generate) {
  Data data;
  data.x = rounded(p.elem, generate(seed, input_count(p)));
  data.expand = rounded(p.elem, generate(seed + 1, count_of(1, 1, p.c, p.c_in)));
  data.depthwise = rounded(p.elem, generate(seed + 2, count_of(1, 1, p.c, taps(p))));
  if (p.expand_bias) data.expand_bias = generate(seed + 3, static_cast<std::size_t>(p.c));
  if (p.depthwise_bias) data.depthwise_bias = generate(seed + 4, static_cast<std::size_t>(p.c));
  return data;
}

inline Data random_data(const ExpandDepthwiseParams& p, std::uint32_t seed) {
  return make_data(p, seed, [](std::uint32_t s, std::size_t count) { return random_uniform(s, count); });
}

inline Data integer_data(const ExpandDepthwiseParams& p, std::uint32_t seed) {
  return make_data(p, seed, random_integers);
}

/// What must come out and how far from it a correct kernel may be: the hidden tensor's rounding errors pass through the
/// depthwise weights.
struct Expected {
  std::vector<double> value, bound;
};

inline Expected expected_of(const ExpandDepthwiseParams& p, const Data& data) {
  const Store store = store_of(p.elem);
  OracleConv expand;
  expand.n = p.n;
  expand.h = expand.out_h = p.h;
  expand.w = expand.out_w = p.w;
  expand.c_in = p.c_in;
  expand.c_out = p.c;
  const Oracle sums = conv2d(expand, data.x, data.expand, data.expand_bias);
  const ActivatedOracle hidden(p.expand_activation, sums, gamma_tensor_core(p.c_in), store);

  const double depthwise_gamma = gamma(taps(p));
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
      for (int tap = 0; tap < taps(p); ++tap) {
        const int iy = oy * p.stride + tap / p.kernel - p.pad_top;
        const int ix = ox * p.stride + tap % p.kernel - p.pad_left;
        if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
        const std::size_t at =
            ((n * static_cast<std::size_t>(p.h) + static_cast<std::size_t>(iy)) * static_cast<std::size_t>(p.w) +
             static_cast<std::size_t>(ix)) *
                channels +
            c;
        const auto weight =
            static_cast<double>(data.depthwise[c * static_cast<std::size_t>(taps(p)) + static_cast<std::size_t>(tap)]);
        value += weight * hidden.value[at];
        magnitude += std::abs(weight) * (std::abs(hidden.value[at]) + hidden.allowed[at]);
        inherited += std::abs(weight) * hidden.allowed[at];
      }
      expected.value[pixel * channels + c] = activate(p.depthwise_activation, value);
      expected.bound[pixel * channels + c] =
          activated_bound(p.depthwise_activation, value, inherited + depthwise_gamma * magnitude, store);
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
    std::vector<std::byte> packed(kernels::depthwise_conv_packed_bytes(p.elem, p.c, p.kernel, p.kernel));
    kernels::depthwise_conv_pack(p.elem, p.c, p.kernel, p.kernel, weight.data(), packed.data());
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

inline int supported(const ExpandDepthwiseParams& p) {
  return for_each_variant(p, [](ExpandDepthwiseVariant) {});
}

inline void check_against_oracle(
    const ExpandDepthwiseParams& p, const Data& data,
    std::span<const ExpandDepthwiseVariant> variants = kernels::expand_depthwise_variants()) {
  const Expected expected = expected_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c};
  const Device device(p, data);
  for_each_supported(variants, p, [&](ExpandDepthwiseVariant variant) {
    REQUIRE(compare_elements(device.run(variant), expected.value, expected.bound, shape));
  });
}

inline void check_exact(const ExpandDepthwiseParams& p, const Data& data,
                        std::span<const ExpandDepthwiseVariant> variants = kernels::expand_depthwise_variants()) {
  const Expected expected = expected_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c};
  const Device device(p, data);
  for_each_supported(variants, p, [&](ExpandDepthwiseVariant variant) {
    REQUIRE(compare_exact(device.run(variant), expected.value, shape));
  });
}

/// Padding of half a window all around.
inline ExpandDepthwiseParams same_padded(int n, int h, int w, int c_in, int c, int stride, int kernel = 3) {
  ExpandDepthwiseParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = c_in;
  p.c = c;
  p.kernel = kernel;
  p.stride = stride;
  p.pad_top = p.pad_left = kernel / 2;
  p.out_h = output_extent(h, kernel, stride, 1, kernel / 2, kernel / 2);
  p.out_w = output_extent(w, kernel, stride, 1, kernel / 2, kernel / 2);
  p.expand_bias = p.depthwise_bias = true;
  p.expand_activation = p.depthwise_activation = kRelu6;
  return p;
}

/// Whole numbers of integer_data() stay exact in half: hidden ones at most 16, results at most 25 * 16 * 4 + 4.
inline constexpr Clip kExactHidden{-16.0F, 16.0F};

inline ExpandDepthwiseParams random_shape(Choice& choose) {
  constexpr std::size_t kLargest = 1U << 18U;
  constexpr int kInputs[] = {8, 16, 24, 32, 40, 64, 72, 96, 104, 128, 152, 160, 168, 192, 248, 256};
  constexpr int kHidden[] = {8, 16, 24, 32, 48, 64, 96, 160};
  constexpr int kBatches[] = {1, 2, 3, 5, 8, 33};
  for (;;) {
    ExpandDepthwiseParams p;
    p.n = choose(kBatches);
    p.h = choose(kSizeGrid);
    p.w = choose(kSizeGrid);
    p.c_in = choose(kInputs);
    p.c = choose(kHidden);
    p.kernel = choose(kKernels);
    p.stride = choose(kStrides);
    p.pad_top = choose.upto(3);
    p.pad_left = choose.upto(3);
    p.out_h = output_extent(p.h, p.kernel, p.stride, 1, p.pad_top, choose.upto(3));
    p.out_w = output_extent(p.w, p.kernel, p.stride, 1, p.pad_left, choose.upto(3));
    p.expand_bias = choose.flip();
    p.depthwise_bias = choose.flip();
    p.expand_activation = kClips[choose.upto(2)];
    p.depthwise_activation = kClips[choose.upto(2)];
    const std::size_t hidden_count = count_of(p.n, p.h, p.w, p.c);
    if (p.out_h > 0 && p.out_w > 0 && hidden_count <= kLargest && output_count(p) <= kLargest) return p;
  }
}

}  // namespace mobicuda::test::expand_depthwise_case
