// supports() against the GPUs that there are, without one of them: what a variant says it supports, its launcher
// launches within the GPU's limits. fake_cudart.h plays the GPUs.

#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/pointwise_pool/pointwise_pool.h"
#include "kernels/squeeze_excite/squeeze_excite.h"
#include "kernels/stem_block/stem_block.h"
#include "launch_limits/fake_cudart.h"
#include "support/catch.h"

namespace mobicuda {
namespace {

using kernels::Clip;
using kernels::DeviceTraits;
using kernels::Elem;
using kernels::Launch;

constexpr Clip kRelu6{0.0F, 6.0F};

/// Every capability with code of its own, small and large, and the GPU at hand with code for older ones.
std::vector<DeviceTraits> gpus() {
  constexpr int kFew = 16;
  constexpr int kMany = 132;
  std::vector<DeviceTraits> all;
  for (const kernels::HardwareLimits& limits : kernels::kHardwareLimits) {
    all.push_back(kernels::traits_of(limits.capability, kFew));
    all.push_back(kernels::traits_of(limits.capability, kMany));
  }
  for (const int code : {75, 80, 86, 89}) all.push_back(kernels::traits_of(90, kMany, code));
  for (const int code : {75, 80, 90}) all.push_back(kernels::traits_of(120, kMany, code));
  return all;
}

/// Never read: nothing runs.
const void* input(std::uintptr_t at) { return reinterpret_cast<const void*>(at << 32U); }
void* output() { return reinterpret_cast<void*>(std::uintptr_t{9} << 32U); }

std::string told(const DeviceTraits& gpu) {
  return "capability " + std::to_string(gpu.capability) + ", code " + std::to_string(gpu.code) + ", " +
         std::to_string(gpu.multiprocessors) + " multiprocessors";
}

/// Runs every variant on every GPU that supports it, for every one of `shapes`; enqueue(variant, shape, launch) calls
/// the launcher. Each variant is to run at least once, those with wgmma where the build has them.
template <class Params, class Variants, class Enqueue>
void walk(const std::vector<Params>& shapes, const Variants& variants, const Enqueue& enqueue) {
  std::set<std::string> ran;
  int launched = 0;
  int device = 0;
  bool has_wgmma = false;
  for (DeviceTraits gpu : gpus()) {
    test::play_gpu(device++, gpu);
    DeviceTraits asked;
    REQUIRE(kernels::current_device_traits(asked) == cudaSuccess);
    gpu.wgmma_code = gpu.wgmma_code && asked.wgmma_code;  // this build may have none
    has_wgmma = has_wgmma || gpu.wgmma_code;
    REQUIRE(asked == gpu);
    for (const auto variant : variants) {
      for (const Params& p : shapes) {
        const bool supported = supports(variant, p, gpu);
        const cudaError_t status = enqueue(variant, p, Launch{nullptr, gpu.programmatic_launch()});
        const test::PlayedLaunches launches = test::take_launches();
        if (supported && status == cudaSuccess && launches.count > 0 && launches.faults.empty()) {
          ran.emplace(name(variant));
          launched += launches.count;
          continue;
        }
        if (!supported && status == cudaErrorInvalidValue && launches.count == 0) continue;
        INFO(name(variant) << " on " << told(gpu));
        for (const std::string& fault : launches.faults) UNSCOPED_INFO(fault);
        CAPTURE(supported, static_cast<int>(status), launches.count);
        FAIL("supports() and the launch differ");
      }
    }
  }
  for (const auto variant : variants) {
    INFO(name(variant));
    const std::string its_name(name(variant));
    const bool of_sm90a = its_name.find("wgmma") != std::string::npos || its_name.find("image7") != std::string::npos;
    CHECK((ran.contains(its_name) || (of_sm90a && !has_wgmma)));
  }
  CHECK(launched > 0);
}

}  // namespace

TEST_CASE("supports() of gemm means that the launch fits") {
  std::vector<kernels::GemmParams> shapes;
  for (const Elem elem : {Elem::F32, Elem::F16, Elem::F64}) {
    for (const int m : {1, 8, 49, 784, 50176}) {
      for (const int n : {16, 24, 96, 320, 1000, 4096}) {
        for (const int k : {3, 16, 24, 144, 960, 4608, 25088}) {
          kernels::GemmParams p;
          p.elem = p.output = elem;
          p.m = m;
          p.n = n;
          p.k = k;
          p.activation = kRelu6;
          shapes.push_back(p);
        }
      }
    }
  }
  walk(shapes, kernels::gemm_variants(), [](kernels::GemmVariant variant, const auto& p, const Launch& where) {
    return kernels::gemm(variant, p, input(1), input(2), nullptr, nullptr, output(), where);
  });
}

TEST_CASE("supports() of conv2d means that the launch fits") {
  struct Window {
    int size, stride;
  };
  using Input = kernels::Conv2dParams::Input;
  std::vector<kernels::Conv2dParams> shapes;
  const auto add = [&](Elem elem, Input input, int n, int side, int c_in, int c_out, int groups, Window window) {
    kernels::Conv2dParams p;
    p.elem = elem;
    p.input = input;
    p.n = n;
    p.h = p.w = side;
    p.c_in = c_in;
    p.c_out = c_out;
    p.groups = groups;
    p.kernel_h = p.kernel_w = window.size;
    p.stride_h = p.stride_w = window.stride;
    p.pad_top = p.pad_left = window.size / 2;
    p.out_h = p.out_w = (side + window.stride - 1) / window.stride;
    p.activation = kRelu6;
    shapes.push_back(p);
  };
  for (const Elem elem : {Elem::F32, Elem::F16, Elem::F64}) {
    for (const int n : {1, 32}) {
      for (const int side : {7, 14, 56}) {
        for (const int channels : {16, 64, 256}) {
          for (const Window window : {Window{1, 1}, Window{3, 1}, Window{3, 2}, Window{5, 1}}) {
            add(elem, Input::NhwcElem, n, side, channels, 2 * channels, 1, window);
          }
          for (const int each : {4, 8, 16}) {
            add(elem, Input::NhwcElem, n, side, channels, channels, channels / each, {3, 1});
          }
        }
      }
      for (const Input input : {Input::NchwFloat, Input::NhwcFloat, Input::NhwcUint8}) {
        for (const int c_out : {16, 32, 64}) {
          for (const Window window : {Window{3, 2}, Window{7, 2}, Window{11, 4}}) {
            add(elem, input, n, 224, 3, c_out, 1, window);
          }
        }
      }
    }
  }
  walk(shapes, kernels::conv2d_variants(), [](kernels::Conv2dVariant variant, const auto& p, const Launch& where) {
    return kernels::conv2d(variant, p, input(1), input(2), nullptr, nullptr, output(), where);
  });
}

TEST_CASE("supports() of depthwise_conv means that the launch fits") {
  std::vector<kernels::DepthwiseConvParams> shapes;
  for (const Elem elem : {Elem::F32, Elem::F16, Elem::F64}) {
    for (const int n : {1, 64}) {
      for (const int side : {7, 14, 112}) {
        for (const int c : {8, 32, 144, 960}) {
          for (const int window : {3, 5, 7}) {
            for (const int stride : {1, 2}) {
              kernels::DepthwiseConvParams p;
              p.elem = elem;
              p.n = n;
              p.h = p.w = side;
              p.c = c;
              p.out_h = p.out_w = (side + stride - 1) / stride;
              p.kernel_h = p.kernel_w = window;
              p.stride_h = p.stride_w = stride;
              p.pad_top = p.pad_left = window / 2;
              p.activation = kRelu6;
              shapes.push_back(p);
            }
          }
        }
      }
    }
  }
  walk(shapes, kernels::depthwise_conv_variants(),
       [](kernels::DepthwiseConvVariant variant, const auto& p, const Launch& where) {
         return kernels::depthwise_conv(variant, p, input(1), input(2), nullptr, output(), where);
       });
}

TEST_CASE("supports() of expand_depthwise means that the launch fits") {
  std::vector<kernels::ExpandDepthwiseParams> shapes;
  for (const int n : {1, 8, 256}) {
    for (const int side : {7, 14, 28, 56, 112}) {
      for (const int c_in : {16, 24, 32, 64, 96, 160}) {
        for (const int stride : {1, 2}) {
          kernels::ExpandDepthwiseParams p;
          p.n = n;
          p.h = p.w = side;
          p.c_in = c_in;
          p.c = 6 * c_in;
          p.stride = stride;
          p.out_h = p.out_w = (side + stride - 1) / stride;
          p.pad_top = p.pad_left = 1;
          p.expand_clip = p.depthwise_clip = kRelu6;
          shapes.push_back(p);
        }
      }
    }
  }
  walk(shapes, kernels::expand_depthwise_variants(),
       [](kernels::ExpandDepthwiseVariant variant, const auto& p, const Launch& where) {
         return kernels::expand_depthwise(variant, p, input(1), input(2), nullptr, input(3), nullptr, output(), where);
       });
}

TEST_CASE("supports() of inverted_residual means that the launch fits") {
  struct Block {
    int side, c_in, c_hidden, c_out, stride;
  };
  // MobileNetV2 1.0 and V3-Large at 224, and a block that neither has.
  constexpr Block kBlocks[] = {
      {112, 32, 32, 16, 1}, {112, 16, 96, 24, 2},  {56, 24, 144, 24, 1},  {56, 24, 144, 32, 2},
      {28, 32, 192, 32, 1}, {28, 32, 192, 64, 2},  {14, 64, 384, 64, 1},  {14, 64, 384, 96, 1},
      {14, 96, 576, 96, 1}, {14, 96, 576, 160, 2}, {7, 160, 960, 160, 1}, {7, 160, 960, 320, 1},
      {112, 16, 16, 16, 1}, {112, 16, 64, 24, 2},  {56, 24, 72, 24, 1},   {28, 48, 288, 48, 1}};
  std::vector<kernels::InvertedResidualParams> shapes;
  for (const Elem elem : {Elem::F32, Elem::F16, Elem::F64}) {
    for (const int n : {1, 2, 4, 6, 16, 256}) {
      for (const Block& block : kBlocks) {
        kernels::InvertedResidualParams p;
        p.elem = elem;
        p.n = n;
        p.h = p.w = block.side;
        p.c_in = block.c_in;
        p.c_hidden = block.c_hidden;
        p.c_out = block.c_out;
        p.stride = block.stride;
        p.out_h = p.out_w = block.side / block.stride;
        p.pad_top = p.pad_left = 1;
        p.expand = block.c_hidden != block.c_in;
        p.residual = block.stride == 1 && block.c_in == block.c_out;
        p.expand_clip = p.depthwise_clip = kRelu6;
        p.project_clip = {-65504.0F, 65504.0F};
        shapes.push_back(p);
      }
    }
  }
  walk(shapes, kernels::inverted_residual_variants(),
       [](kernels::InvertedResidualVariant variant, const auto& p, const Launch& where) {
         return kernels::inverted_residual(variant, p, input(1), input(2), output(), where);
       });
}

TEST_CASE("supports() of pointwise_pool means that the launch fits") {
  std::vector<kernels::PointwisePoolParams> shapes;
  for (const Elem elem : {Elem::F32, Elem::F16}) {
    for (const int n : {1, 8, 256}) {
      for (const int pixels : {16, 49, 100}) {
        for (const int c_in : {64, 160, 320, 960}) {
          for (const int c : {96, 256, 1280}) {
            kernels::PointwisePoolParams p;
            p.elem = elem;
            p.n = n;
            p.pixels = pixels;
            p.c_in = c_in;
            p.c = c;
            p.clip = kRelu6;
            shapes.push_back(p);
          }
        }
      }
    }
  }
  walk(shapes, kernels::pointwise_pool_variants(),
       [](kernels::PointwisePoolVariant variant, const auto& p, const Launch& where) {
         return kernels::pointwise_pool(variant, p, input(1), input(2), nullptr, output(), where);
       });
}

TEST_CASE("supports() of stem_block means that the launch fits") {
  std::vector<kernels::StemBlockParams> shapes;
  for (const auto in : {kernels::StemInput::NchwFloat, kernels::StemInput::NhwcUint8}) {
    for (const int n : {1, 8, 256}) {
      for (const int side : {96, 192, 224}) {
        kernels::StemBlockParams p;
        p.input = in;
        p.n = n;
        p.h = p.w = side;
        p.stem_h = p.stem_w = p.out_h = p.out_w = side / 2;
        p.c_stem = 32;
        p.c_out = 16;
        p.stem_pad_top = p.stem_pad_left = p.depthwise_pad_top = p.depthwise_pad_left = 1;
        p.stem_clip = p.depthwise_clip = kRelu6;
        p.project_clip = {-65504.0F, 65504.0F};
        shapes.push_back(p);
      }
    }
  }
  walk(shapes, kernels::stem_block_variants(),
       [](kernels::StemBlockVariant variant, const auto& p, const Launch& where) {
         return kernels::stem_block(variant, p, input(1), input(2), output(), where);
       });
}

TEST_CASE("supports() of squeeze_excite means that the launch fits") {
  std::vector<kernels::SqueezeExciteParams> shapes;
  for (const Elem elem : {Elem::F32, Elem::F16, Elem::F64}) {
    for (const int n : {1, 8, 256}) {
      for (const int pixels : {49, 196, 784, 3136, 12544}) {
        for (const int c : {32, 72, 96, 480, 672, 960}) {
          kernels::SqueezeExciteParams p;
          p.elem = elem;
          p.n = n;
          p.pixels = pixels;
          p.c = c;
          p.squeezed = c / 4;
          shapes.push_back(p);
        }
      }
    }
  }
  walk(shapes, kernels::squeeze_excite_variants(),
       [](kernels::SqueezeExciteVariant variant, const auto& p, const Launch& where) {
         return kernels::squeeze_excite(variant, p, input(1), input(2), output(), where);
       });
}

TEST_CASE("the table of limits is in order, and a capability that it lacks has those of the one before") {
  for (std::size_t i = 1; i < kernels::kHardwareLimits.size(); ++i) {
    CHECK(kernels::kHardwareLimits[i - 1].capability < kernels::kHardwareLimits[i].capability);
  }
  CHECK(kernels::traits_of(88, 1).shared_bytes_per_block == kernels::traits_of(87, 1).shared_bytes_per_block);
  CHECK(kernels::traits_of(90, 132, 80).cluster_blocks == 1);
  CHECK(!kernels::traits_of(90, 132, 80).wgmma_code);
  CHECK(!kernels::traits_of(90, 132, 80).programmatic_launch());
  CHECK(kernels::traits_of(90, 132).programmatic_launch());
}

}  // namespace mobicuda
