#include "kernels/conv2d.h"

#include "bench_support.h"
#include "tests/support/conv_shapes.h"

namespace mobicuda::bench {
namespace {

using kernels::Conv2dParams;
using kernels::Conv2dVariant;
using Input = Conv2dParams::Input;

Conv2dParams make_stem(Elem elem, Input input, int batch) {
  const test::StemLayer& layer = test::kMobileNetV2Stem;
  Conv2dParams p;
  p.elem = elem;
  p.input = input;
  p.n = batch;
  p.h = p.w = layer.size;
  p.c_in = layer.c_in;
  p.c_out = layer.c_out;
  p.kernel_h = p.kernel_w = 3;
  p.stride_h = p.stride_w = layer.stride;
  p.out_h = p.out_w = layer.size / layer.stride;
  p.pad_top = p.pad_left = 1;
  p.bias = true;
  p.activation = kernels::Clip{0.0F, 6.0F};
  return p;
}

std::int64_t input_elements(const Conv2dParams& p) { return std::int64_t{p.n} * p.h * p.w * p.c_in; }
std::int64_t input_bytes(const Conv2dParams& p) {
  if (p.input == Input::NhwcUint8) return input_elements(p);
  return input_elements(p) *
         static_cast<std::int64_t>(kernels::size_of(p.input == Input::NhwcElem ? p.elem : Elem::F32));
}
std::int64_t output_elements(const Conv2dParams& p) { return std::int64_t{p.n} * p.out_h * p.out_w * p.c_out; }

Work work_of(const Conv2dParams& p) {
  const std::int64_t products = std::int64_t{p.kernel_h} * p.kernel_w * p.c_in / p.groups;
  return {input_bytes(p) + output_elements(p) * static_cast<std::int64_t>(kernels::size_of(p.elem)) +
              static_cast<std::int64_t>(kernels::conv2d_packed_bytes(p)),
          2 * products * output_elements(p)};
}

void run(benchmark::State& state, Conv2dVariant variant, const Conv2dParams& p) {
  std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
  const std::vector<float> weight(static_cast<std::size_t>(p.c_out * p.c_in * p.kernel_h * p.kernel_w), 0.125F);
  kernels::conv2d_pack(p, weight.data(), packed.data());
  const DeviceArray w(packed);
  const Elem elem = p.input == Input::NhwcElem ? p.elem : Elem::F32;  // bytes come four at a time
  const DeviceArray x(elem, input_bytes(p) / static_cast<std::int64_t>(kernels::size_of(elem)));
  const DeviceArray bias(Elem::F32, p.c_out);
  const DeviceArray y(p.elem, output_elements(p));
  measure(state, work_of(p), [&](const kernels::Launch& where) {
    return kernels::conv2d(variant, p, x.data(), w.data(), bias.floats(), nullptr, y.data(), where);
  });
}

const bool kRegistered = [] {
  constexpr std::pair<Input, const char*> kInputs[] = {{Input::NchwFloat, "nchw_float"},
                                                       {Input::NhwcFloat, "nhwc_float"},
                                                       {Input::NhwcElem, "nhwc_elem"},
                                                       {Input::NhwcUint8, "nhwc_uint8"}};
  for (const Elem elem : kElems) {
    for (const int batch : {1, 32, 256}) {
      for (const auto& [input, input_name] : kInputs) {
        for (const Conv2dVariant variant : kernels::conv2d_variants()) {
          const Conv2dParams p = make_stem(elem, input, batch);
          constexpr int kAnyGpu = 90;
          if (!kernels::supports(variant, p, kAnyGpu)) continue;
          add("conv2d/" + to_string(elem) + "/" + shape_name(p.n, p.h, p.w, p.c_in) + "_s2_" + input_name + "/" +
                  std::string(name(variant)),
              [=](benchmark::State& state) { run(state, variant, p); });
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
