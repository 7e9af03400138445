#include "kernels/depthwise_conv.h"

#include <limits>

#include "bench_support.h"
#include "tests/support/conv_shapes.h"

namespace mobicuda::bench {
namespace {

using kernels::DepthwiseConvParams;
using kernels::DepthwiseConvVariant;

DepthwiseConvParams make_params(Elem elem, const test::DepthwiseLayer& layer, int batch) {
  DepthwiseConvParams p;
  p.elem = elem;
  p.n = batch;
  p.h = p.w = layer.size;
  p.c = layer.channels;
  p.stride_h = p.stride_w = layer.stride;
  p.out_h = p.out_w = layer.size / layer.stride + layer.size % layer.stride;
  p.kernel_h = p.kernel_w = layer.window;
  p.pad_top = p.pad_left = layer.window / 2;
  p.bias = true;
  p.activation = kernels::Clip{0.0F, 6.0F};
  return p;
}

std::int64_t input_elements(const DepthwiseConvParams& p) { return std::int64_t{p.n} * p.h * p.w * p.c; }
std::int64_t output_elements(const DepthwiseConvParams& p) { return std::int64_t{p.n} * p.out_h * p.out_w * p.c; }

Work work_of(const DepthwiseConvParams& p) {
  const std::int64_t activations = input_elements(p) + output_elements(p);
  const std::int64_t taps = std::int64_t{p.kernel_h} * p.kernel_w;
  const auto weight_bytes =
      static_cast<std::int64_t>(kernels::depthwise_conv_packed_bytes(p.elem, p.c, p.kernel_h, p.kernel_w));
  return {activations * static_cast<std::int64_t>(kernels::size_of(p.elem)) + weight_bytes,
          2 * taps * output_elements(p)};
}

void run(benchmark::State& state, DepthwiseConvVariant variant, const DepthwiseConvParams& p) {
  std::vector<std::byte> packed(kernels::depthwise_conv_packed_bytes(p.elem, p.c, p.kernel_h, p.kernel_w));
  const std::vector<float> weight(static_cast<std::size_t>(p.c * p.kernel_h * p.kernel_w), 0.125F);
  kernels::depthwise_conv_pack(p.elem, p.c, p.kernel_h, p.kernel_w, weight.data(), packed.data());
  const DeviceArray w(packed);
  const DeviceArray x(p.elem, input_elements(p));
  const DeviceArray bias(Elem::F32, p.c);
  const DeviceArray y(p.elem, output_elements(p));
  measure(state, work_of(p), [&](const kernels::Launch& where) {
    return kernels::depthwise_conv(variant, p, x.data(), w.data(), bias.floats(), y.data(), where);
  });
}

void add_layer(const DepthwiseConvParams& p) {
  for (const DepthwiseConvVariant variant : kernels::depthwise_conv_variants()) {
    if (!kernels::supports(variant, p, std::numeric_limits<int>::max())) continue;
    const std::string window = p.kernel_h == 3 ? "" : "_k" + std::to_string(p.kernel_h);
    add("depthwise_conv/" + to_string(p.elem) + "/" + shape_name(p.n, p.h, p.w, p.c) + "_s" +
            std::to_string(p.stride_h) + window + "/" + std::string(name(variant)),
        [=](benchmark::State& state) { run(state, variant, p); });
  }
}

const bool kRegistered = [] {
  for (const Elem elem : kElems) {
    for (const int batch : {1, 32, 256}) {
      for (const test::DepthwiseLayer& layer : test::kMobileNetV2Depthwise) add_layer(make_params(elem, layer, batch));
      for (const test::DepthwiseLayer& layer : test::kDepthwise5x5) add_layer(make_params(elem, layer, batch));
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
