// Parameters, data and the oracle that the tests of int8_stem_block share: quantize's and three convolutions' oracles.
#pragma once

#include <cmath>
#include <ostream>
#include <vector>

#include "kernels/int8_conv2d_case.h"
#include "kernels/int8_depthwise_conv_case.h"
#include "kernels/int8_stem_block/int8_stem_block.h"

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const Int8StemBlockParams& p) {
  return out << kernel_of(p).shape(p) << " x_zero " << p.x.zero_point;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::int8_stem_block_case {

using kernels::Int8StemBlockParams;
using kernels::Int8StemBlockVariant;
using kernels::Int8StemInput;
using window_case::count_of;

constexpr int kChannels = 3;
constexpr int kWordBytes = 4;

/// Same padding, ranges as a Relu makes them, and the scale of pictures between -1 and 1.
inline Int8StemBlockParams block(int n, int h, int w, int c_stem = 32, int c_out = 16) {
  Int8StemBlockParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_stem = c_stem;
  p.c_out = c_out;
  p.stem_h = p.out_h = (h + 1) / 2;
  p.stem_w = p.out_w = (w + 1) / 2;
  p.stem_pad_top = p.stem_pad_left = 1;
  p.depthwise_pad_top = p.depthwise_pad_left = 1;
  p.x_scale = 0.007843138F;
  p.x = {-1, -128, 127};
  p.stem_result = {-128, -128, 127};
  p.depthwise_result = {-100, -100, 120};
  p.result = {-7, -128, 127};
  return p;
}

inline kernels::Int8Conv2dParams stem_of(const Int8StemBlockParams& p) {
  kernels::Int8Conv2dParams conv = int8_conv2d_case::window(p.n, p.h, p.w, kChannels, p.c_stem, 3, 2);
  conv.pad_top = p.stem_pad_top;
  conv.pad_left = p.stem_pad_left;
  conv.out_h = p.stem_h;
  conv.out_w = p.stem_w;
  conv.x_pitch = kWordBytes;
  conv.x_zero = p.x.zero_point;
  conv.result = p.stem_result;
  return conv;
}
inline kernels::Int8DepthwiseConvParams depthwise_of(const Int8StemBlockParams& p) {
  kernels::Int8DepthwiseConvParams conv =
      int8_depthwise_conv_case::same_padded(p.n, p.stem_h, p.stem_w, p.c_stem, 3, 1);
  conv.pad_top = p.depthwise_pad_top;
  conv.pad_left = p.depthwise_pad_left;
  conv.out_h = p.out_h;
  conv.out_w = p.out_w;
  conv.x_zero = p.stem_result.zero_point;
  conv.result = p.depthwise_result;
  return conv;
}
inline kernels::Int8Conv2dParams project_of(const Int8StemBlockParams& p) {
  kernels::Int8Conv2dParams conv = int8_conv2d_case::window(p.n, p.out_h, p.out_w, p.c_stem, p.c_out, 1, 1);
  conv.x_zero = p.depthwise_result.zero_point;
  conv.result = p.result;
  return conv;
}

struct Data {
  int8_conv2d_case::Data stem, project;  ///< stem.x is the image as words
  int8_depthwise_conv_case::Data depthwise;
  std::vector<float> x;

  kernels::Int8StemBlockLayers layers() const {
    return {{stem.weight.data(), stem.bias.data(), stem.multiplier.data()},
            {depthwise.weight.data(), depthwise.bias.data(), depthwise.multiplier.data()},
            {project.weight.data(), project.bias.data(), project.multiplier.data()}};
  }
};

/// The words that quantize makes of x. What lies behind the channels is any: it must meet zeros.
inline void quantize_image(const Int8StemBlockParams& p, Data& data) {
  const std::size_t pixels = count_of(p.h, p.w, 1, 1);
  for (std::size_t i = 0; i < data.x.size(); ++i) {
    const std::size_t plane = i / pixels;
    const std::size_t pixel = plane / kChannels * pixels + i % pixels;
    const volatile float v = data.x[i] / p.x_scale;
    data.stem.x[pixel * kWordBytes + plane % kChannels] =
        std::isnan(v) ? static_cast<std::int8_t>(p.x.low) : to_byte(p.x, v);
  }
}

inline Data make_data(const Int8StemBlockParams& p, ByteData bytes, std::uint32_t seed) {
  Data data;
  data.stem = int8_conv2d_case::make_data(stem_of(p), bytes, seed);
  data.depthwise = int8_depthwise_conv_case::make_data(depthwise_of(p), bytes, seed + 10);
  data.project = int8_conv2d_case::make_data(project_of(p), bytes, seed + 20);
  const std::size_t pixels = count_of(p.h, p.w, 1, 1);
  data.x.resize(count_of(p.n, kChannels, 1, 1) * pixels);
  const std::vector<float> off = random_uniform(seed + 30, data.x.size(), -0.6F, 0.6F);
  for (std::size_t i = 0; i < data.x.size(); ++i) {
    const std::size_t plane = i / pixels;
    const std::size_t pixel = plane / kChannels * pixels + i % pixels;
    const auto byte = static_cast<float>(data.stem.x[pixel * kWordBytes + plane % kChannels]);
    data.x[i] = (byte - static_cast<float>(p.x.zero_point) + off[i]) * p.x_scale;
  }
  quantize_image(p, data);
  return data;
}

inline Bytes oracle(const Int8StemBlockParams& p, Data data) {
  data.depthwise.x = int8_conv2d_case::oracle<std::int8_t>(stem_of(p), data.stem);
  data.project.x = int8_depthwise_conv_case::oracle(depthwise_of(p), data.depthwise);
  return int8_conv2d_case::oracle<std::int8_t>(project_of(p), data.project);
}

inline Bytes run(const Int8StemBlockParams& p, const Data& data, Int8StemBlockVariant variant) {
  std::vector<std::byte> packed(kernels::int8_stem_block_packed_bytes(variant, p));
  kernels::int8_stem_block_pack(variant, p, data.layers(), packed.data());
  const GuardedBuffer weights{std::span<const std::byte>(packed)};
  const GuardedBuffer x = p.input == Int8StemInput::Words ? on_device(data.stem.x) : on_device(data.x);
  const std::size_t count = count_of(p.n, p.out_h, p.out_w, int8_conv2d_case::padded(p.c_out));
  Bytes y = run_on_bytes<std::int8_t>(count, [&](void* out, const kernels::Launch& where) {
    return kernels::int8_stem_block(variant, p, x.data(), weights.data(), out, where);
  });
  CHECK(x.check_unchanged());
  CHECK(weights.check_unchanged());
  return y;
}

/// Every variant against the oracle, from floats and, where that may be, from words; how many ran.
inline int check(Int8StemBlockParams p, const Data& data) {
  const Bytes expected = oracle(p, data);
  int ran = 0;
  for (const Int8StemInput input : {Int8StemInput::NchwFloat, Int8StemInput::Words}) {
    p.input = input;
    ran += for_each_supported(kernels::int8_stem_block_variants(), p, [&](Int8StemBlockVariant variant) {
      const Bytes y = run(p, data, variant);
      const auto [at, wanted] = std::mismatch(y.begin(), y.end(), expected.begin());
      if (at == y.end()) return;
      INFO("first difference at " << at - y.begin() << ": " << +*at << ", expected " << +*wanted);
      CHECK(y == expected);
    });
  }
  return ran;
}
inline int check(const Int8StemBlockParams& p, std::uint32_t seed, ByteData bytes = ByteData::Random) {
  return check(p, make_data(p, bytes, seed));
}

}  // namespace mobicuda::test::int8_stem_block_case
