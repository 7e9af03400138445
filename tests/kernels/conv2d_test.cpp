#include "conv2d_case.h"
#include "support/network_shapes.h"

namespace mobicuda::test {
namespace {

using namespace conv2d_case;

/// A shape of the grid small enough for the oracle; `stems` asks for one that the stem variants support.
Conv2dParams random_shape(Choice& choose, Elem elem, Input input, bool stems) {
  constexpr std::size_t kLargest = 1U << 18U;
  constexpr std::size_t kMostWork = 1U << 26U;
  constexpr int kGroupGrid[] = {1, 1, 2, 3, 4, 8};
  for (;;) {
    Conv2dParams p;
    p.elem = elem;
    p.input = input;
    p.n = choose(kBatchGrid);
    p.h = choose(kSizeGrid);
    p.w = choose(kSizeGrid);
    p.groups = stems ? 1 : choose(kGroupGrid);
    p.c_in = stems ? 1 + choose.upto(3) : choose(kChannelGrid);
    p.c_out = stems ? 8 * (1 + choose.upto(7)) : choose(kChannelGrid);
    if (p.c_in % p.groups != 0 || p.c_out % p.groups != 0) continue;
    p.kernel_h = stems ? 3 : choose(kKernelGrid);
    p.kernel_w = stems ? 3 : choose(kKernelGrid);
    p.dilation_h = stems ? 1 : 1 + choose.upto(1);
    p.dilation_w = stems ? 1 : 1 + choose.upto(1);
    p.stride_h = 1 + choose.upto(stems ? 1 : 2);
    p.stride_w = stems ? p.stride_h : 1 + choose.upto(2);
    p.pad_top = choose.upto(3);
    p.pad_left = choose.upto(3);
    p.out_h = output_extent(p.h, p.kernel_h, p.stride_h, p.dilation_h, p.pad_top, choose.upto(3));
    p.out_w = output_extent(p.w, p.kernel_w, p.stride_w, p.dilation_w, p.pad_left, choose.upto(3));
    p.bias = choose.flip();
    p.residual = !stems && choose.flip();
    p.activation = kClips[choose.upto(2)];
    if (p.out_h == 0 || p.out_w == 0 || input_count(p) > kLargest || output_count(p) > kLargest) continue;
    const std::size_t products = weight_count(p) / static_cast<std::size_t>(p.c_out);
    if (output_count(p) * products <= kMostWork) return p;
  }
}

TEST_CASE("conv2d_pack moves output channels innermost and pads them with zeros") {
  Conv2dParams p = stem(Elem::F32, Input::NhwcElem, 1, 4, 4, 3, 1);
  p.c_in = 2;
  p.kernel_h = 1;
  p.kernel_w = 2;
  std::vector<float> weight = counting(3 * 2 * 2);  // (co = 3, ci = 2, 1, kx = 2)
  for (float& value : weight) value += 1.0F;
  std::vector<float> packed(2 * 2 * 8, kNan);  // (1, kx = 2, ci = 2, co = 8)
  REQUIRE(kernels::conv2d_packed_bytes(p) == packed.size() * sizeof(float));
  kernels::conv2d_pack(p, weight.data(), packed.data());
  REQUIRE(packed == std::vector<float>{1, 5, 9,  0, 0, 0, 0, 0, 3, 7, 11, 0, 0, 0, 0, 0,
                                       2, 6, 10, 0, 0, 0, 0, 0, 4, 8, 12, 0, 0, 0, 0, 0});
}

TEST_CASE("conv2d lists its variants in the order of their enumeration") { check_order(kernels::conv2d_variants()); }

TEST_CASE("conv2d equals the oracle on the stem of MobileNetV2") {
  const StemLayer& layer = kMobileNetV2Stem;
  std::uint32_t seed = 100;
  for (const Elem elem : kAllElems) {
    for (const Input input : kInputs) {
      for (const int n : {1, 8, 32}) {
        Conv2dParams p = stem(elem, input, n, layer.size, layer.size, layer.c_out, layer.stride);
        if (n == 8) p.pad_top = p.pad_left = 0;  // TensorFlow pads below and to the right only
        check_against_oracle(p, seed);
        seed += 10;
      }
    }
  }
}

TEST_CASE("conv2d equals the oracle on random shapes") {
  constexpr int kShapes = 80;
  for (const Elem elem : kAllElems) {
    for (const Input input : kInputs) {
      for (const bool stems : {false, true}) {
        Choice choose(stems ? 7 : 8);
        for (std::uint32_t i = 0; i < kShapes; ++i) {
          check_against_oracle(random_shape(choose, elem, input, stems), 1000 + 10 * i);
        }
      }
    }
  }
}

TEST_CASE("conv2d equals the oracle at every boundary of the grid") {
  constexpr int kStemOutputs[] = {8, 16, 24, 32, 40, 48, 56, 64};
  for (const Elem elem : kAllElems) {
    for (const int stride : {1, 2}) {
      for (const int c_out : kStemOutputs) {
        for (int c_in = 1; c_in <= 4; ++c_in) {
          Conv2dParams p = stem(elem, Input::NchwFloat, 2, 35, 18, c_out, stride);
          p.c_in = c_in;
          check_against_oracle(p, 21);
        }
      }
      for (const int size : kSizeGrid) {
        check_against_oracle(stem(elem, Input::NhwcElem, 2, size, 9, 16, stride), 22);
        check_against_oracle(stem(elem, Input::NhwcFloat, 2, 9, size, 16, stride), 23);
      }
      for (const int n : kBatchGrid) check_against_oracle(stem(elem, Input::NchwFloat, n, 7, 6, 8, stride), 24);
      for (const int c : kChannelGrid) {
        Conv2dParams p = stem(elem, Input::NhwcElem, 1, 5, 4, c, stride);
        p.c_in = 9;
        p.residual = true;
        check_against_oracle(p, 25);
        p.c_out = 12;
        p.c_in = c;
        check_against_oracle(p, 26);
      }
    }
  }
}

TEST_CASE("conv2d equals the oracle for every padding, windows wholly outside among them") {
  for (const Elem elem : kAllElems) {
    for (const int stride : {1, 2}) {
      for (int top = 0; top <= 5; ++top) {
        for (int left = 0; left <= 5; ++left) {
          Conv2dParams p = stem(elem, Input::NchwFloat, 1, 5, 3, 8, stride);
          p.pad_top = top;
          p.pad_left = left;
          p.out_h = output_extent(p.h, 3, stride, 1, top, 5 - left);
          p.out_w = output_extent(p.w, 3, stride, 1, left, 5 - top);
          if (p.out_h == 0 || p.out_w == 0) continue;
          p.activation = kNone;
          check_against_oracle(p, 31);
        }
      }
    }
  }
}

TEST_CASE("conv2d is exact on small whole numbers", "[sanitize][slow]") {
  constexpr std::uint32_t kShapes = 60;
  constexpr std::size_t kProductsExactInHalf = 125;  // 16 each, and 8 for bias and residual: at most 2048
  Choice choose(5);
  for (const Elem elem : kAllElems) {
    for (std::uint32_t i = 0; i < kShapes; ++i) {
      Conv2dParams p;
      do {
        p = random_shape(choose, elem, kInputs[i % 3], i % 2 == 0);
      } while (weight_count(p) / static_cast<std::size_t>(p.c_out) > kProductsExactInHalf);
      const Data data = integer_data(p, 50 + i);
      const Oracle oracle = conv2d(oracle_of(p), data.x, data.weight, data.bias, data.residual);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(
          p, [&](Conv2dVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
    }
  }
}

TEST_CASE("conv2d gives the same bits with either stem and with either direct variant") {
  for (const Elem elem : kElems) {
    for (const int stride : {1, 2}) {
      const Conv2dParams p = stem(elem, Input::NchwFloat, 3, 37, 35, 24, stride);
      const Device device(p, random_data(p, 45));
      REQUIRE(compare_bits(device.run(Conv2dVariant::Stem3x3P8C8), device.run(Conv2dVariant::Stem3x3P2C4)));
      REQUIRE(compare_bits(device.run(Conv2dVariant::Direct4x4), device.run(Conv2dVariant::Direct)));
    }
  }
}

TEST_CASE("conv2d passes NaN and infinity on, to the windows that see them only", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    for (const Input input : kInputs) {
      const Conv2dParams p = stem(elem, input, 2, 25, 21, 16, 2);
      Data data = random_data(p, 41);
      data.x[count_of(1, 7, 5, 3)] = kNan;
      data.x[count_of(1, 13, 21, 3) + 2] = kInfinity;
      data.x[count_of(2, 25, 21, 3) - 1] = -kInfinity;
      const Oracles oracles(p, data.x, [&](const std::vector<float>& half) {
        return conv2d(oracle_of(p), half, data.weight, data.bias);
      });
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](Conv2dVariant variant) {
        const Oracle& oracle = oracles.of(variant);
        REQUIRE(compare_elements(device.run(variant), oracle.value, bounds_of(variant, p, oracle), shape));
      });
    }
  }
}

TEST_CASE("conv2d does not round an input in float to half") {
  Conv2dParams p = stem(Elem::F16, Input::NhwcFloat, 1, 1, 1, 8, 1);
  p.activation = kNone;
  p.bias = false;
  const float unrounded = 1.0F + 0x1p-12F;
  const Data data{{unrounded, -1.0F, 0.0F}, std::vector<float>(weight_count(p), 1.0F), {}, {}};
  const Device device(p, data);
  for_each_variant(p, [&](Conv2dVariant variant) {
    if (rounds_input(variant)) return;
    for (const float y : device.run(variant)) REQUIRE(y == 0x1p-12F);
  });
}

/// A stem that reads bytes, and the same for an input in float.
void check_bytes(Conv2dParams p) {
  std::vector<float> bytes = random_uniform(72, input_count(p), 0.0F, 256.0F);
  for (float& byte : bytes) byte = std::floor(byte);
  for (int c = 0; c < 4; ++c) {
    p.scale[c] = 1.0F / (127.5F + static_cast<float>(c));
    p.shift[c] = 0.25F * static_cast<float>(c) - 1.0F;
  }
  Data data = random_data(p, 71);
  std::vector<std::byte> stored;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t c = i % static_cast<std::size_t>(p.c_in);
    stored.push_back(static_cast<std::byte>(static_cast<int>(bytes[i])));
    data.x[i] = std::fma(bytes[i], p.scale[c], p.shift[c]);
  }
  Conv2dParams in_float = p;
  in_float.input = Input::NhwcFloat;
  const Device device(in_float, data);
  GuardedBuffer x(stored.size(), 1);
  x.upload(stored);
  std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
  kernels::conv2d_pack(p, data.weight.data(), packed.data());
  const GuardedBuffer weights{std::span<const std::byte>(packed)};
  const DeviceTensor bias(Elem::F32, data.bias);
  const int variants = for_each_variant(p, [&](Conv2dVariant variant) {
    const std::vector<float> y = run_kernel(p.elem, output_count(p), 0, [&](void* out, const kernels::Launch& where) {
      return kernels::conv2d(variant, p, x.data(), weights.data(), bias.floats(), nullptr, out, where);
    });
    REQUIRE(compare_bits(y, device.run(variant)));
    REQUIRE(x.check_unchanged());
  });
  const int least = p.elem == Elem::F16 ? 4 : 2;  // first_96 needs the shared memory of sm_90
  REQUIRE(variants == least + (kernels::supports(Conv2dVariant::First96, p, gpu_traits()) ? 1 : 0));
}

TEST_CASE("conv2d takes bytes, scaled and shifted before padding, as it takes the same in float", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const Elem elem : kElems) {
    for (const int stride : {1, 2}) {
      for (int c_in = 1; c_in <= 4; ++c_in) {
        Conv2dParams p = stem(elem, Input::NhwcUint8, 2, 35, 18, 24, stride);
        p.c_in = c_in;
        p.activation = kNone;
        check_bytes(p);
      }
    }
  }
}

TEST_CASE("conv2d may write over its residual", "[sanitize]") {
  for (const Elem elem : kAllElems) {
    Conv2dParams p = stem(elem, Input::NhwcElem, 2, 9, 7, 24, 1);
    p.residual = true;
    const Data data = random_data(p, 51);
    const Device device(p, data);
    const DeviceTensor x(elem, data.x);
    std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
    kernels::conv2d_pack(p, data.weight.data(), packed.data());
    const GuardedBuffer weights{std::span<const std::byte>(packed)};
    const DeviceTensor bias(Elem::F32, data.bias);
    for_each_variant(p, [&](Conv2dVariant variant) {
      const std::vector<float> apart = device.run(variant);
      const DeviceTensor y(elem, data.residual);
      REQUIRE(kernels::conv2d(variant, p, x.data(), weights.data(), bias.floats(), y.data(), y.data(), {}) ==
              cudaSuccess);
      synchronize();
      REQUIRE(compare_bits(y.download(), apart));
    });
  }
}

TEST_CASE("conv2d takes more pictures than a grid's y or z dimension") {
  check_against_oracle(stem(Elem::F16, Input::NchwFloat, 70001, 3, 2, 8, 2), 61);
}

TEST_CASE("conv2d says what it supports, and refuses the rest") {
  MOBICUDA_SKIP_BELOW(90);
  const Conv2dParams good = stem(Elem::F16, Input::NchwFloat, 1, 8, 8, 16, 2);
  const auto supported = [](const Conv2dParams& p) { return for_each_variant(p, [](Conv2dVariant) {}); };
  REQUIRE(supported(good) == 11);
  Conv2dParams p = good;
  p.c_out = 12;  // not a multiple of 8
  REQUIRE(supported(p) == 5);
  p.c_out = 72;  // beyond the stem's shared memory
  REQUIRE(supported(p) == 8);
  p.c_out = 6;
  REQUIRE(supported(p) == 4);
  for (const auto& [member, value, count] :
       {std::tuple{&Conv2dParams::c_in, 5, 5}, std::tuple{&Conv2dParams::stride_w, 1, 8},
        std::tuple{&Conv2dParams::kernel_h, 1, 8}, std::tuple{&Conv2dParams::dilation_w, 2, 5}}) {
    p = good;
    p.*member = value;
    REQUIRE(supported(p) == count);
  }
  p = good;
  p.residual = true;
  REQUIRE(supported(p) == 5);
  for (const auto& [member, value] :
       {std::pair{&Conv2dParams::groups, 2}, std::pair{&Conv2dParams::groups, 0}, std::pair{&Conv2dParams::h, 0},
        std::pair{&Conv2dParams::out_w, 0}, std::pair{&Conv2dParams::stride_h, 0}, std::pair{&Conv2dParams::n, -1}}) {
    p = good;
    p.*member = value;
    REQUIRE(supported(p) == 0);
    REQUIRE(kernels::conv2d(Conv2dVariant::Direct, p, nullptr, nullptr, nullptr, nullptr, nullptr, {}) ==
            cudaErrorInvalidValue);
  }
  REQUIRE_FALSE(kernels::supports(Conv2dVariant::Direct, good, kernels::traits_of(70, 132)));

  Conv2dParams exact = stem(Elem::F32, Input::NhwcFloat, 1, 8, 8, 16, 2);
  REQUIRE(supported(exact) == 9);
  exact.elem = Elem::F64;  // neither the stems nor the largest tile
  REQUIRE(supported(exact) == 10);
  exact.input = Input::NhwcUint8;
  REQUIRE(supported(exact) == 0);
  exact = stem(Elem::F32, Input::NhwcElem, 1, 8, 8, 12, 2);
  exact.c_in = exact.groups = 2;  // six outputs each: no runs of four
  REQUIRE(supported(exact) == 1);
}

TEST_CASE("conv2d takes bytes once", "[race]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const Elem elem : kElems) check_bytes(stem(elem, Input::NhwcUint8, 2, 35, 18, 24, 2));
}

}  // namespace
}  // namespace mobicuda::test
