// Parameters, data and the oracle that the tests of int8_depthwise_conv share.
#pragma once

#include <algorithm>
#include <ostream>
#include <vector>

#include "kernels/int8_depthwise_conv/int8_depthwise_conv.h"
#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/int8_data.h"
#include "support/random.h"
#include "support/run_kernel.h"

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const Int8DepthwiseConvParams& p) {
  return out << kernel_of(p).shape(p) << " x_zero " << p.x_zero << " result " << p.result.zero_point << " in "
             << p.result.low << ".." << p.result.high;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::int8_depthwise_conv_case {

using kernels::Int8DepthwiseConvParams;
using kernels::Int8DepthwiseConvVariant;
using window_case::count_of;

inline int pitch_of(int pitch, int channels) {
  return pitch == 0 ? kernels::round_up(channels, kernels::kChannelStep) : pitch;
}

inline Int8DepthwiseConvParams same_padded(int n, int h, int w, int c, int size, int stride) {
  Int8DepthwiseConvParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c = c;
  p.kernel_h = p.kernel_w = size;
  p.stride_h = p.stride_w = stride;
  p.pad_top = p.pad_left = size / 2;
  p.out_h = (h + stride - 1) / stride;
  p.out_w = (w + stride - 1) / stride;
  p.x_zero = -9;
  p.result = {4, -120, 110};
  return p;
}

struct Data {
  Bytes x, weight;  ///< x with its pitch
  std::vector<std::int32_t> bias;
  std::vector<float> multiplier;
};

inline Data make_data(const Int8DepthwiseConvParams& p, ByteData bytes, std::uint32_t seed) {
  Data data;
  const std::size_t products = count_of(p.kernel_h, p.kernel_w, 1, 1);
  const auto channels = static_cast<std::size_t>(p.c);
  data.x = make_bytes(bytes, seed, count_of(p.n, p.h, p.w, pitch_of(p.x_pitch, p.c)));
  data.weight = make_bytes(bytes, seed + 1, products * channels);
  const float typical = 60.0F / (5600.0F * std::sqrt(static_cast<float>(products)));
  data.multiplier = random_uniform(seed + 2, channels, 0.5F * typical, 1.5F * typical);
  for (const float value : random_uniform(seed + 3, channels, -9000.0F, 9000.0F)) {
    data.bias.push_back(static_cast<std::int32_t>(value));
  }
  return data;
}

inline Bytes oracle(const Int8DepthwiseConvParams& p, const Data& data) {
  const int x_pitch = pitch_of(p.x_pitch, p.c);
  const auto y_pitch = static_cast<std::size_t>(pitch_of(p.y_pitch, p.c));
  const auto columns = static_cast<std::size_t>(pitch_of(0, p.c));
  const std::size_t pixels = count_of(p.n, p.out_h, p.out_w, 1);
  Bytes y(pixels * y_pitch, -1);
  parallel_for(pixels, [&](std::size_t pixel) {
    const int ox = static_cast<int>(pixel % static_cast<std::size_t>(p.out_w));
    const int oy = static_cast<int>(pixel / static_cast<std::size_t>(p.out_w) % static_cast<std::size_t>(p.out_h));
    const auto image = static_cast<int>(pixel / count_of(1, p.out_h, p.out_w, 1));
    for (std::size_t c = 0; c < columns; ++c) {
      std::int64_t sum = 0;
      float factor = 0.0F;
      if (c < static_cast<std::size_t>(p.c)) {
        sum = data.bias[c];
        factor = data.multiplier[c];
        for (int ky = 0; ky < p.kernel_h; ++ky) {
          for (int kx = 0; kx < p.kernel_w; ++kx) {
            const int iy = oy * p.stride_h + ky * p.dilation_h - p.pad_top;
            const int ix = ox * p.stride_w + kx * p.dilation_w - p.pad_left;
            if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;  // x - x_zero is 0
            const std::size_t at =
                count_of(image, p.h, p.w, x_pitch) + count_of(iy, p.w, x_pitch, 1) + count_of(ix, x_pitch, 1, 1) + c;
            const std::size_t tap = (c * static_cast<std::size_t>(p.kernel_h) + static_cast<std::size_t>(ky)) *
                                        static_cast<std::size_t>(p.kernel_w) +
                                    static_cast<std::size_t>(kx);
            sum += std::int64_t{data.x[at] - p.x_zero} * data.weight[tap];
          }
        }
      }
      y[pixel * y_pitch + c] = to_byte(p.result, product(static_cast<float>(sum), factor));
    }
  });
  return y;
}

/// The inputs on the GPU, for all variants.
class Device {
 public:
  Device(const Int8DepthwiseConvParams& p, const Data& data)
      : params_(p), x_(on_device(data.x)), packed_(pack(p, data)) {}

  Bytes run(Int8DepthwiseConvVariant variant) const {
    const std::size_t count = count_of(params_.n, params_.out_h, params_.out_w, pitch_of(params_.y_pitch, params_.c));
    Bytes y = run_on_bytes<std::int8_t>(count, [&](void* out, const kernels::Launch& where) {
      return kernels::int8_depthwise_conv(variant, params_, x(), weights(), out, where);
    });
    CHECK(x_.check_unchanged());
    CHECK(packed_.weight.check_unchanged());
    return y;
  }

  kernels::Int8DepthwiseConvWeights weights() const {
    return {packed_.weight.data(), static_cast<const std::int32_t*>(packed_.bias.data()),
            static_cast<const float*>(packed_.multiplier.data())};
  }
  const void* x() const { return x_.data(); }

 private:
  struct Packed {
    GuardedBuffer weight, bias, multiplier;
  };
  static Packed pack(const Int8DepthwiseConvParams& p, const Data& data) {
    Bytes weight(kernels::int8_depthwise_conv_packed_bytes(p));
    std::vector<std::int32_t> bias(kernels::int8_depthwise_conv_packed_channels(p));
    std::vector<float> multiplier(bias.size());
    kernels::int8_depthwise_conv_pack(p, data.weight.data(), data.bias.data(), data.multiplier.data(), weight.data(),
                                      bias.data(), multiplier.data());
    return {on_device(weight), on_device(bias), on_device(multiplier)};
  }

  Int8DepthwiseConvParams params_;
  GuardedBuffer x_;
  Packed packed_;
};

/// Every variant against the oracle; how many ran.
inline int check(const Int8DepthwiseConvParams& p, std::uint32_t seed, ByteData bytes = ByteData::Random) {
  const Data data = make_data(p, bytes, seed);
  const Bytes expected = oracle(p, data);
  const Device device(p, data);
  return for_each_supported(kernels::int8_depthwise_conv_variants(), p, [&](Int8DepthwiseConvVariant variant) {
    const Bytes y = device.run(variant);
    const auto [at, wanted] = std::mismatch(y.begin(), y.end(), expected.begin());
    if (at == y.end()) return;
    INFO("first difference at " << at - y.begin() << ": " << +*at << ", expected " << +*wanted);
    CHECK(y == expected);
  });
}

}  // namespace mobicuda::test::int8_depthwise_conv_case
