// Specialised kernels on a GPU: compiled, loaded, and right.
#include <algorithm>
#include <string>
#include <vector>

#include "choose/timed_kernel.h"
#include "kernels/int8_inverted_residual_case.h"
#include "kernels/inverted_residual_case.h"
#include "specialise/specialiser.h"
#include "support/catch.h"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;

kernels::DeviceTraits gpu_that_compiles() {
  kernels::DeviceTraits gpu = gpu_traits();
  gpu.compiles = true;
  return gpu;
}

/// Blocks of other widths and sizes than the library has kernels for.
std::vector<InvertedResidualParams> other_blocks() {
  struct Channels {
    int c_in, c_hidden, c_out, stride;
  };
  std::vector<InvertedResidualParams> blocks;
  for (const Channels& c :
       {Channels{8, 48, 8, 2}, {8, 48, 16, 1}, {24, 144, 40, 1}, {32, 192, 48, 2}, {48, 288, 48, 1}}) {
    for (const int size : {16, 21}) blocks.push_back(block(2, size, size + 3, c.c_in, c.c_hidden, c.c_out, c.stride));
  }
  for (const Channels& c : {Channels{24, 144, 32, 1},
                            {32, 192, 32, 1},
                            {48, 288, 80, 2},
                            {56, 336, 112, 1},
                            {80, 480, 160, 1},
                            {88, 528, 88, 1},
                            {120, 720, 120, 1},
                            {136, 816, 224, 2},
                            {224, 1344, 224, 1}}) {
    for (const int size : {5, 7, 10, 14}) blocks.push_back(block(3, size, size, c.c_in, c.c_hidden, c.c_out, c.stride));
  }
  // As in MobileNetV3.
  for (const Channels& c : {Channels{24, 72, 24, 1}, {40, 240, 80, 2}, {80, 184, 80, 1}, {80, 200, 80, 1}}) {
    for (const int size : {14, 19}) {
      InvertedResidualParams p = block(2, size, size, c.c_in, c.c_hidden, c.c_out, c.stride);
      p.expand_activation = p.depthwise_activation = kernels::Activation(kernels::ActivationKind::HardSwish);
      blocks.push_back(p);
    }
  }
  return blocks;
}

/// What is made for the block in batches of any size, each once.
std::vector<InvertedResidualVariant> made_for(InvertedResidualParams p) {
  std::vector<InvertedResidualVariant> made;
  for (const int n : {1, 8, 32, 128}) {
    p.n = n;
    for (const auto variant : kernels::kernel_of(p).specialised(p, gpu_that_compiles())) {
      if (std::find(made.begin(), made.end(), variant) == made.end()) made.push_back(variant);
    }
  }
  return made;
}

TEST_CASE("specialised kernels equal the oracle") {
  EngineOptions options;
  options.code_cache.emplace();
  Specialiser specialiser(options, gpu_traits());
  if (const std::string why = specialiser.why_not(); !why.empty()) MOBICUDA_SKIP(why);
  std::vector<WantedKernel> wanted;
  for (const InvertedResidualParams& p : other_blocks()) {
    for (const auto variant : made_for(p)) wanted.push_back(*wanted_kernel(kernels::kernel_of(p), variant));
  }
  specialiser.provide(wanted);
  int checked = 0;
  for (const InvertedResidualParams& p : other_blocks()) {
    CAPTURE(p);
    const Data data = random_data(p, 1);
    checked += check_against_oracle(p, data, made_for(p));
  }
  if (gpu_traits().code >= 90) CHECK(checked > 200);
}

TEST_CASE("specialised kernels of bytes equal the integer oracle") {
  namespace int8 = int8_inverted_residual_case;
  EngineOptions options;
  options.code_cache.emplace();
  Specialiser specialiser(options, gpu_traits());
  if (const std::string why = specialiser.why_not(); !why.empty()) MOBICUDA_SKIP(why);
  const int8::Int8InvertedResidualParams any;
  const auto& kernel = kernels::kernel_of(any);
  std::vector<int8::Int8InvertedResidualParams> blocks;
  for (const int size : {5, 14, 21}) {
    blocks.push_back(int8::block(2, size, size + 3, 8, 48, 16, 2));
    blocks.push_back(int8::block(2, size, size + 3, 48, 288, 48, 1));
    blocks.push_back(int8::block(1, size, size, 88, 528, 136, 1));
  }
  // Widths and sizes of MobileNetV2 with one image and with many, for which models choose other tiles.
  for (const int images : {1, 9, 70}) {
    blocks.push_back(int8::block(images, 12, 12, 16, 96, 16, 1));
    blocks.push_back(int8::block(images, 20, 20, 24, 144, 32, 2));
    blocks.push_back(int8::block(images, 10, 10, 64, 384, 96, 1));
    blocks.push_back(int8::block(images, 5, 5, 160, 960, 160, 1));
    blocks.push_back(int8::block(images, 3, 3, 160, 960, 320, 1));
  }
  blocks.push_back(int8::block(1, 7, 7, 224, 1344, 448, 1));
  std::vector<WantedKernel> wanted;
  for (const auto& p : blocks) {
    for (const auto variant : kernel.specialised(p, gpu_that_compiles()))
      wanted.push_back(*wanted_kernel(kernel, variant));
  }
  CHECK_FALSE((wanted.empty() && gpu_traits().code >= 80));
  specialiser.provide(wanted);
  for (const auto& p : blocks) {
    const int8::Data data = int8::make_data(p, ByteData::Random, 1);
    const Bytes expected = int8::oracle(p, data);
    for (const auto variant : kernel.specialised(p, gpu_that_compiles())) {
      CAPTURE(p, kernel.variant_name(variant));
      CHECK(int8::run(p, data, variant) == expected);
    }
  }
}

TEST_CASE("specialised kernels: without code a launch is refused") {
  const InvertedResidualParams p = block(1, 3, 3, 8, 40, 8, 1);
  const auto variants = made_for(p);
  if (variants.empty()) MOBICUDA_SKIP("nothing is made for this GPU");
  const Data data = random_data(p, 1);
  const DeviceTensor x(p.elem, data.x);
  const GuardedBuffer packed = pack(variants.front(), p, data);
  CHECK(kernels::inverted_residual(variants.front(), p, x.data(), packed.data(), const_cast<void*>(x.data()), {}) ==
        cudaErrorInvalidDeviceFunction);
}

}  // namespace
}  // namespace mobicuda::test
