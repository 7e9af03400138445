// Parameters, data and the oracle that the tests of int8_conv2d share.
#pragma once

#include <algorithm>
#include <ostream>
#include <vector>

#include "kernels/int8_conv2d/int8_conv2d.h"
#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/int8_data.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const Int8Conv2dParams& p) {
  return out << kernel_of(p).shape(p) << " x_zero " << p.x_zero << " result " << p.result.zero_point << " in "
             << p.result.low << ".." << p.result.high;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::int8_conv2d_case {

using kernels::Int8Conv2dParams;
using kernels::Int8Conv2dVariant;
using window_case::count_of;

inline int padded(int channels) { return kernels::round_up(channels, kernels::kChannelStep); }
inline int x_pitch_of(const Int8Conv2dParams& p) { return p.x_pitch == 0 ? padded(p.c_in) : p.x_pitch; }
inline bool is_float(const Int8Conv2dParams& p) { return p.output != Int8Conv2dParams::Output::Int8; }
inline int y_pitch_of(const Int8Conv2dParams& p) {
  if (is_float(p)) return p.c_out;
  return p.y_pitch == 0 ? padded(p.c_out) : p.y_pitch;
}

/// Same padding.
inline Int8Conv2dParams window(int n, int h, int w, int c_in, int c_out, int size, int stride) {
  Int8Conv2dParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = c_in;
  p.c_out = c_out;
  p.kernel_h = p.kernel_w = size;
  p.stride_h = p.stride_w = stride;
  p.pad_top = p.pad_left = size / 2;
  p.out_h = (h + stride - 1) / stride;
  p.out_w = (w + stride - 1) / stride;
  p.x_zero = 5;
  p.result = {-7, -100, 120};
  return p;
}
inline Int8Conv2dParams rows(int m, int k, int n) { return window(1, m, 1, k, n, 1, 1); }

inline Int8Conv2dParams with_residual(Int8Conv2dParams p) {
  p.residual = true;
  p.sum = {0.75F, 1.25F, p.result.zero_point, 11, {3, -128, 126}};
  return p;
}

struct Data {
  Bytes x, weight, residual;  ///< x with its pitch
  std::vector<std::int32_t> bias;
  std::vector<float> multiplier;
};

/// Multipliers spread sums over the bytes, most of which do not saturate.
inline Data make_data(const Int8Conv2dParams& p, ByteData bytes, std::uint32_t seed) {
  Data data;
  const std::size_t products = count_of(p.kernel_h, p.kernel_w, 1, p.c_in / p.groups);
  data.x = make_bytes(bytes, seed, count_of(p.n, p.h, p.w, x_pitch_of(p)));
  data.weight = make_bytes(bytes, seed + 1, products * static_cast<std::size_t>(p.c_out));
  if (p.residual) data.residual = make_bytes(bytes, seed + 2, count_of(p.n, p.out_h, p.out_w, y_pitch_of(p)));
  const auto channels = static_cast<std::size_t>(p.c_out);
  const float typical = 60.0F / (5600.0F * std::sqrt(static_cast<float>(products)));
  data.multiplier = random_uniform(seed + 3, channels, 0.5F * typical, 1.5F * typical);
  for (const float value : random_uniform(seed + 4, channels, -20000.0F, 20000.0F)) {
    data.bias.push_back(static_cast<std::int32_t>(value));
  }
  return data;
}

/// What every variant has to give, with the bytes behind the last channel.
template <class Result>
std::vector<Result> oracle(const Int8Conv2dParams& p, const Data& data) {
  const int group_in = p.c_in / p.groups;
  const int group_out = p.c_out / p.groups;
  const auto pitch = static_cast<std::size_t>(y_pitch_of(p));
  const auto columns = static_cast<std::size_t>(is_float(p) ? p.c_out : padded(p.c_out));
  const std::size_t pixels = count_of(p.n, p.out_h, p.out_w, 1);
  std::vector<Result> y(pixels * pitch, static_cast<Result>(-1));  // as GuardedBuffer's bytes are before
  parallel_for(pixels, [&](std::size_t pixel) {
    const int ox = static_cast<int>(pixel % static_cast<std::size_t>(p.out_w));
    const int oy = static_cast<int>(pixel / static_cast<std::size_t>(p.out_w) % static_cast<std::size_t>(p.out_h));
    const auto image = pixel / count_of(1, p.out_h, p.out_w, 1);
    for (std::size_t co = 0; co < columns; ++co) {
      std::int64_t sum = 0;
      float factor = 0.0F;
      if (co < static_cast<std::size_t>(p.c_out)) {
        sum = data.bias[co];
        factor = data.multiplier[co];
        const int first = static_cast<int>(co) / group_out * group_in;
        for (int ky = 0; ky < p.kernel_h; ++ky) {
          for (int kx = 0; kx < p.kernel_w; ++kx) {
            const int iy = oy * p.stride_h + ky * p.dilation_h - p.pad_top;
            const int ix = ox * p.stride_w + kx * p.dilation_w - p.pad_left;
            if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;  // x - x_zero is 0
            const std::int8_t* x = data.x.data() + count_of(static_cast<int>(image), p.h, p.w, x_pitch_of(p)) +
                                   count_of(iy, p.w, x_pitch_of(p), 1) + count_of(ix, x_pitch_of(p), 1, 1) + first;
            for (int c = 0; c < group_in; ++c) {
              const std::size_t at = ((co * static_cast<std::size_t>(group_in) + static_cast<std::size_t>(c)) *
                                          static_cast<std::size_t>(p.kernel_h) +
                                      static_cast<std::size_t>(ky)) *
                                         static_cast<std::size_t>(p.kernel_w) +
                                     static_cast<std::size_t>(kx);
              sum += std::int64_t{x[c] - p.x_zero} * data.weight[at];
            }
          }
        }
      }
      const float value = product(static_cast<float>(sum), factor);
      Result& to = y[pixel * pitch + co];
      if constexpr (std::is_same_v<Result, float>) {
        const bool dequantized = p.output == Int8Conv2dParams::Output::Dequantized;
        const int whole = dequantized ? to_byte(p.result, value) - p.result.zero_point : 0;
        to = dequantized ? product(static_cast<float>(whole), p.y_scale) : value;
      } else {
        to = to_byte(p.result, value);
        if (p.residual) to = add_bytes(p.sum, to, data.residual[pixel * pitch + co]);
      }
    }
  });
  return y;
}

/// The inputs on the GPU, for all variants.
class Device {
 public:
  Device(const Int8Conv2dParams& p, const Data& data)
      : params_(p), x_(on_device(data.x)), residual_(on_device(data.residual)), packed_(pack(p, data)) {}

  template <class Result>
  std::vector<Result> run(Int8Conv2dVariant variant) const {
    const std::size_t count = count_of(params_.n, params_.out_h, params_.out_w, y_pitch_of(params_));
    std::vector<Result> y = run_on_bytes<Result>(count, [&](void* out, const kernels::Launch& where) {
      return kernels::int8_conv2d(variant, params_, x(), weights(), residual(), out, where);
    });
    CHECK(x_.check_unchanged());
    CHECK(residual_.check_unchanged());
    CHECK(packed_.weight.check_unchanged());
    return y;
  }

  kernels::Int8Conv2dWeights weights() const {
    return {packed_.weight.data(), static_cast<const std::int32_t*>(packed_.bias.data()),
            static_cast<const float*>(packed_.multiplier.data())};
  }
  const void* x() const { return x_.data(); }
  /// Null where there is none.
  const void* residual() const { return params_.residual ? residual_.data() : nullptr; }

 private:
  struct Packed {
    GuardedBuffer weight, bias, multiplier;
  };
  static Packed pack(const Int8Conv2dParams& p, const Data& data) {
    Bytes weight(kernels::int8_conv2d_packed_bytes(p));
    std::vector<std::int32_t> bias(kernels::int8_conv2d_packed_biases(p));
    std::vector<float> multiplier(kernels::int8_conv2d_packed_channels(p));
    kernels::int8_conv2d_pack(p, data.weight.data(), data.bias.data(), data.multiplier.data(), weight.data(),
                              bias.data(), multiplier.data());
    return {on_device(weight), on_device(bias), on_device(multiplier)};
  }

  Int8Conv2dParams params_;
  GuardedBuffer x_, residual_;
  Packed packed_;
};

template <class Result>
int check_all(const Int8Conv2dParams& p, const Data& data) {
  const std::vector<Result> expected = oracle<Result>(p, data);
  const Device device(p, data);
  return for_each_supported(kernels::int8_conv2d_variants(), p, [&](Int8Conv2dVariant variant) {
    const std::vector<Result> y = device.run<Result>(variant);
    if constexpr (std::is_same_v<Result, float>) {
      CHECK(compare_bits(y, expected));
    } else {
      const auto [at, wanted] = std::mismatch(y.begin(), y.end(), expected.begin());
      if (at == y.end()) return;
      INFO("first difference at " << at - y.begin() << ": " << +*at << ", expected " << +*wanted);
      CHECK(y == expected);
    }
  });
}

/// Every variant against the oracle; how many ran.
inline int check(const Int8Conv2dParams& p, const Data& data) {
  return is_float(p) ? check_all<float>(p, data) : check_all<std::int8_t>(p, data);
}
inline int check(const Int8Conv2dParams& p, std::uint32_t seed, ByteData bytes = ByteData::Random) {
  return check(p, make_data(p, bytes, seed));
}

}  // namespace mobicuda::test::int8_conv2d_case
