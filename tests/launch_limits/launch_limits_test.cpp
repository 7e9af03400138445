// supports() against the GPUs that there are, without one of them: what a variant says it supports, its launcher
// launches within the GPU's limits. fake_cudart.h plays the GPUs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gated_pointwise/gated_pointwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/int8_conv2d/int8_conv2d.h"
#include "kernels/int8_depthwise_conv/int8_depthwise_conv.h"
#include "kernels/int8_inverted_residual/int8_inverted_residual.h"
#include "kernels/int8_stem_block/int8_stem_block.h"
#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/pointwise_pool/pointwise_pool.h"
#include "kernels/split_gemm/split_gemm.h"
#include "kernels/squeeze_excite/squeeze_excite.h"
#include "kernels/stem_block/stem_block.h"
#include "launch_limits/fake_cudart.h"
#include "support/catch.h"
#include "support/network_shapes.h"

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

/// Whether variants that pack in the same order have as many bytes: engines that differ in other choices share their
/// weights while choices are confirmed.
template <class Params>
bool packs_as_told(const Params& p, const DeviceTraits& gpu) {
  const auto& kernel = kernels::kernel_of(p);
  std::map<std::string_view, std::set<std::vector<std::int64_t>>> sizes;  // by packing
  for (const auto variant : kernel.variants) {
    if (!kernel.supports(variant, p, gpu)) continue;
    const kernels::OperandBytes bytes = kernel.operands(variant, p);
    sizes[kernel.packing != nullptr ? kernel.packing(variant) : ""].emplace(std::begin(bytes.weights),
                                                                            std::end(bytes.weights));
  }
  return std::ranges::all_of(sizes, [](const auto& of) { return of.second.size() == 1; });
}

/// Runs every variant of a kernel on every GPU that supports it, for every one of `shapes`. Each variant is to run at
/// least once, those with wgmma where the build has them.
template <class Params>
void walk(const std::vector<Params>& shapes) {
  const auto& kernel = kernels::kernel_of(shapes.front());
  const kernels::Operands operands{input(1), {input(2), input(3), input(4), input(5)}, input(6), output()};
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
    for (const Params& p : shapes) {
      if (!packs_as_told(p, gpu)) FAIL(kernel.shape(p) << ": weights are packed by variant");
    }
    for (const auto variant : kernel.variants) {
      const std::string its_name(kernel.variant_name(variant));
      for (const Params& p : shapes) {
        const bool supported = kernel.supports(variant, p, gpu);
        const cudaError_t status = kernel.launch(variant, p, operands, Launch{nullptr, gpu.programmatic_launch()});
        const test::PlayedLaunches launches = test::take_launches();
        if (supported && status == cudaSuccess && launches.count > 0 && launches.faults.empty()) {
          ran.insert(its_name);
          launched += launches.count;
          continue;
        }
        if (!supported && status == cudaErrorInvalidValue && launches.count == 0) continue;
        INFO(its_name << " on " << told(gpu));
        for (const std::string& fault : launches.faults) UNSCOPED_INFO(fault);
        CAPTURE(supported, static_cast<int>(status), launches.count);
        FAIL("supports() and the launch differ");
      }
    }
  }
  for (const auto variant : kernel.variants) {
    const std::string its_name(kernel.variant_name(variant));
    INFO(its_name);
    const bool of_sm90a = its_name.find("wgmma") != std::string::npos || its_name.find("image7") != std::string::npos;
    CHECK((ran.contains(its_name) || (of_sm90a && !has_wgmma)));
  }
  CHECK(launched > 0);
}

/// Launches what is made for each of `shapes`, on every GPU; met(name).
template <class Params, class Met>
void walk_specialised(const std::vector<Params>& shapes, const Met& met) {
  const auto& kernel = kernels::kernel_of(shapes.front());
  const kernels::Operands operands{input(1), {input(2)}, nullptr, output()};
  int device = 0;
  for (const DeviceTraits& gpu : gpus()) {
    test::play_gpu(device++, gpu);
    DeviceTraits compiles;
    REQUIRE(kernels::current_device_traits(compiles) == cudaSuccess);
    compiles.compiles = true;
    for (const Params& p : shapes) {
      for (const auto variant : kernel.specialised(p, compiles)) {
        const std::string_view name = kernel.variant_name(variant);
        INFO(name << " on " << told(gpu) << ", " << kernel.shape(p));
        const void* const handle = name.data();  // of its own for each kernel: its name's address
        test::play_kernel(handle, kernel.code(variant)->expression);
        kernel.provide(variant, gpu.capability, handle);
        REQUIRE(kernel.launch(variant, p, operands, Launch{nullptr, gpu.programmatic_launch()}) == cudaSuccess);
        const test::PlayedLaunches launches = test::take_launches();
        for (const std::string& fault : launches.faults) UNSCOPED_INFO(fault);
        REQUIRE(launches.faults.empty());
        REQUIRE(launches.count == 1);
        met(name);
      }
    }
  }
}

/// Of a specialised variant's name: what is before its numbers.
std::string_view family_of(std::string_view name) {
  std::size_t end = name.find('_');
  while (name.find_first_of("0123456789", end) != end + 1) end = name.find('_', end + 1);
  return name.substr(0, end);
}

/// The blocks of MobileNetV2 that expand.
std::vector<kernels::Int8InvertedResidualParams> int8_blocks(const std::vector<int>& batches) {
  std::vector<kernels::Int8InvertedResidualParams> shapes;
  for (const int n : batches) {
    for (const test::InvertedResidualLayer& block : test::kMobileNetV2Blocks) {
      if (!block.expands()) continue;
      kernels::Int8InvertedResidualParams p;
      p.n = n;
      p.h = p.w = block.size;
      p.c_in = block.c_in;
      p.c_hidden = block.c_hidden;
      p.c_out = block.c_out;
      p.stride = block.stride;
      p.out_h = p.out_w = block.out_size();
      p.pad_top = p.pad_left = 1;
      p.residual = block.has_residual();
      shapes.push_back(p);
    }
  }
  return shapes;
}

}  // namespace

TEST_CASE("supports() of split_gemm means that the launch fits") {
  std::vector<kernels::SplitGemmParams> shapes;
  for (const int m : {1, 49, 784, 50176}) {
    for (const int n : {16, 24, 96, 320, 1000, 4096}) {
      for (const int k : {3, 16, 24, 144, 960, 4608, 25088}) {
        kernels::SplitGemmParams p;
        p.m = m;
        p.n = n;
        p.k = k;
        p.in_range = true;
        p.activation = kRelu6;
        shapes.push_back(p);
      }
    }
  }
  walk(shapes);
}

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
  walk(shapes);
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
          add(elem, Input::NhwcElem, n, side, channels, 2 * channels, 1, {3, 1});
          shapes.back().max_pool = true;
          add(elem, Input::NhwcElem, n, side, channels, 2 * channels, 1, {1, 1});
          shapes.back().second = {channels / 2, 2 * side, 2 * side, 2, 2};
          for (const int each : {4, 8, 16}) {
            add(elem, Input::NhwcElem, n, side, channels, channels, channels / each, {3, 1});
          }
        }
        for (const Window window : {Window{3, 1}, Window{3, 2}}) {
          add(elem, Input::NhwcElem, n, side, 12, 40, 1, window);   // of chunks of 4 channels
          add(elem, Input::NhwcElem, n, side, 512, 64, 1, window);  // a slice for each of eight blocks
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
  walk(shapes);
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
  walk(shapes);
}

TEST_CASE("supports() of expand_depthwise means that the launch fits") {
  std::vector<kernels::ExpandDepthwiseParams> shapes;
  for (const int n : {1, 8, 256}) {
    for (const int side : {7, 14, 28, 56, 112}) {
      for (const int c_in : {16, 24, 32, 64, 96, 160, 248}) {
        for (const int stride : {1, 2}) {
          for (const int window : {3, 5}) {
            kernels::ExpandDepthwiseParams p;
            p.n = n;
            p.h = p.w = side;
            p.c_in = c_in;
            p.c = 6 * c_in;
            p.kernel = window;
            p.stride = stride;
            p.out_h = p.out_w = (side + stride - 1) / stride;
            p.pad_top = p.pad_left = window / 2;
            p.expand_activation = p.depthwise_activation = kRelu6;
            shapes.push_back(p);
          }
        }
      }
    }
  }
  walk(shapes);
}

TEST_CASE("supports() of inverted_residual means that the launch fits") {
  std::vector<test::InvertedResidualLayer> blocks{{"any", 28, 48, 288, 48, 1}};
  blocks.insert(blocks.end(), std::begin(test::kMobileNetV2Blocks), std::end(test::kMobileNetV2Blocks));
  blocks.insert(blocks.end(), std::begin(test::kMobileNetV3Blocks), std::end(test::kMobileNetV3Blocks));
  std::vector<kernels::InvertedResidualParams> shapes;
  for (const Elem elem : {Elem::F32, Elem::F16, Elem::F64}) {
    for (const int n : {1, 2, 4, 6, 16, 256}) {
      for (const test::InvertedResidualLayer& block : blocks) {
        kernels::InvertedResidualParams p;
        p.elem = elem;
        p.n = n;
        p.h = p.w = block.size;
        p.c_in = block.c_in;
        p.c_hidden = block.c_hidden;
        p.c_out = block.c_out;
        p.stride = block.stride;
        p.out_h = p.out_w = block.out_size();
        p.pad_top = p.pad_left = 1;
        p.expand = block.expands();
        p.residual = block.has_residual();
        p.split = elem == Elem::F32;
        p.expand_activation = p.depthwise_activation = kRelu6;
        p.project_clip = {-65504.0F, 65504.0F};
        shapes.push_back(p);
      }
    }
  }
  walk(shapes);
}

TEST_CASE("specialised inverted residual blocks fit the GPU that they are made for") {
  struct Channels {
    int c_in, c_hidden, c_out, stride;
  };
  constexpr Channels kBlocks[] = {{8, 48, 8, 2},      {16, 96, 16, 1},   {24, 144, 32, 1},    {32, 192, 48, 2},
                                  {48, 288, 48, 1},   {48, 288, 88, 2},  {88, 528, 136, 1},   {136, 816, 136, 1},
                                  {136, 816, 224, 2}, {80, 480, 160, 1}, {224, 1344, 448, 1}, {56, 336, 112, 1},
                                  {24, 24, 16, 1}};
  std::vector<kernels::InvertedResidualParams> shapes;
  for (const Elem elem : {Elem::F16, Elem::F32}) {
    for (const Channels& channels : kBlocks) {
      for (const int size : {7, 10, 14, 33}) {
        for (const int n : {1, 6, 128}) {
          kernels::InvertedResidualParams p;
          p.elem = elem;
          p.n = n;
          p.h = p.w = size;
          p.c_in = channels.c_in;
          p.c_hidden = channels.c_hidden;
          p.c_out = channels.c_out;
          p.stride = channels.stride;
          p.out_h = p.out_w = (size - 1) / p.stride + 1;
          p.pad_top = p.pad_left = 1;
          p.expand = p.c_hidden != p.c_in;
          p.split = elem == Elem::F32;
          p.expand_activation = p.depthwise_activation = kRelu6;
          p.project_clip = {-65504.0F, 65504.0F};
          shapes.push_back(p);
        }
      }
    }
  }
  std::set<std::string_view> families;
  walk_specialised(shapes, [&](std::string_view name) { families.insert(family_of(name)); });
  for (const std::string_view family :
       {"small", "cluster", "strip", "image", "simt", "simt_cluster", "simt_early", "split", "split_cluster"}) {
    CAPTURE(family);
    CHECK(families.contains(family));  // image7 only where the build has code for sm_90a
  }
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
            p.activation = kRelu6;
            shapes.push_back(p);
          }
        }
      }
    }
  }
  walk(shapes);
}

TEST_CASE("supports() of stem_block means that the launch fits") {
  std::vector<kernels::StemBlockParams> shapes;
  for (const auto in : {kernels::StemInput::NchwFloat, kernels::StemInput::NhwcUint8}) {
    for (const int n : {1, 8, 256}) {
      for (const int side : {96, 192, 224}) {
        for (const auto& [c_stem, c_out] : {std::pair{16, 8}, std::pair{32, 16}, std::pair{48, 24}}) {
          kernels::StemBlockParams p;
          p.input = in;
          p.n = n;
          p.h = p.w = side;
          p.stem_h = p.stem_w = p.out_h = p.out_w = side / 2;
          p.c_stem = c_stem;
          p.c_out = c_out;
          p.stem_pad_top = p.stem_pad_left = p.depthwise_pad_top = p.depthwise_pad_left = 1;
          p.stem_clip = p.depthwise_clip = kRelu6;
          p.project_clip = {-65504.0F, 65504.0F};
          for (const Elem elem : {Elem::F16, Elem::F32}) {
            p.elem = elem;
            shapes.push_back(p);
          }
        }
      }
    }
  }
  walk(shapes);
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
  walk(shapes);
}

TEST_CASE("supports() of gated_pointwise means that the launch fits") {
  std::vector<kernels::GatedPointwiseParams> shapes;
  for (const Elem elem : {Elem::F32, Elem::F16, Elem::F64}) {
    for (const int n : {1, 8, 256}) {
      for (const int pixels : {49, 196, 784, 3136, 12544}) {
        for (const int c : {32, 72, 96, 480, 672, 1152}) {
          kernels::GatedPointwiseParams p;
          p.elem = elem;
          p.n = n;
          p.pixels = pixels;
          p.c = c;
          p.squeezed = c / 4;
          p.out = 40;
          shapes.push_back(p);
        }
      }
    }
  }
  walk(shapes);
}

TEST_CASE("supports() of int8_conv2d means that the launch fits") {
  std::vector<kernels::Int8Conv2dParams> shapes;
  for (const int n : {1, 32}) {
    for (const int side : {1, 7, 56}) {
      for (const auto& [c_in, c_out] :
           {std::pair{3, 32}, std::pair{16, 96}, std::pair{960, 320}, std::pair{1280, 1000}}) {
        for (const int window : {1, 3}) {
          for (const int stride : {1, 2}) {
            kernels::Int8Conv2dParams p;
            p.n = n;
            p.h = p.w = side;
            p.c_in = c_in;
            p.c_out = c_out;
            p.out_h = p.out_w = (side + stride - 1) / stride;
            p.kernel_h = p.kernel_w = window;
            p.stride_h = p.stride_w = stride;
            p.pad_top = p.pad_left = window / 2;
            p.x_pitch = c_in <= 4 ? 4 : 0;
            shapes.push_back(p);
          }
        }
      }
    }
  }
  walk(shapes);
}

TEST_CASE("supports() of int8_depthwise_conv means that the launch fits") {
  std::vector<kernels::Int8DepthwiseConvParams> shapes;
  for (const int n : {1, 64}) {
    for (const int side : {7, 14, 112}) {
      for (const int c : {8, 32, 144, 960}) {
        for (const int window : {3, 5, 7}) {
          for (const int stride : {1, 2}) {
            kernels::Int8DepthwiseConvParams p;
            p.n = n;
            p.h = p.w = side;
            p.c = c;
            p.out_h = p.out_w = (side + stride - 1) / stride;
            p.kernel_h = p.kernel_w = window;
            p.stride_h = p.stride_w = stride;
            p.pad_top = p.pad_left = window / 2;
            shapes.push_back(p);
          }
        }
      }
    }
  }
  walk(shapes);
}

TEST_CASE("supports() of int8_inverted_residual means that the launch fits") { walk(int8_blocks({1, 64})); }

TEST_CASE("specialised int8 blocks fit the GPU that they are made for") {
  bool clusters = false;
  walk_specialised(int8_blocks({1, 6, 128}),
                   [&](std::string_view name) { clusters = clusters || !name.ends_with("_1"); });
  CHECK(clusters);
}

TEST_CASE("supports() of int8_stem_block means that the launch fits") {
  std::vector<kernels::Int8StemBlockParams> shapes;
  for (const auto in : {kernels::Int8StemInput::NchwFloat, kernels::Int8StemInput::Words}) {
    for (const int n : {1, 8, 256}) {
      for (const int side : {96, 224}) {
        for (const auto& [c_stem, c_out] : {std::pair{32, 16}, std::pair{48, 24}}) {
          kernels::Int8StemBlockParams p;
          p.input = in;
          p.n = n;
          p.h = p.w = side;
          p.stem_h = p.stem_w = p.out_h = p.out_w = side / 2;
          p.c_stem = c_stem;
          p.c_out = c_out;
          p.stem_pad_top = p.stem_pad_left = p.depthwise_pad_top = p.depthwise_pad_left = 1;
          shapes.push_back(p);
        }
      }
    }
  }
  walk(shapes);
}

TEST_CASE("the table of limits is in order, and a capability that it lacks has those of the one before") {
  for (std::size_t i = 1; i < std::size(kernels::kHardwareLimits); ++i) {
    CHECK(kernels::kHardwareLimits[i - 1].capability < kernels::kHardwareLimits[i].capability);
  }
  CHECK(kernels::traits_of(88, 1).shared_bytes_per_block == kernels::traits_of(87, 1).shared_bytes_per_block);
  CHECK(kernels::traits_of(90, 132, 80).cluster_blocks == 1);
  CHECK(!kernels::traits_of(90, 132, 80).wgmma_code);
  CHECK(!kernels::traits_of(90, 132, 80).programmatic_launch());
  CHECK(kernels::traits_of(90, 132).programmatic_launch());
}

}  // namespace mobicuda
