// Parameters, data and checks that the tests of inverted_residual share.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "kernels/chained_oracle.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/window_case.h"
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

inline std::ostream& operator<<(std::ostream& out, const InvertedResidualParams& p) {
  return out << (p.elem == Elem::F32 ? "float" : "half") << " n" << p.n << " " << p.h << 'x' << p.w << 'x' << p.c_in
             << " -> " << p.c_hidden << " -> " << p.out_h << 'x' << p.out_w << 'x' << p.c_out << " stride " << p.stride
             << " pad " << p.pad_top << ',' << p.pad_left << " expand " << p.expand << " residual " << p.residual << ' '
             << p.expand_activation << ' ' << p.depthwise_activation;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::inverted_residual_case {

using namespace chained;
using namespace window_case;
using kernels::InvertedResidualParams;
using kernels::InvertedResidualVariant;

/// Of a block: whether it expands, and its elements.
inline constexpr std::pair<bool, Elem> kForms[] = {
    {true, Elem::F16}, {false, Elem::F16}, {true, Elem::F32}, {false, Elem::F32}};
// Rounding a hidden value the other way, near a tie, moves y by about a unit of half times one weight. That and
// rounding y itself add up to less than this; rounding the hidden tensors twice or to fewer bits does not.
inline constexpr double kAlarm = 6e-4;

inline std::size_t input_count(const InvertedResidualParams& p) { return count_of(p.n, p.h, p.w, p.c_in); }
inline std::size_t output_count(const InvertedResidualParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c_out); }

/// Sums of a 1x1 convolution: half and split products run on tensor cores, exact float does not.
inline double pointwise_gamma(const InvertedResidualParams& p, int products) {
  if (p.split) return gamma_split(products);
  return p.elem == Elem::F32 ? gamma(products) : gamma_tensor_core(products);
}

inline bool is_split(InvertedResidualVariant variant) { return name(variant).starts_with("split"); }

/// The parameters with split products where the elements allow them.
inline InvertedResidualParams with_split(InvertedResidualParams p, bool split = true) {
  p.split = split && p.elem == Elem::F32;
  return p;
}

/// The largest number, NaN and infinity apart.
inline double largest_of(const std::vector<float>& values) {
  double largest = 0.0;
  for (const float value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

/// Of sums of `products` products of each row of weights with values up to `x`, behind the clip.
inline double largest_sum(const std::vector<float>& weights, const std::vector<float>& bias, int products,
                          const kernels::Activation& clip, double x) {
  double largest = 0.0;
  for (std::size_t row = 0; row < weights.size() / static_cast<std::size_t>(products); ++row) {
    double sum = bias.empty() ? 0.0 : std::abs(static_cast<double>(bias[row]));
    for (int k = 0; k < products; ++k) {
      sum += x * std::abs(static_cast<double>(
                     weights[row * static_cast<std::size_t>(products) + static_cast<std::size_t>(k)]));
    }
    largest = std::max(largest, sum);
  }
  return std::max(std::abs(activate(clip, largest)), std::abs(activate(clip, -largest)));
}

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, expand, expand_bias, depthwise, depthwise_bias, project, project_bias;

  double filtered_bound(const InvertedResidualParams& p) const {
    constexpr int kTaps = 9;
    constexpr double kRounding = 1.0 + 0x1p-10;
    const double input = largest_of(x);
    const double hidden = p.expand ? largest_sum(expand, expand_bias, p.c_in, p.expand_activation, input) : input;
    return kRounding * largest_sum(depthwise, depthwise_bias, kTaps, p.depthwise_activation, hidden);
  }

  kernels::InvertedResidualWeights weights(const InvertedResidualParams& p) const {
    const auto pointer = [](const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
    return {pointer(expand),
            pointer(expand_bias),
            pointer(depthwise),
            pointer(depthwise_bias),
            pointer(project),
            pointer(project_bias),
            static_cast<float>(largest_of(x)),
            static_cast<float>(filtered_bound(p))};
  }
};

template <class Fill>
Data make_data(const InvertedResidualParams& p, bool bias, const Fill& fill) {
  Data data;
  data.x = fill(input_count(p));
  data.depthwise = fill(count_of(1, 3, 3, p.c_hidden));
  data.project = fill(count_of(1, 1, p.c_hidden, p.c_out));
  if (p.expand) data.expand = fill(count_of(1, 1, p.c_in, p.c_hidden));
  if (!bias) return data;
  data.depthwise_bias = fill(static_cast<std::size_t>(p.c_hidden));
  data.project_bias = fill(static_cast<std::size_t>(p.c_out));
  if (p.expand) data.expand_bias = fill(static_cast<std::size_t>(p.c_hidden));
  return data;
}

inline Data random_data(const InvertedResidualParams& p, std::uint32_t seed, bool bias = true) {
  Data data = make_data(p, bias, [&](std::size_t count) { return random_uniform(seed++, count); });
  for (std::vector<float>* stored : {&data.x, &data.expand, &data.depthwise, &data.project}) {
    *stored = rounded(p.elem, *stored);
  }
  return data;
}

inline Data integer_data(const InvertedResidualParams& p, std::uint32_t seed) {
  return make_data(p, true, [&](std::size_t count) { return random_integers(seed++, count); });
}

inline OracleConv pointwise(int n, int h, int w, int c_in, int c_out) {
  OracleConv o;
  o.n = n;
  o.h = o.out_h = h;
  o.w = o.out_w = w;
  o.c_in = c_in;
  o.c_out = c_out;
  return o;
}

inline Tensor oracle_of(const InvertedResidualParams& p, const Data& data) {
  constexpr int kTaps = 9;
  const Tensor x = exact(data.x);
  // What split products of numbers near zero add.
  const auto with_tiny = [&](Tensor sums, int products, double left, const std::vector<float>& weights) {
    if (!p.split) return sums;
    const double tiny = split_error_of_tiny(products, left, largest_of(weights));
    for (double& bound : sums.bound) bound += tiny;
    return sums;
  };
  const OracleConv expand = pointwise(p.n, p.h, p.w, p.c_in, p.c_hidden);
  const Tensor hidden = p.expand ? with_tiny(convolve(expand, p.expand_activation, store_of(p.elem),
                                                      pointwise_gamma(p, p.c_in), x, data.expand, data.expand_bias),
                                             p.c_in, largest_of(data.x), data.expand)
                                 : x;
  OracleConv depthwise = pointwise(p.n, p.h, p.w, p.c_hidden, p.c_hidden);
  depthwise.groups = p.c_hidden;
  depthwise.kernel_h = depthwise.kernel_w = 3;
  depthwise.stride_h = depthwise.stride_w = p.stride;
  depthwise.pad_top = p.pad_top;
  depthwise.pad_left = p.pad_left;
  depthwise.out_h = p.out_h;
  depthwise.out_w = p.out_w;
  const double filtered_gamma = p.elem == Elem::F32 ? gamma(kTaps) : gamma_tensor_core(kTaps);
  const Tensor filtered = convolve(depthwise, p.depthwise_activation, store_of(p.elem), filtered_gamma, hidden,
                                   data.depthwise, data.depthwise_bias);
  const OracleConv project = pointwise(p.n, p.out_h, p.out_w, p.c_hidden, p.c_out);
  return with_tiny(convolve(project, p.project_clip, store_of(p.elem), pointwise_gamma(p, p.c_hidden), filtered,
                            data.project, data.project_bias, p.residual ? &x : nullptr),
                   p.c_hidden, data.filtered_bound(p), data.project);
}

/// The oracle with the bounds of either kind of variants; refers to `data`.
class Oracles {
 public:
  Oracles(const InvertedResidualParams& p, const Data& data) : params_(p), data_(data) {}

  const Tensor& of(InvertedResidualVariant variant) {
    std::optional<Tensor>& oracle = is_split(variant) ? split_ : exact_;
    if (!oracle) oracle = oracle_of(with_split(params_, is_split(variant)), data_);
    return *oracle;
  }

 private:
  InvertedResidualParams params_;
  const Data& data_;  // the caller's
  std::optional<Tensor> exact_, split_;
};

inline GuardedBuffer pack(InvertedResidualVariant variant, const InvertedResidualParams& p, const Data& data) {
  std::vector<std::byte> packed(kernels::inverted_residual_packed_bytes(variant, p));
  kernels::inverted_residual_pack(variant, p, data.weights(p), packed.data());
  return GuardedBuffer(packed);
}

/// The inputs on the GPU, for all variants. Refers to `data`.
class Device {
 public:
  Device(const InvertedResidualParams& p, const Data& data) : params_(p), data_(data), x_(p.elem, data.x) {}

  std::vector<float> run(InvertedResidualVariant variant) const {
    const InvertedResidualParams p = with_split(params_, is_split(variant));
    const GuardedBuffer packed = pack(variant, p, data_);
    std::vector<float> y = run_kernel(p.elem, output_count(p), 0, [&](void* out, const kernels::Launch& where) {
      return kernels::inverted_residual(variant, p, x_.data(), packed.data(), out, where);
    });
    CHECK(x_.check_unchanged());
    CHECK(packed.check_unchanged());
    return y;
  }

 private:
  InvertedResidualParams params_;
  const Data& data_;  // the caller's
  DeviceTensor x_;
};

/// Of float also those of split products.
template <class Body>
int for_each_variant(const InvertedResidualParams& p, const Body& body) {
  return for_each_supported(kernels::inverted_residual_variants(), with_split(p), body);
}

inline int check_against_oracle(
    const InvertedResidualParams& p, const Data& data,
    std::span<const InvertedResidualVariant> variants = kernels::inverted_residual_variants()) {
  Oracles oracles(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  const Device device(p, data);
  return for_each_supported(variants, with_split(p), [&](InvertedResidualVariant variant) {
    const Tensor& oracle = oracles.of(variant);
    const std::vector<float> y = device.run(variant);
    REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));
    if (y.size() < kAlarmElements) return;
    if (p.elem == Elem::F16) {
      REQUIRE(compare_rel_l2(y, oracle.rounded, kAlarm));
    } else {
      const int products = p.c_in + 9 + p.c_hidden;
      REQUIRE(compare_rel_l2(y, oracle.value,
                             is_split(variant) ? split_rel_l2_alarm(products) : rel_l2_alarm(products, kStoreF32)));
    }
  });
}

inline InvertedResidualParams block(int n, int h, int w, int c_in, int c_hidden, int c_out, int stride) {
  InvertedResidualParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = c_in;
  p.c_hidden = c_hidden;
  p.c_out = c_out;
  p.stride = stride;
  p.pad_top = p.pad_left = 1;
  p.out_h = output_extent(h, 3, stride, 1, 1, 1);
  p.out_w = output_extent(w, 3, stride, 1, 1, 1);
  p.expand = c_hidden != c_in;
  p.residual = stride == 1 && c_in == c_out;
  p.expand_activation = p.depthwise_activation = kRelu6;
  p.project_clip = kNone;
  return p;
}

inline InvertedResidualParams block(const InvertedResidualLayer& layer, int n) {
  return block(n, layer.size, layer.size, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
}

/// With channels that variants of all families for few channels run: B3 or B2.
inline InvertedResidualParams small_block(int n, int h, int w, bool expand, int stride) {
  if (!expand) return block(n, h, w, 32, 32, 16, stride);
  return stride == 1 ? block(n, h, w, 24, 144, 24, stride) : block(n, h, w, 16, 96, 24, stride);
}

/// A shape that at least one variant runs.
inline InvertedResidualParams random_shape(Choice& choose) {
  constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 13, 14, 15, 17, 28, 30};
  constexpr int kChannels[] = {8, 16, 24, 32, 40, 64, 96};
  constexpr int kHidden[] = {16, 32, 48, 64, 80, 144, 192, 208, 400};
  for (;;) {
    InvertedResidualParams p = block(1 + choose.upto(2), choose(kSizes), choose(kSizes), choose(kChannels),
                                     choose(kHidden), choose(kChannels), 1 + choose.upto(1));
    p.elem = choose.flip() ? Elem::F32 : Elem::F16;
    if (p.stride == 1 && choose.flip()) p.c_out = p.c_in;
    p.expand = choose.upto(3) > 0;
    if (!p.expand) p.c_hidden = p.c_in;
    p.pad_top = choose.upto(2);
    p.pad_left = choose.upto(2);
    p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, choose.upto(2));
    p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, choose.upto(2));
    p.residual = p.stride == 1 && p.c_in == p.c_out && p.out_h == p.h && p.out_w == p.w;
    p.expand_activation = kClips[choose.upto(2)];
    p.depthwise_activation = kClips[choose.upto(2)];
    p.project_clip = kClips[choose.upto(2)];
    if (p.out_h == 0 || p.out_w == 0) continue;
    if (for_each_variant(p, [](InvertedResidualVariant) {}) > 0) return p;
  }
}

/// B8 to B17 in any size, and as they are: their variants know the channels at compile time.
inline InvertedResidualParams late_block(Choice& choose) {
  constexpr int kFirst = 6;
  constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 14};
  constexpr int kLast = static_cast<int>(std::size(kMobileNetV2Blocks)) - 1;
  const InvertedResidualLayer& layer = kMobileNetV2Blocks[kFirst + choose.upto(kLast - kFirst)];
  InvertedResidualParams p =
      block(1 + choose.upto(7), choose(kSizes), choose(kSizes), layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
  p.pad_top = choose.upto(2);
  p.pad_left = choose.upto(2);
  p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, 1 + choose.upto(1));
  p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, 1 + choose.upto(1));
  p.residual = p.c_in == p.c_out && p.out_h == p.h && p.out_w == p.w && choose.flip();
  if (choose.upto(3) == 0) {
    p = block(layer, 1 + choose.upto(2));
    p.residual = p.residual && choose.flip();
  }
  return p;
}

}  // namespace mobicuda::test::inverted_residual_case
