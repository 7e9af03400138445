// Parameters, data and the oracle that the tests of int8_inverted_residual share: three convolutions' oracles.
#pragma once

#include <ostream>
#include <vector>

#include "kernels/int8_conv2d_case.h"
#include "kernels/int8_depthwise_conv_case.h"
#include "kernels/int8_inverted_residual/int8_inverted_residual.h"

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const Int8InvertedResidualParams& p) {
  return out << kernel_of(p).shape(p);
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::int8_inverted_residual_case {

using kernels::Int8InvertedResidualParams;
using kernels::Int8InvertedResidualVariant;
using window_case::count_of;

inline Int8InvertedResidualParams block(int n, int h, int w, int c_in, int c_hidden, int c_out, int stride) {
  Int8InvertedResidualParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = c_in;
  p.c_hidden = c_hidden;
  p.c_out = c_out;
  p.stride = stride;
  p.out_h = (h + stride - 1) / stride;
  p.out_w = (w + stride - 1) / stride;
  p.pad_top = p.pad_left = 1;
  p.x_zero = 5;
  p.expand_result = {-100, -100, 127};
  p.depthwise_result = {-90, -90, 120};
  p.result = {-7, -128, 127};
  p.residual = stride == 1 && c_in == c_out;
  p.sum = {0.75F, 1.25F, p.result.zero_point, p.x_zero, {3, -128, 126}};
  return p;
}

inline kernels::Int8Conv2dParams expand_of(const Int8InvertedResidualParams& p) {
  kernels::Int8Conv2dParams conv = int8_conv2d_case::window(p.n, p.h, p.w, p.c_in, p.c_hidden, 1, 1);
  conv.x_zero = p.x_zero;
  conv.result = p.expand_result;
  return conv;
}
inline kernels::Int8DepthwiseConvParams depthwise_of(const Int8InvertedResidualParams& p) {
  kernels::Int8DepthwiseConvParams conv = int8_depthwise_conv_case::same_padded(p.n, p.h, p.w, p.c_hidden, 3, p.stride);
  conv.pad_top = p.pad_top;
  conv.pad_left = p.pad_left;
  conv.out_h = p.out_h;
  conv.out_w = p.out_w;
  conv.x_zero = p.expand_result.zero_point;
  conv.result = p.depthwise_result;
  return conv;
}
inline kernels::Int8Conv2dParams project_of(const Int8InvertedResidualParams& p) {
  kernels::Int8Conv2dParams conv = int8_conv2d_case::window(p.n, p.out_h, p.out_w, p.c_hidden, p.c_out, 1, 1);
  conv.x_zero = p.depthwise_result.zero_point;
  conv.result = p.result;
  conv.residual = p.residual;
  conv.sum = p.sum;
  return conv;
}

struct Data {
  int8_conv2d_case::Data expand, project;
  int8_depthwise_conv_case::Data depthwise;
  Bytes x;

  kernels::Int8BlockLayers layers() const {
    return {{expand.weight.data(), expand.bias.data(), expand.multiplier.data()},
            {depthwise.weight.data(), depthwise.bias.data(), depthwise.multiplier.data()},
            {project.weight.data(), project.bias.data(), project.multiplier.data()}};
  }
};

inline Data make_data(const Int8InvertedResidualParams& p, ByteData bytes, std::uint32_t seed) {
  Data data;
  data.expand = int8_conv2d_case::make_data(expand_of(p), bytes, seed);
  data.depthwise = int8_depthwise_conv_case::make_data(depthwise_of(p), bytes, seed + 10);
  data.project = int8_conv2d_case::make_data(project_of(p), bytes, seed + 20);
  data.x = data.expand.x;
  return data;
}

inline Bytes oracle(const Int8InvertedResidualParams& p, Data data) {
  data.depthwise.x = int8_conv2d_case::oracle<std::int8_t>(expand_of(p), data.expand);
  data.project.x = int8_depthwise_conv_case::oracle(depthwise_of(p), data.depthwise);
  data.project.residual = data.x;
  return int8_conv2d_case::oracle<std::int8_t>(project_of(p), data.project);
}

inline Bytes run(const Int8InvertedResidualParams& p, const Data& data, Int8InvertedResidualVariant variant) {
  std::vector<std::byte> packed(kernels::int8_inverted_residual_packed_bytes(variant, p));
  kernels::int8_inverted_residual_pack(variant, p, data.layers(), packed.data());
  const GuardedBuffer weights{std::span<const std::byte>(packed)};
  const GuardedBuffer x = on_device(data.x);
  const std::size_t count = count_of(p.n, p.out_h, p.out_w, int8_conv2d_case::padded(p.c_out));
  Bytes y = run_on_bytes<std::int8_t>(count, [&](void* out, const kernels::Launch& where) {
    return kernels::int8_inverted_residual(variant, p, x.data(), weights.data(), out, where);
  });
  CHECK(x.check_unchanged());
  CHECK(weights.check_unchanged());
  return y;
}

/// Every variant against the oracle; how many ran.
inline int check(const Int8InvertedResidualParams& p, std::uint32_t seed, ByteData bytes = ByteData::Random) {
  const Data data = make_data(p, bytes, seed);
  const Bytes expected = oracle(p, data);
  return for_each_supported(kernels::int8_inverted_residual_variants(), p, [&](Int8InvertedResidualVariant variant) {
    const Bytes y = run(p, data, variant);
    const auto [at, wanted] = std::mismatch(y.begin(), y.end(), expected.begin());
    if (at == y.end()) return;
    INFO("first difference at " << at - y.begin() << ": " << +*at << ", expected " << +*wanted);
    CHECK(y == expected);
  });
}

}  // namespace mobicuda::test::int8_inverted_residual_case
