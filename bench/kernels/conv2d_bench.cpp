#include "kernels/conv2d.h"

#include <memory>
#include <string>

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

Work work_of(Conv2dVariant variant, const Conv2dParams& p) {
  const std::int64_t products = std::int64_t{p.kernel_h} * p.kernel_w * p.c_in / p.groups;
  return {input_bytes(p) + output_elements(p) * static_cast<std::int64_t>(kernels::size_of(p.elem)) +
              static_cast<std::int64_t>(kernels::conv2d_packed_bytes(p)),
          2 * products * output_elements(p),
          p.elem == Elem::F16 && kernels::conv2d_tile(variant).bk > 0 ? Pipe::Tensor : Pipe::Fma};
}

constexpr int kGpu = 90;  // compute capability

struct Layer {
  const char* name;
  int size, c_in, c_out, kernel, stride, pad, groups = 1;
};

// Of ResNet-34, -50 and -152, VGG16, ResNeXt101-64x4d, DenseNet-201, Inception v3 and CaffeNet.
constexpr Layer kLayers[] = {
    {"resnet_56", 56, 64, 64, 3, 1, 1},        {"resnet_28", 28, 128, 128, 3, 1, 1},
    {"resnet_14", 14, 256, 256, 3, 1, 1},      {"resnet_7", 7, 512, 512, 3, 1, 1},
    {"resnet_56_s2", 56, 128, 128, 3, 2, 1},   {"resnet_14_s2", 14, 512, 512, 3, 2, 1},
    {"resnet_skip_56", 56, 256, 512, 1, 2, 0}, {"resnet_skip_14", 14, 1024, 2048, 1, 2, 0},
    {"vgg_224", 224, 64, 64, 3, 1, 1},         {"vgg_112", 112, 128, 128, 3, 1, 1},
    {"vgg_56", 56, 256, 256, 3, 1, 1},         {"vgg_28", 28, 512, 512, 3, 1, 1},
    {"vgg_14", 14, 512, 512, 3, 1, 1},         {"densenet_14", 14, 128, 32, 3, 1, 1},
    {"inception_35", 35, 48, 64, 5, 1, 2},     {"caffenet_27", 27, 96, 256, 5, 1, 2, 2},
    {"caffenet_13", 13, 384, 384, 3, 1, 1, 2}, {"resnext_56", 56, 256, 256, 3, 1, 1, 64},
    {"resnext_28", 28, 512, 512, 3, 1, 1, 64}, {"resnext_14", 14, 1024, 1024, 3, 1, 1, 64},
    {"resnext_7", 7, 2048, 2048, 3, 1, 1, 64},
};

constexpr Layer kFirstLayers[] = {
    {"resnet_first", 224, 3, 64, 7, 2, 3},
    {"vgg_first", 224, 3, 64, 3, 1, 1},
    {"caffenet_first", 227, 3, 96, 11, 4, 0},
};

Conv2dParams make_layer(const Layer& layer, int batch) {
  Conv2dParams p;
  p.elem = Elem::F16;
  p.n = batch;
  p.h = p.w = layer.size;
  p.c_in = layer.c_in;
  p.c_out = layer.c_out;
  p.groups = layer.groups;
  p.kernel_h = p.kernel_w = layer.kernel;
  p.stride_h = p.stride_w = layer.stride;
  p.pad_top = p.pad_left = layer.pad;
  p.out_h = p.out_w = (layer.size + 2 * layer.pad - layer.kernel) / layer.stride + 1;
  p.bias = true;
  p.activation = kernels::Clip{0.0F, 6.0F};
  return p;
}

struct Operands {
  explicit Operands(const Conv2dParams& p)
      : w(p.elem, static_cast<std::int64_t>(kernels::conv2d_packed_bytes(p) / kernels::size_of(p.elem))),
        x(input_elem(p), input_bytes(p) / static_cast<std::int64_t>(kernels::size_of(input_elem(p)))),
        bias(Elem::F32, p.c_out),
        y(p.elem, output_elements(p)) {}

  static Elem input_elem(const Conv2dParams& p) {
    return p.input == Input::NhwcElem ? p.elem : Elem::F32;  // bytes come four at a time
  }

  DeviceArray w, x, bias, y;
};

/// Those of the layer that ran last are kept, for its other variants.
const Operands& operands(const std::string& layer, const Conv2dParams& p) {
  static std::string kept;
  static std::unique_ptr<Operands> all;
  if (!all || kept != layer) {
    all.reset();
    all = std::make_unique<Operands>(p);
    kept = layer;
  }
  return *all;
}

void run(benchmark::State& state, Conv2dVariant variant, const std::string& layer, const Conv2dParams& p) {
  const Operands& at = operands(layer, p);
  measure(state, work_of(variant, p), [&](const kernels::Launch& where) {
    return kernels::conv2d(variant, p, at.x.data(), at.w.data(), at.bias.floats(), nullptr, at.y.data(), where);
  });
}

/// All variants, but those without tensor cores with one picture only.
void add_layer(const Layer& layer, const Conv2dParams& p) {
  for (const Conv2dVariant variant : kernels::conv2d_variants()) {
    if (!kernels::supports(variant, p, kGpu)) continue;
    if (p.n > 1 && kernels::conv2d_tile(variant).bk == 0) continue;
    const std::string shape = std::string(layer.name) + "/n" + std::to_string(p.n);
    add("conv2d/" + shape + "/" + std::string(name(variant)),
        [=](benchmark::State& state) { run(state, variant, shape, p); });
  }
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
          if (!kernels::supports(variant, p, kGpu)) continue;
          const std::string shape = to_string(elem) + "/" + shape_name(p.n, p.h, p.w, p.c_in) + "_s2_" + input_name;
          add("conv2d/" + shape + "/" + std::string(name(variant)),
              [=](benchmark::State& state) { run(state, variant, shape, p); });
        }
      }
    }
  }
  for (const int batch : {1, 32}) {
    for (const Layer& layer : kLayers) add_layer(layer, make_layer(layer, batch));
    for (const Layer& layer : kFirstLayers) {
      Conv2dParams p = make_layer(layer, batch);
      p.input = Input::NchwFloat;
      add_layer(layer, p);
    }
  }
  return true;
}();

}  // namespace
}  // namespace mobicuda::bench
