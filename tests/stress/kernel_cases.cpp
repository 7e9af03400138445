#include "stress/kernel_cases.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/conv2d_case.h"
#include "kernels/depthwise_conv_case.h"
#include "kernels/expand_depthwise_case.h"
#include "kernels/gated_pointwise/gated_pointwise.h"
#include "kernels/gemm_case.h"
#include "kernels/int8_conv2d_case.h"
#include "kernels/int8_depthwise_conv_case.h"
#include "kernels/int8_inverted_residual_case.h"
#include "kernels/int8_stem_block_case.h"
#include "kernels/inverted_residual_case.h"
#include "kernels/pointwise_pool/pointwise_pool.h"
#include "kernels/split_gemm/split_gemm.h"
#include "kernels/squeeze_excite/squeeze_excite.h"
#include "kernels/stem_block_case.h"

namespace mobicuda::stress {
namespace {

using kernels::Elem;
using kernels::Launch;
using test::DeviceTensor;
using test::GuardedBuffer;
using test::kElems;
using test::random_uniform;

// Grids of one wave and of several.
constexpr int kPictures = 24;
constexpr int kPicturesOfLargeMaps = 6;
constexpr int kLargeMap = 28;
constexpr std::uint32_t kSeed = 40;
constexpr std::size_t kAlignment = 16;  // of what kernels read

int pictures_of(int size) { return size > kLargeMap ? kPicturesOfLargeMaps : kPictures; }

std::size_t product(int a, int b, int c = 1, int d = 1) { return test::window_case::count_of(a, b, c, d); }

/// Inputs and weights of a case on the device, each by itself.
class Memory {
 public:
  const DeviceTensor& floats(Elem elem, std::span<const float> values) {
    tensors_.push_back(std::make_unique<DeviceTensor>(elem, values));
    return *tensors_.back();
  }
  const DeviceTensor& random(Elem elem, std::size_t count, float lo = -1.0F, float hi = 1.0F) {
    return floats(elem, random_uniform(seed_++, count, lo, hi));
  }
  const GuardedBuffer& bytes(std::span<const std::byte> values) {
    buffers_.push_back(std::make_unique<GuardedBuffer>(values));
    return *buffers_.back();
  }
  std::vector<float> random_host(std::size_t count, float lo = -1.0F, float hi = 1.0F) {
    return random_uniform(seed_++, count, lo, hi);
  }

 private:
  std::uint32_t seed_ = kSeed;
  std::vector<std::unique_ptr<DeviceTensor>> tensors_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
};

const void* behind(const void* data, int first, std::size_t bytes) {
  if (data == nullptr) return nullptr;
  return static_cast<const unsigned char*>(data) + static_cast<std::size_t>(first) * bytes;
}

/// `run(n, first, y, where)` with what keeps `memory` alive. Bytes are those of a picture.
template <class Params, class Run>
KernelCase make_case(const std::string& name, const Params& p, std::size_t input_bytes, std::size_t output_bytes,
                     std::shared_ptr<Memory> memory, Run run) {
  KernelCase made;
  made.name = name;
  made.pictures = p.n;
  made.output_bytes = output_bytes;
  made.aligned = static_cast<int>(kAlignment / std::gcd(kAlignment, input_bytes));
  made.enqueue = [p, memory = std::move(memory), run = std::move(run)](int n, int first, void* y, const Launch& where) {
    Params some = p;
    some.n = n;
    return run(some, first, y, where);
  };
  return made;
}

/// Calls body(variant) for those that run any number of pictures up to the params'.
template <class Variants, class Params, class Body>
void for_each_variant(const Variants& variants, const Params& p, const Body& body) {
  Params one = p;
  one.n = 1;
  for (const auto variant : variants) {
    const kernels::DeviceTraits gpu = test::gpu_traits();
    if (supports(variant, p, gpu) && supports(variant, one, gpu)) body(variant);
  }
}

/// Whether a shape is the first one for its variant.
template <class Variant>
class FirstOnly {
 public:
  bool take(Variant variant) {
    if (std::find(taken_.begin(), taken_.end(), variant) != taken_.end()) return false;
    taken_.push_back(variant);
    return true;
  }

 private:
  std::vector<Variant> taken_;
};

std::string label(const char* kernel, std::string_view variant) {
  return std::string(kernel) + "/" + std::string(variant);
}

std::vector<KernelCase> inverted_residual_cases() {
  using namespace test::inverted_residual_case;
  std::vector<KernelCase> cases;
  FirstOnly<InvertedResidualVariant> first_only;
  std::vector<test::InvertedResidualLayer> layers(std::begin(test::kMobileNetV2Blocks),
                                                  std::end(test::kMobileNetV2Blocks));
  layers.insert(layers.end(), std::begin(test::kMobileNetV3Blocks), std::end(test::kMobileNetV3Blocks));
  layers.insert(layers.end(), {{"any", 14, 24, 144, 24, 1}, {"any", 14, 24, 144, 24, 2}, {"any", 14, 16, 16, 16, 1}});
  for (const Elem elem : kElems) {
    for (const test::InvertedResidualLayer& layer : layers) {
      InvertedResidualParams p = block(layer, pictures_of(layer.size));
      p.elem = elem;
      p = with_split(p);
      std::shared_ptr<Memory> memory;  // made where a variant takes it
      std::shared_ptr<const Data> data;
      const void* x = nullptr;
      for_each_variant(kernels::inverted_residual_variants(), p, [&](InvertedResidualVariant variant) {
        if (!first_only.take(variant)) return;
        if (memory == nullptr) {
          memory = std::make_shared<Memory>();
          data = std::make_shared<const Data>(random_data(p, kSeed));
          x = memory->floats(elem, data->x).data();
        }
        std::vector<std::byte> packed(kernels::inverted_residual_packed_bytes(variant, p));
        kernels::inverted_residual_pack(variant, p, data->weights(p), packed.data());
        const void* const weights = memory->bytes(packed).data();
        const std::size_t input_bytes = product(1, p.h, p.w, p.c_in) * kernels::size_of(elem);
        cases.push_back(make_case(label("inverted_residual", name(variant)), p, input_bytes,
                                  product(1, p.out_h, p.out_w, p.c_out) * kernels::size_of(elem), memory,
                                  [=](const InvertedResidualParams& some, int first, void* y, const Launch& where) {
                                    return kernels::inverted_residual(variant, some, behind(x, first, input_bytes),
                                                                      weights, y, where);
                                  }));
      });
    }
  }
  return cases;
}

std::vector<KernelCase> pointwise_pool_cases() {
  constexpr test::PointwiseLayer kHead = test::kMobileNetV2Head;
  std::vector<KernelCase> cases;
  for (const Elem elem : kElems) {
    auto memory = std::make_shared<Memory>();
    kernels::PointwisePoolParams p;
    p.elem = elem;
    p.n = 4 * kPictures;  // more than one group of pictures for each SM
    p.pixels = kHead.side * kHead.side;
    p.c_in = kHead.k;
    p.c = kHead.n;
    p.bias = true;
    p.activation = test::window_case::kRelu6;
    const std::vector<float> weight = memory->random_host(product(p.c, p.c_in));
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(elem, p.c, p.c_in));
    kernels::gemm_pack(elem, p.c, p.c_in, weight.data(), packed.data());
    const void* const weights = memory->bytes(packed).data();
    const void* const x = memory->random(elem, product(p.n, p.pixels, p.c_in)).data();
    const float* const bias = memory->random(Elem::F32, product(1, p.c)).floats();
    const std::size_t input_bytes = product(p.pixels, p.c_in) * kernels::size_of(elem);
    for_each_variant(kernels::pointwise_pool_variants(), p, [&](kernels::PointwisePoolVariant variant) {
      cases.push_back(make_case(
          label("pointwise_pool", name(variant)), p, input_bytes, product(1, p.c) * kernels::size_of(elem), memory,
          [=](const kernels::PointwisePoolParams& some, int first, void* y, const Launch& where) {
            return kernels::pointwise_pool(variant, some, behind(x, first, input_bytes), weights, bias, y, where);
          }));
    });
  }
  return cases;
}

std::vector<KernelCase> squeeze_excite_cases() {
  std::vector<KernelCase> cases;
  FirstOnly<std::pair<kernels::SqueezeExciteVariant, Elem>> first_only;
  for (const Elem elem : kElems) {
    for (const auto& [pixels, channels, squeezed] :
         {std::array{49, 960, 240}, std::array{196, 480, 120}, std::array{49, 240, 64}}) {
      auto memory = std::make_shared<Memory>();
      kernels::SqueezeExciteParams p;
      p.elem = elem;
      p.n = kPictures;
      p.pixels = pixels;
      p.c = channels;
      p.squeezed = squeezed;
      p.squeeze_activation = kernels::Activation(kernels::ActivationKind::Silu);
      p.gate_activation = kernels::Activation(kernels::ActivationKind::Sigmoid);
      const void* const x = memory->random(elem, product(p.n, p.pixels, p.c)).data();
      const std::vector<float> reduce = memory->random_host(product(p.squeezed, p.c), -0.2F, 0.2F);
      const std::vector<float> expand = memory->random_host(product(p.c, p.squeezed));
      const std::size_t bytes = product(p.pixels, p.c) * kernels::size_of(elem);
      for_each_variant(kernels::squeeze_excite_variants(), p, [&](kernels::SqueezeExciteVariant variant) {
        if (!first_only.take({variant, elem})) return;
        std::vector<std::byte> packed(kernels::squeeze_excite_packed_bytes(variant, p));
        kernels::squeeze_excite_pack(variant, p, {reduce.data(), nullptr, expand.data(), nullptr}, packed.data());
        const void* const weights = memory->bytes(packed).data();
        cases.push_back(make_case(
            label("squeeze_excite", name(variant)) + (elem == Elem::F32 ? " float" : " half"), p, bytes, bytes, memory,
            [=](const kernels::SqueezeExciteParams& some, int first, void* y, const Launch& where) {
              return kernels::squeeze_excite(variant, some, behind(x, first, bytes), weights, y, where);
            }));
      });
    }
  }
  return cases;
}

std::vector<KernelCase> gated_pointwise_cases() {
  std::vector<KernelCase> cases;
  for (const auto& [pixels, channels, squeezed, out] :
       {std::array{784, 120, 32, 40}, std::array{196, 480, 120, 112}, std::array{49, 672, 28, 192}}) {
    auto memory = std::make_shared<Memory>();
    kernels::GatedPointwiseParams p;
    p.n = kPictures;
    p.pixels = pixels;
    p.c = channels;
    p.squeezed = squeezed;
    p.out = out;
    p.residual = true;
    p.squeeze_activation = kernels::Activation(kernels::ActivationKind::Silu);
    p.gate_activation = kernels::Activation(kernels::ActivationKind::Sigmoid);
    const void* const x = memory->random(p.elem, product(p.n, p.pixels, p.c)).data();
    const void* const residual = memory->random(p.elem, product(p.n, p.pixels, p.out)).data();
    const std::vector<float> reduce = memory->random_host(product(p.squeezed, p.c), -0.2F, 0.2F);
    const std::vector<float> expand = memory->random_host(product(p.c, p.squeezed));
    const std::vector<float> weight = memory->random_host(product(p.out, p.c));
    std::vector<std::byte> packed_projection(kernels::gated_pointwise_projection_bytes(p.out, p.c));
    kernels::gated_pointwise_pack_projection(p.out, p.c, weight.data(), packed_projection.data());
    const void* const projection = memory->bytes(packed_projection).data();
    const std::size_t input_bytes = product(p.pixels, p.c) * kernels::size_of(p.elem);
    const std::size_t output_bytes = product(p.pixels, p.out) * kernels::size_of(p.elem);
    for_each_variant(kernels::gated_pointwise_variants(), p, [&](kernels::GatedPointwiseVariant variant) {
      std::vector<std::byte> packed(kernels::gated_pointwise_packed_bytes(variant, p));
      kernels::gated_pointwise_pack(variant, p, {reduce.data(), nullptr, expand.data(), nullptr, nullptr},
                                    packed.data());
      const void* const weights = memory->bytes(packed).data();
      cases.push_back(make_case(
          label("gated_pointwise", name(variant)) + " of " + std::to_string(channels), p, input_bytes, output_bytes,
          memory, [=](const kernels::GatedPointwiseParams& some, int first, void* y, const Launch& where) {
            return kernels::gated_pointwise(variant, some, behind(x, first, input_bytes), weights, projection,
                                            behind(residual, first, output_bytes), y, where);
          }));
    });
  }
  return cases;
}

test::conv2d_case::Conv2dParams convolution(Elem elem, int size, int c_in, int c_out, int groups = 1) {
  using namespace test::conv2d_case;
  Conv2dParams p = stem(elem, Input::NhwcElem, kPictures, size, size, c_out, 1);
  p.c_in = c_in;
  p.groups = groups;
  p.residual = true;
  return p;
}

std::vector<KernelCase> conv2d_cases() {
  using namespace test::conv2d_case;
  std::vector<KernelCase> cases;
  FirstOnly<Conv2dVariant> first_only;
  std::vector<Conv2dParams> shapes;
  for (const Elem elem : test::kAllElems) {
    shapes.push_back(convolution(elem, 7, 512, 512));
    shapes.push_back(convolution(elem, 14, 128, 136));
    for (const int of_group : {4, 8, 32}) shapes.push_back(convolution(elem, 14, 4 * of_group, 4 * of_group, 4));
    for (const Input input : {Input::NchwFloat, Input::NhwcFloat}) {
      shapes.push_back(stem(elem, input, kPictures, 56, 56, 16, 2));
      shapes.push_back(stem(elem, input, kPictures, 56, 56, 32, 2));
    }
  }
  // Of persistent blocks, which add nothing, and with a maximum over 2x2 behind them.
  for (const bool max_pool : {false, true}) {
    shapes.push_back(convolution(Elem::F16, 28, 128, 200));
    shapes.back().residual = false;
    shapes.back().max_pool = max_pool;
  }
  for (const Conv2dParams& p : shapes) {
    std::shared_ptr<Memory> memory;
    const void* x = nullptr;
    const void* residual = nullptr;
    const void* weights = nullptr;
    const float* bias = nullptr;
    const std::size_t input_bytes = product(1, p.h, p.w, p.c_in) * kernels::size_of(input_elem(p));
    const int pool = p.max_pool ? 2 : 1;
    const std::size_t output_bytes = product(1, p.out_h / pool, p.out_w / pool, p.c_out) * kernels::size_of(p.elem);
    for_each_variant(kernels::conv2d_variants(), p, [&](Conv2dVariant variant) {
      if (!first_only.take(variant)) return;
      if (memory == nullptr) {
        memory = std::make_shared<Memory>();
        const Data data = random_data(p, kSeed);
        x = memory->floats(input_elem(p), data.x).data();
        bias = memory->floats(Elem::F32, data.bias).floats();
        residual = p.residual ? memory->floats(p.elem, data.residual).data() : nullptr;
        std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
        kernels::conv2d_pack(p, data.weight.data(), packed.data());
        weights = memory->bytes(packed).data();
      }
      cases.push_back(make_case(label("conv2d", name(variant)), p, input_bytes, output_bytes, memory,
                                [=](const Conv2dParams& some, int first, void* y, const Launch& where) {
                                  return kernels::conv2d(variant, some, behind(x, first, input_bytes), weights, bias,
                                                         behind(residual, first, output_bytes), y, where);
                                }));
    });
  }
  return cases;
}

std::vector<KernelCase> stem_block_cases() {
  using namespace test::stem_block_case;
  constexpr int kSize = 96;
  std::vector<KernelCase> cases;
  for (const Form& form : kForms) {
    auto memory = std::make_shared<Memory>();
    const StemBlockParams p = block(form, kPicturesOfLargeMaps, kSize, kSize, false);
    const auto data = std::make_shared<const Data>(random_data(p, kSeed));
    const void* const x = memory->bytes(input_bytes(p, *data)).data();
    const std::size_t picture_bytes = input_bytes(p, *data).size() / static_cast<std::size_t>(p.n);
    for_each_variant(kernels::stem_block_variants(), p, [&](StemBlockVariant variant) {
      std::vector<std::byte> packed(kernels::stem_block_packed_bytes(variant, p));
      kernels::stem_block_pack(variant, p, data->weights(), packed.data());
      const void* const weights = memory->bytes(packed).data();
      cases.push_back(
          make_case(label("stem_block", name(variant)) + (form.input == StemInput::NchwFloat ? " floats" : " bytes"), p,
                    picture_bytes, product(1, p.out_h, p.out_w, p.c_out) * kernels::size_of(form.elem), memory,
                    [=](const StemBlockParams& some, int first, void* y, const Launch& where) {
                      return kernels::stem_block(variant, some, behind(x, first, picture_bytes), weights, y, where);
                    }));
    });
  }
  return cases;
}

std::vector<KernelCase> expand_depthwise_cases() {
  using namespace test::expand_depthwise_case;
  std::vector<KernelCase> cases;
  FirstOnly<ExpandDepthwiseVariant> first_only;
  for (const int stride : kStrides) {
    auto memory = std::make_shared<Memory>();
    const ExpandDepthwiseParams p = same_padded(kPictures, 14, 14, 96, 576, stride);
    const Data data = random_data(p, kSeed);
    const void* const x = memory->floats(p.elem, data.x).data();
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, p.c, p.c_in));
    kernels::gemm_pack(p.elem, p.c, p.c_in, data.expand.data(), packed.data());
    const void* const expand = memory->bytes(packed).data();
    packed.resize(kernels::depthwise_conv_packed_bytes(p.elem, p.c, 3, 3));
    kernels::depthwise_conv_pack(p.elem, p.c, 3, 3, data.depthwise.data(), packed.data());
    const void* const depthwise = memory->bytes(packed).data();
    const float* const expand_bias = memory->floats(Elem::F32, data.expand_bias).floats();
    const float* const depthwise_bias = memory->floats(Elem::F32, data.depthwise_bias).floats();
    const std::size_t input_bytes = product(1, p.h, p.w, p.c_in) * kernels::size_of(p.elem);
    for_each_variant(kernels::expand_depthwise_variants(), p, [&](ExpandDepthwiseVariant variant) {
      if (!first_only.take(variant)) return;
      cases.push_back(make_case(label("expand_depthwise", name(variant)), p, input_bytes,
                                product(1, p.out_h, p.out_w, p.c) * kernels::size_of(p.elem), memory,
                                [=](const ExpandDepthwiseParams& some, int first, void* y, const Launch& where) {
                                  return kernels::expand_depthwise(variant, some, behind(x, first, input_bytes), expand,
                                                                   expand_bias, depthwise, depthwise_bias, y, where);
                                }));
    });
  }
  return cases;
}

std::vector<KernelCase> depthwise_conv_cases() {
  using namespace test::depthwise_conv_case;
  constexpr int kFive = 5;
  std::vector<KernelCase> cases;
  FirstOnly<std::pair<DepthwiseConvVariant, Elem>> first_only;
  for (const Elem elem : kElems) {
    for (const DepthwiseConvParams& p :
         {same_size(elem, kPictures, 14, 14, 96, 1), same_size(elem, kPictures, 14, 14, 96, 2),
          same_size(elem, kPictures, 14, 14, 96, 1, kFive), same_size(elem, kPictures, 14, 14, 96, 2, kFive)}) {
      auto memory = std::make_shared<Memory>();
      const Data data = random_data(p, kSeed);
      const void* const x = memory->floats(elem, data.x).data();
      const float* const bias = memory->floats(Elem::F32, data.bias).floats();
      std::vector<std::byte> packed(kernels::depthwise_conv_packed_bytes(elem, p.c, p.kernel_h, p.kernel_w));
      kernels::depthwise_conv_pack(elem, p.c, p.kernel_h, p.kernel_w, data.weight.data(), packed.data());
      const void* const weights = memory->bytes(packed).data();
      const std::size_t input_bytes = product(1, p.h, p.w, p.c) * kernels::size_of(elem);
      for_each_variant(kernels::depthwise_conv_variants(), p, [&](DepthwiseConvVariant variant) {
        if (!first_only.take({variant, elem})) return;
        cases.push_back(make_case(label("depthwise_conv", name(variant)) + (elem == Elem::F32 ? " float" : " half"), p,
                                  input_bytes, product(1, p.out_h, p.out_w, p.c) * kernels::size_of(elem), memory,
                                  [=](const DepthwiseConvParams& some, int first, void* y, const Launch& where) {
                                    return kernels::depthwise_conv(variant, some, behind(x, first, input_bytes),
                                                                   weights, bias, y, where);
                                  }));
      });
    }
  }
  return cases;
}

std::vector<KernelCase> gemm_cases() {
  using kernels::GemmParams;
  using kernels::GemmVariant;
  constexpr int kRows = 49;  // of a picture
  constexpr int kColumns = 160;
  constexpr int kProducts = 960;
  std::vector<KernelCase> cases;
  FirstOnly<GemmVariant> first_only;
  for (const Elem elem : test::kAllElems) {
    for (const int rows : {kRows, 1}) {
      auto memory = std::make_shared<Memory>();
      const GemmParams p = [&] {
        GemmParams made = test::gemm_case::make_params(elem, kPictures * rows, kColumns, kProducts);
        made.bias = true;
        return made;
      }();
      const void* const x = memory->random(elem, product(p.m, p.k)).data();
      const float* const bias = memory->random(Elem::F32, product(1, p.n)).floats();
      const std::vector<float> weight = memory->random_host(product(p.n, p.k));
      std::vector<std::byte> packed(kernels::gemm_packed_bytes(elem, p.n, p.k));
      kernels::gemm_pack(elem, p.n, p.k, weight.data(), packed.data());
      const void* const weights = memory->bytes(packed).data();
      const std::size_t input_bytes = product(rows, p.k) * kernels::size_of(elem);
      GemmParams one = p;
      one.m = rows;
      for (const GemmVariant variant : kernels::gemm_variants()) {
        const kernels::DeviceTraits gpu = test::gpu_traits();
        if (!supports(variant, p, gpu) || !supports(variant, one, gpu)) continue;
        if (!first_only.take(variant)) continue;
        KernelCase made;
        made.name = label("gemm", name(variant));
        made.pictures = kPictures;
        made.output_bytes = product(rows, p.n) * kernels::size_of(elem);
        made.enqueue = [=](int n, int first, void* y, const Launch& where) {
          static_cast<void>(memory);  // kept
          GemmParams some = p;
          some.m = n * rows;
          return kernels::gemm(variant, some, behind(x, first, input_bytes), weights, bias, nullptr, y, where);
        };
        cases.push_back(std::move(made));
      }
    }
  }
  return cases;
}

std::vector<KernelCase> split_gemm_cases() {
  using kernels::SplitGemmParams;
  constexpr int kRows = 49;  // of a picture
  std::vector<KernelCase> cases;
  auto memory = std::make_shared<Memory>();
  const SplitGemmParams p = [] {
    SplitGemmParams made;
    made.m = kPictures * kRows;
    made.n = 160;
    made.k = 960;
    made.in_range = made.bias = true;
    return made;
  }();
  const float* const x = memory->random(Elem::F32, product(p.m, p.k)).floats();
  const float* const bias = memory->random(Elem::F32, product(1, p.n)).floats();
  const std::vector<float> weight = memory->random_host(product(p.n, p.k));
  std::vector<std::byte> packed(kernels::split_gemm_packed_bytes(p.n, p.k));
  kernels::split_gemm_pack(p.n, p.k, 1.0F, weight.data(), packed.data());
  const void* const weights = memory->bytes(packed).data();
  const std::size_t input = product(kRows, p.k);
  for (const kernels::SplitGemmVariant variant : kernels::split_gemm_variants()) {
    if (!supports(variant, p, test::gpu_traits())) continue;
    KernelCase made;
    made.name = label("split_gemm", name(variant));
    made.pictures = kPictures;
    made.output_bytes = product(kRows, p.n) * sizeof(float);
    made.enqueue = [=](int n, int first, void* y, const Launch& where) {
      static_cast<void>(memory);  // kept
      SplitGemmParams some = p;
      some.m = n * kRows;
      return kernels::split_gemm(variant, some, x + static_cast<std::size_t>(first) * input, weights, bias, nullptr,
                                 static_cast<float*>(y), where);
    };
    cases.push_back(std::move(made));
  }
  return cases;
}

std::vector<KernelCase> int8_conv2d_cases() {
  using namespace test::int8_conv2d_case;
  std::vector<KernelCase> cases;
  FirstOnly<Int8Conv2dVariant> first_only;
  Int8Conv2dParams first_layer = window(kPictures, 56, 56, 3, 32, 3, 2);
  first_layer.x_pitch = 4;
  for (const Int8Conv2dParams& p :
       {with_residual(window(kPictures, 7, 7, 320, 96, 3, 1)), window(kPictures, 1, 1, 320, 96, 1, 1), first_layer}) {
    const Data data = make_data(p, test::ByteData::Random, kSeed);
    const auto device = std::make_shared<const Device>(p, data);
    const std::size_t input_bytes = product(1, p.h, p.w, x_pitch_of(p));
    const std::size_t output_bytes = product(1, p.out_h, p.out_w, y_pitch_of(p));
    for_each_variant(kernels::int8_conv2d_variants(), p, [&](Int8Conv2dVariant variant) {
      if (!first_only.take(variant)) return;
      cases.push_back(make_case(label("int8_conv2d", name(variant)), p, input_bytes, output_bytes, nullptr,
                                [=](const Int8Conv2dParams& some, int first, void* y, const Launch& where) {
                                  return kernels::int8_conv2d(
                                      variant, some, behind(device->x(), first, input_bytes), device->weights(),
                                      behind(device->residual(), first, output_bytes), y, where);
                                }));
    });
  }
  return cases;
}

std::vector<KernelCase> int8_depthwise_conv_cases() {
  using namespace test::int8_depthwise_conv_case;
  constexpr int kFive = 5;
  std::vector<KernelCase> cases;
  FirstOnly<Int8DepthwiseConvVariant> first_only;
  for (const Int8DepthwiseConvParams& p :
       {same_padded(kPictures, 14, 14, 96, 3, 2), same_padded(kPictures, 14, 14, 96, kFive, 1)}) {
    const Data data = make_data(p, test::ByteData::Random, kSeed);
    const auto device = std::make_shared<const Device>(p, data);
    const std::size_t input_bytes = product(1, p.h, p.w, p.c);
    for_each_variant(kernels::int8_depthwise_conv_variants(), p, [&](Int8DepthwiseConvVariant variant) {
      if (!first_only.take(variant)) return;
      cases.push_back(
          make_case(label("int8_depthwise_conv", name(variant)), p, input_bytes, product(1, p.out_h, p.out_w, p.c),
                    nullptr, [=](const Int8DepthwiseConvParams& some, int first, void* y, const Launch& where) {
                      return kernels::int8_depthwise_conv(variant, some, behind(device->x(), first, input_bytes),
                                                          device->weights(), y, where);
                    }));
    });
  }
  return cases;
}

std::vector<KernelCase> int8_inverted_residual_cases() {
  using namespace test::int8_inverted_residual_case;
  std::vector<KernelCase> cases;
  for (const test::InvertedResidualLayer& layer : test::kMobileNetV2Blocks) {
    if (!layer.expands()) continue;
    constexpr int kSize = 14;
    const Int8InvertedResidualParams p =
        block(kPictures, kSize, kSize, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
    auto memory = std::make_shared<Memory>();
    const Data data = make_data(p, test::ByteData::Random, kSeed);
    const void* const x = memory->bytes(std::as_bytes(std::span(data.x))).data();
    const std::size_t bytes = data.x.size() / static_cast<std::size_t>(p.n);
    for_each_variant(kernels::int8_inverted_residual_variants(), p, [&](Int8InvertedResidualVariant variant) {
      std::vector<std::byte> packed(kernels::int8_inverted_residual_packed_bytes(variant, p));
      kernels::int8_inverted_residual_pack(variant, p, data.layers(), packed.data());
      const void* const weights = memory->bytes(packed).data();
      cases.push_back(make_case(label("int8_inverted_residual", name(variant)), p, bytes, bytes, memory,
                                [=](const Int8InvertedResidualParams& some, int first, void* y, const Launch& where) {
                                  return kernels::int8_inverted_residual(variant, some, behind(x, first, bytes),
                                                                         weights, y, where);
                                }));
    });
  }
  return cases;
}

std::vector<KernelCase> int8_stem_block_cases() {
  using namespace test::int8_stem_block_case;
  constexpr int kSize = 96;
  constexpr int kChannelsOf[][2] = {{32, 16}, {48, 24}};
  std::vector<KernelCase> cases;
  for (const auto& [c_stem, c_out] : kChannelsOf) {
    const Int8StemBlockParams p = block(kPicturesOfLargeMaps, kSize, kSize, c_stem, c_out);
    auto memory = std::make_shared<Memory>();
    const Data data = make_data(p, test::ByteData::Random, kSeed);
    const void* const x = memory->bytes(std::as_bytes(std::span(data.x))).data();
    const std::size_t in = data.x.size() * sizeof(float) / static_cast<std::size_t>(p.n);
    const std::size_t out = product(1, p.out_h, p.out_w, kernels::round_up(p.c_out, kernels::kChannelStep));
    for_each_variant(kernels::int8_stem_block_variants(), p, [&](Int8StemBlockVariant variant) {
      std::vector<std::byte> packed(kernels::int8_stem_block_packed_bytes(variant, p));
      kernels::int8_stem_block_pack(variant, p, data.layers(), packed.data());
      const void* const weights = memory->bytes(packed).data();
      cases.push_back(make_case(label("int8_stem_block", name(variant)), p, in, out, memory,
                                [=](const Int8StemBlockParams& some, int first, void* y, const Launch& where) {
                                  return kernels::int8_stem_block(variant, some, behind(x, first, in), weights, y,
                                                                  where);
                                }));
    });
  }
  return cases;
}

template <class Params, class Variant>
KernelFamily family(const kernels::KernelTable<Params, Variant>& kernel, std::vector<KernelCase> cases,
                    int oldest = 0) {
  KernelFamily made{std::string(kernel.name), {}, std::move(cases), oldest};
  for (const Variant variant : kernel.variants) made.variants.emplace_back(kernel.variant_name(variant));
  return made;
}

}  // namespace

std::vector<KernelFamily> kernel_families() {
  using namespace kernels;
  return {family(kernel_of(InvertedResidualParams{}), inverted_residual_cases()),
          family(kernel_of(PointwisePoolParams{}), pointwise_pool_cases()),
          family(kernel_of(SqueezeExciteParams{}), squeeze_excite_cases(), 90),
          family(kernel_of(GatedPointwiseParams{}), gated_pointwise_cases(), 90),
          family(kernel_of(Conv2dParams{}), conv2d_cases()),
          family(kernel_of(StemBlockParams{}), stem_block_cases(), 80),
          family(kernel_of(ExpandDepthwiseParams{}), expand_depthwise_cases(), 80),
          family(kernel_of(DepthwiseConvParams{}), depthwise_conv_cases()),
          family(kernel_of(GemmParams{}), gemm_cases()),
          family(kernel_of(SplitGemmParams{}), split_gemm_cases(), 80),
          family(kernel_of(Int8Conv2dParams{}), int8_conv2d_cases(), 80),
          family(kernel_of(Int8DepthwiseConvParams{}), int8_depthwise_conv_cases()),
          family(kernel_of(Int8InvertedResidualParams{}), int8_inverted_residual_cases(), 80),
          family(kernel_of(Int8StemBlockParams{}), int8_stem_block_cases(), 80)};
}

}  // namespace mobicuda::stress
