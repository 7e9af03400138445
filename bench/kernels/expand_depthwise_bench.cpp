#include "kernels/expand_depthwise.h"

#include "bench_support.h"
#include "kernels/depthwise_conv.h"
#include "kernels/gemm.h"
#include "tests/support/expand_shapes.h"

namespace mobicuda::bench {
namespace {

using kernels::ExpandDepthwiseParams;
using kernels::ExpandDepthwiseVariant;

ExpandDepthwiseParams make_params(const test::ExpandLayer& layer, int batch) {
  ExpandDepthwiseParams p;
  p.n = batch;
  p.h = p.w = layer.size;
  p.c_in = layer.c_in;
  p.c = layer.c;
  p.stride = layer.stride;
  p.out_h = p.out_w = layer.size / layer.stride + layer.size % layer.stride;
  p.pad_top = p.pad_left = 1;
  p.expand_bias = p.depthwise_bias = true;
  p.expand_clip = p.depthwise_clip = {0.0F, 6.0F};
  return p;
}

std::int64_t input_elements(const ExpandDepthwiseParams& p) { return std::int64_t{p.n} * p.h * p.w * p.c_in; }
std::int64_t output_elements(const ExpandDepthwiseParams& p) { return std::int64_t{p.n} * p.out_h * p.out_w * p.c; }

Work work_of(const ExpandDepthwiseParams& p) {
  constexpr std::int64_t kTaps = 9;
  const std::int64_t weights = std::int64_t{p.c} * (p.c_in + kTaps);
  const std::int64_t expansion = std::int64_t{p.n} * p.h * p.w * p.c_in * p.c;
  return {(input_elements(p) + output_elements(p) + weights) * static_cast<std::int64_t>(kernels::size_of(p.elem)),
          2 * (expansion + kTaps * output_elements(p)), matrix_pipe(p.elem)};
}

void run(benchmark::State& state, ExpandDepthwiseVariant variant, const ExpandDepthwiseParams& p) {
  std::vector<std::byte> packed_expand(kernels::gemm_packed_bytes(p.elem, p.c, p.c_in));
  const std::vector<float> expand_weight(static_cast<std::size_t>(p.c * p.c_in), 0.125F);
  kernels::gemm_pack(p.elem, p.c, p.c_in, expand_weight.data(), packed_expand.data());
  std::vector<std::byte> packed_depthwise(kernels::depthwise_conv_packed_bytes(p.elem, p.c, 3, 3));
  const std::vector<float> depthwise_weight(static_cast<std::size_t>(p.c * 9), 0.125F);
  kernels::depthwise_conv_pack(p.elem, p.c, 3, 3, depthwise_weight.data(), packed_depthwise.data());
  const DeviceArray expand(packed_expand);
  const DeviceArray depthwise(packed_depthwise);
  const DeviceArray x(p.elem, input_elements(p));
  const DeviceArray expand_bias(Elem::F32, p.c);
  const DeviceArray depthwise_bias(Elem::F32, p.c);
  const DeviceArray y(p.elem, output_elements(p));
  measure(state, work_of(p), [&](const kernels::Launch& where) {
    return kernels::expand_depthwise(variant, p, x.data(), expand.data(), expand_bias.floats(), depthwise.data(),
                                     depthwise_bias.floats(), y.data(), where);
  });
}

const bool kRegistered = [] {
  constexpr int kAnyGpu = 90;
  for (const int batch : kBatches) {
    for (const test::ExpandLayer& layer : test::kMobileNetV2Expand) {
      const ExpandDepthwiseParams p = make_params(layer, batch);
      for (const ExpandDepthwiseVariant variant : kernels::expand_depthwise_variants()) {
        if (!kernels::supports(variant, p, kAnyGpu)) continue;
        add("expand_depthwise/fp16/" + std::string(layer.name) + "_" + shape_name(p.n, p.h, p.w, p.c_in) + "_to_" +
                std::to_string(p.c) + "_s" + std::to_string(p.stride) + "/" + std::string(name(variant)),
            [=](benchmark::State& state) { run(state, variant, p); });
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
