// Parameters, data and checks that the tests of depthwise_conv share.
#pragma once

#include <algorithm>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const DepthwiseConvParams& p) {
  return out << test::to_string(p.elem) << " n" << p.n << " " << p.h << 'x' << p.w << 'x' << p.c << " -> " << p.out_h
             << 'x' << p.out_w << " kernel " << p.kernel_h << 'x' << p.kernel_w << " stride " << p.stride_h << ','
             << p.stride_w << " dilation " << p.dilation_h << ',' << p.dilation_w << " pad " << p.pad_top << ','
             << p.pad_left << " bias " << p.bias << " clip " << p.activation.lo << ".." << p.activation.hi;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::depthwise_conv_case {

using namespace window_case;
using kernels::DepthwiseConvParams;
using kernels::DepthwiseConvVariant;

inline std::size_t input_count(const DepthwiseConvParams& p) { return count_of(p.n, p.h, p.w, p.c); }
inline std::size_t output_count(const DepthwiseConvParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c); }
inline std::size_t weight_count(const DepthwiseConvParams& p) { return count_of(1, p.kernel_h, p.kernel_w, p.c); }

inline OracleConv oracle_of(const DepthwiseConvParams& p) {
  OracleConv o = oracle_of_window(p);
  o.c_in = o.c_out = o.groups = p.c;
  return o;
}

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, weight, bias;
};

inline Data random_data(const DepthwiseConvParams& p, std::uint32_t seed) {
  Data data;
  data.x = rounded(p.elem, random_uniform(seed, input_count(p)));
  data.weight = rounded(p.elem, random_uniform(seed + 1, weight_count(p)));
  if (p.bias) data.bias = random_uniform(seed + 2, static_cast<std::size_t>(p.c));
  return data;
}

inline Data integer_data(const DepthwiseConvParams& p, std::uint32_t seed) {
  Data data{random_integers(seed, input_count(p)), random_integers(seed + 1, weight_count(p)), {}};
  if (p.bias) data.bias = random_integers(seed + 2, static_cast<std::size_t>(p.c));
  return data;
}

/// The inputs on the GPU, for all variants.
class Device {
 public:
  Device(const DepthwiseConvParams& p, const Data& data)
      : params_(p), x_(p.elem, data.x), packed_(pack(p, data.weight)), bias_(Elem::F32, data.bias) {}

  std::vector<float> run(DepthwiseConvVariant variant) const {
    std::vector<float> y =
        run_kernel(params_.elem, output_count(params_), 0, [&](void* out, const kernels::Launch& where) {
          return kernels::depthwise_conv(variant, params_, x_.data(), packed_.data(), bias_.floats(), out, where);
        });
    CHECK(x_.check_unchanged());
    CHECK(packed_.check_unchanged());
    CHECK(bias_.check_unchanged());
    return y;
  }

 private:
  static GuardedBuffer pack(const DepthwiseConvParams& p, const std::vector<float>& weight) {
    std::vector<std::byte> packed(kernels::depthwise_conv_packed_bytes(p.elem, p.c, p.kernel_h, p.kernel_w));
    kernels::depthwise_conv_pack(p.elem, p.c, p.kernel_h, p.kernel_w, weight.data(), packed.data());
    return GuardedBuffer(packed);
  }

  DepthwiseConvParams params_;
  DeviceTensor x_;
  GuardedBuffer packed_;
  DeviceTensor bias_;
};

template <class Body>
int for_each_variant(const DepthwiseConvParams& p, const Body& body) {
  return for_each_supported(kernels::depthwise_conv_variants(), p, body);
}

inline void check_against_oracle(const DepthwiseConvParams& p, const Data& data, std::uint32_t seed,
                                 std::span<const DepthwiseConvVariant> variants = kernels::depthwise_conv_variants()) {
  const OracleConv conv = oracle_of(p);
  const std::vector<std::size_t> pixels = sample_pixels(conv, seed, kSampledPixels);
  const Oracle oracle = conv2d_at(conv, pixels, data.x, data.weight, data.bias, {});
  const Store store = store_of(p.elem);
  const std::vector<double> bounds =
      hard_bounds(gamma(oracle.products, unit_of(p.elem)), oracle.magnitude, oracle.value, store);
  const int shape[] = {static_cast<int>(pixels.size()), p.c};
  const Device device(p, data);
  CAPTURE(seed);
  for_each_supported(variants, p, [&](DepthwiseConvVariant variant) {
    const std::vector<float> y = device.run(variant);
    const std::vector<float> sampled = gather(y, pixels, p.c);
    REQUIRE(compare_elements(sampled, oracle.value, bounds, shape));
    if (sampled.size() >= kAlarmElements) {
      REQUIRE(compare_rel_l2(sampled, oracle.value, rel_l2_alarm(oracle.products, store)));
    }
  });
}

/// A square window with the padding that keeps the size at stride 1.
inline DepthwiseConvParams same_size(Elem elem, int n, int h, int w, int c, int stride, int window = 3) {
  DepthwiseConvParams p;
  p.elem = elem;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c = c;
  p.stride_h = p.stride_w = stride;
  p.kernel_h = p.kernel_w = window;
  p.pad_top = p.pad_left = window / 2;
  p.out_h = output_extent(h, window, stride, 1, p.pad_top, p.pad_top);
  p.out_w = output_extent(w, window, stride, 1, p.pad_left, p.pad_left);
  p.bias = true;
  p.activation = kRelu6;
  return p;
}

/// A shape of the grid small enough for the oracle; `strips` asks for one that the strips support.
inline DepthwiseConvParams random_shape(Choice& choose, Elem elem, bool strips) {
  constexpr std::size_t kLargest = 1U << 20U;
  for (;;) {
    DepthwiseConvParams p;
    p.elem = elem;
    p.n = choose(kBatchGrid);
    p.h = choose(kSizeGrid);
    p.w = choose(kSizeGrid);
    p.c = choose(kChannelGrid);
    if (strips) {
      p.kernel_h = p.kernel_w = choose.flip() ? 3 : 5;
    } else {
      p.kernel_h = choose(kKernelGrid);
      p.kernel_w = choose(kKernelGrid);
      p.dilation_h = 1 + choose.upto(1);
      p.dilation_w = 1 + choose.upto(1);
    }
    p.stride_h = 1 + choose.upto(strips ? 1 : 2);
    p.stride_w = strips ? p.stride_h : 1 + choose.upto(2);
    p.pad_top = choose.upto(3);
    p.pad_left = choose.upto(3);
    p.out_h = output_extent(p.h, p.kernel_h, p.stride_h, p.dilation_h, p.pad_top, choose.upto(3));
    p.out_w = output_extent(p.w, p.kernel_w, p.stride_w, p.dilation_w, p.pad_left, choose.upto(3));
    p.bias = choose.flip();
    p.activation = kClips[choose.upto(2)];
    const bool fits = p.out_h > 0 && p.out_w > 0 && input_count(p) <= kLargest && output_count(p) <= kLargest;
    if (fits && (!strips || p.c % 2 == 0)) return p;
  }
}

}  // namespace mobicuda::test::depthwise_conv_case
