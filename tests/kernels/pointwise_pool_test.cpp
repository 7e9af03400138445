#include "kernels/pointwise_pool/pointwise_pool.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/race_case.h"
#include "support/activation.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/device_tensor.h"
#include "support/emulated.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

static std::ostream& operator<<(std::ostream& out, const PointwisePoolParams& p) {
  return out << test::to_string(p.elem) << " n" << p.n << " pixels " << p.pixels << " " << p.c_in << " -> " << p.c
             << " bias " << p.bias << ' ' << p.activation;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test {
namespace {

using kernels::Clip;
using kernels::PointwisePoolParams;
using kernels::PointwisePoolVariant;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t product(int a, int b, int c = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

std::size_t input_count(const PointwisePoolParams& p) { return product(p.n, p.pixels, p.c_in); }
std::size_t output_count(const PointwisePoolParams& p) { return product(p.n, p.c); }

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, weight, bias;
};

Data random_data(const PointwisePoolParams& p, std::uint32_t seed) {
  Data data;
  data.x = rounded(p.elem, random_uniform(seed, input_count(p)));
  data.weight = rounded(p.elem, random_uniform(seed + 1, product(p.c, p.c_in)));
  if (p.bias) data.bias = random_uniform(seed + 2, static_cast<std::size_t>(p.c));
  return data;
}

Data integer_data(const PointwisePoolParams& p, std::uint32_t seed) {
  Data data{random_integers(seed, input_count(p)), random_integers(seed + 1, product(p.c, p.c_in)), {}};
  if (p.bias) data.bias = random_integers(seed + 2, static_cast<std::size_t>(p.c));
  return data;
}

struct Expected {
  std::vector<double> value, bound;
};

Expected expected_of(const PointwisePoolParams& p, const Data& data) {
  const Oracle pixels = gemm(p.n * p.pixels, p.c, p.c_in, {}, data.x, data.weight, data.bias);
  const double pixel_gamma = p.elem == Elem::F32 ? gamma(p.c_in) : gamma_tensor_core(p.c_in);
  const double mean_gamma = gamma(p.pixels);
  const auto channels = static_cast<std::size_t>(p.c);
  const auto count = static_cast<std::size_t>(p.pixels);
  Expected expected;
  for (std::size_t n = 0; n < static_cast<std::size_t>(p.n); ++n) {
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0.0;
      double error = 0.0;
      for (std::size_t pixel = 0; pixel < count; ++pixel) {
        const std::size_t at = (n * count + pixel) * channels + c;
        const double sum_error = pixel_gamma * pixels.magnitude[at];
        const double inherited = largest_slope(p.activation) * sum_error +
                                 evaluation_error(p.activation, std::abs(pixels.value[at]) + sum_error);
        const double value = activate(p.activation, pixels.value[at]);
        sum += value;
        error += inherited + mean_gamma * (std::abs(value) + inherited);
      }
      const double mean = sum / p.pixels;
      expected.value.push_back(mean);
      expected.bound.push_back(hard_bound(1.0, error / p.pixels, mean, store_of(p.elem)));
    }
  }
  return expected;
}

/// The inputs on the GPU, for all variants.
class Device {
 public:
  Device(const PointwisePoolParams& p, const Data& data)
      : params_(p), x_(p.elem, data.x), packed_(pack(p, data.weight)), bias_(Elem::F32, data.bias) {}

  std::vector<float> run(PointwisePoolVariant variant) const {
    std::vector<float> y =
        run_kernel(params_.elem, output_count(params_), 0, [&](void* out, const kernels::Launch& where) {
          return kernels::pointwise_pool(variant, params_, x_.data(), packed_.data(), bias_.floats(), out, where);
        });
    CHECK(x_.check_unchanged());
    CHECK(packed_.check_unchanged());
    CHECK(bias_.check_unchanged());
    return y;
  }

 private:
  static GuardedBuffer pack(const PointwisePoolParams& p, const std::vector<float>& weight) {
    std::vector<std::byte> packed(kernels::gemm_packed_bytes(p.elem, p.c, p.c_in));
    kernels::gemm_pack(p.elem, p.c, p.c_in, weight.data(), packed.data());
    return GuardedBuffer(packed);
  }

  PointwisePoolParams params_;
  DeviceTensor x_;
  GuardedBuffer packed_;
  DeviceTensor bias_;
};

template <class Body>
int for_each_variant(const PointwisePoolParams& p, const Body& body) {
  return for_each_supported(kernels::pointwise_pool_variants(), p, body);
}

int supported(const PointwisePoolParams& p) {
  return for_each_variant(p, [](PointwisePoolVariant) {});
}

void check_against_oracle(const PointwisePoolParams& p, const Data& data,
                          std::span<const PointwisePoolVariant> variants = kernels::pointwise_pool_variants()) {
  const Expected expected = expected_of(p, data);
  const int shape[] = {p.n, p.c};
  const Device device(p, data);
  for_each_supported(variants, p, [&](PointwisePoolVariant variant) {
    REQUIRE(compare_elements(device.run(variant), expected.value, expected.bound, shape));
  });
}

PointwisePoolParams make_params(Elem elem, int n, int pixels, int c_in, int c) {
  PointwisePoolParams p;
  p.elem = elem;
  p.n = n;
  p.pixels = pixels;
  p.c_in = c_in;
  p.c = c;
  p.bias = true;
  p.activation = Clip{0.0F, 6.0F};
  return p;
}

TEST_CASE("pointwise_pool equals the oracle on the head of MobileNetV2") {
  for (const Elem elem : kElems) {
    for (const int n : {1, 2, 8}) {
      const PointwisePoolParams p = make_params(elem, n, 49, 320, 1280);
      check_against_oracle(p, random_data(p, 10));
    }
  }
}

TEST_CASE("pointwise_pool equals the oracle on heads of other widths and sizes of images", "[sanitize]") {
  struct Head {
    int n, pixels, c_in, c;
  };
  // Groups of one image and of several, one round of them and several, the last one in part.
  constexpr Head kHeads[] = {{37, 4, 112, 136},  {33, 9, 320, 264},  {2, 16, 448, 256},  {19, 25, 416, 128},
                             {13, 36, 160, 384}, {11, 49, 448, 200}, {5, 64, 352, 1984}, {7, 81, 240, 128},
                             {9, 100, 448, 128}, {3, 196, 64, 128},  {3, 256, 512, 256}};
  for (const Head& head : kHeads) {
    PointwisePoolParams p = make_params(Elem::F16, head.n, head.pixels, head.c_in, head.c);
    check_against_oracle(p, random_data(p, 15));
  }
}

TEST_CASE("pointwise_pool equals the oracle with HardSwish and Silu", "[sanitize]") {
  struct Head {
    int n, pixels, c_in, c;
  };
  constexpr Head kHeads[] = {{1, 49, 160, 960}, {9, 49, 160, 960},  {1, 49, 320, 1280}, {7, 49, 320, 1280},
                             {5, 9, 96, 256},   {11, 25, 416, 128}, {3, 100, 448, 136}, {2, 256, 64, 128}};
  for (const kernels::ActivationKind kind : {kernels::ActivationKind::HardSwish, kernels::ActivationKind::Silu}) {
    for (const Head& head : kHeads) {
      PointwisePoolParams p = make_params(Elem::F16, head.n, head.pixels, head.c_in, head.c);
      p.activation = kernels::Activation(kind);
      p.bias = head.c != 256;
      if (gpu_traits().code >= 80) REQUIRE(supported(p) >= (gpu_traits().wgmma_code ? 2 : 1));
      check_against_oracle(p, random_data(p, 19));
    }
  }
  PointwisePoolParams p = make_params(Elem::F16, 2, 49, 320, 1280);
  p.activation = kernels::Activation(kernels::ActivationKind::Tanh);
  CHECK(supported(p) == 0);
  p.activation = kernels::Activation(kernels::ActivationKind::Silu);
  p.elem = Elem::F32;
  CHECK(supported(p) == 0);
}

TEST_CASE("pointwise_pool equals the oracle on random shapes", "[sanitize]") {
  const std::uint32_t shapes = when_emulated_fewer(60U);
  constexpr int kPixels[] = {1, 2, 9, 15, 16, 17, 25, 47, 48, 49, 100, 127, 128, 129, 256, 300};
  constexpr int kInputs[] = {8, 24, 32, 160, 312, 320, 328, 512, 640, 648};
  constexpr int kInputsF32[] = {4, 8, 12, 60, 64, 68, 160, 252, 316, 320};
  constexpr int kOutputs[] = {8, 16, 24, 32, 64, 96, 128, 256};
  Choice choose(3);
  const auto check = [&](Elem elem, const auto& inputs) {
    for (std::uint32_t i = 0; i < shapes; ++i) {
      PointwisePoolParams p = make_params(elem, 1 + choose.upto(4), choose(kPixels), choose(inputs), choose(kOutputs));
      p.bias = choose.flip();
      if (choose.flip()) p.activation = Clip{-kInfinity, kInfinity};
      CAPTURE(i);
      check_against_oracle(p, random_data(p, 100 + 10 * i));
    }
  };
  check(Elem::F16, kInputs);
  check(Elem::F32, kInputsF32);
}

TEST_CASE("pointwise_pool is exact on small whole numbers", "[sanitize][slow]") {
  // At most 16 in steps of 1 / 64: 11 bits, as half has.
  const auto check = [](Elem elem, int n, int pixels, int c_in) {
    PointwisePoolParams p = make_params(elem, n, pixels, c_in, 128);
    p.activation = Clip{-16.0F, 16.0F};
    const Data data = integer_data(p, 20);
    const Expected expected = expected_of(p, data);
    const int shape[] = {p.n, p.c};
    const Device device(p, data);
    for_each_variant(
        p, [&](PointwisePoolVariant variant) { REQUIRE(compare_exact(device.run(variant), expected.value, shape)); });
  };
  for (const int pixels : {1, 2, 4, 8, 16, 32, 64}) {
    for (int n = 1; n <= 8; ++n) {
      for (const int c_in : {8, 40, 320, 336}) check(Elem::F16, n, pixels, c_in);
      for (const int c_in : {4, 40, 320}) check(Elem::F32, n, pixels, c_in);
    }
  }
}

TEST_CASE("pointwise_pool takes more pictures than a grid's y dimension") {
  for (const Elem elem : kElems) {
    const PointwisePoolParams p = make_params(elem, 70001, 2, 8, 32);
    check_against_oracle(p, random_data(p, 30));
  }
}

TEST_CASE("pointwise_pool gives a picture the same bits in every batch and the same bits every time") {
  constexpr int kRepeats = 100;
  const Elem elem = GENERATE(Elem::F32, Elem::F16);
  PointwisePoolParams p = make_params(elem, 5, 49, 320, 256);
  const Data all = random_data(p, 40);
  const Device device(p, all);
  p.n = 1;
  Data first = all;
  first.x.resize(input_count(p));
  const Device alone(p, first);
  for_each_variant(p, [&](PointwisePoolVariant variant) {
    const std::vector<float> expected = device.run(variant);
    REQUIRE(compare_bits(alone.run(variant), std::span(expected.data(), output_count(p))));
    for (int i = 0; i < kRepeats; ++i) REQUIRE(compare_bits(device.run(variant), expected));
  });
}

TEST_CASE("pointwise_pool gives a picture the same bits wherever it lies among many") {
  constexpr int kDifferent = 3;
  const Elem elem = GENERATE(Elem::F32, Elem::F16);
  const int pixels = GENERATE(9, 49, 64);
  PointwisePoolParams p = make_params(elem, kDifferent, pixels, 320, 1280);
  const Data different = random_data(p, 60);
  const Device few(p, different);
  for (const int n : {16, 32, 63, 64, 129, 256, 300}) {
    p.n = n;
    Data many = different;
    many.x.resize(input_count(p));
    for (std::size_t i = different.x.size(); i < many.x.size(); ++i) many.x[i] = many.x[i - different.x.size()];
    const Device device(p, many);
    for_each_variant(p, [&](PointwisePoolVariant variant) {
      std::vector<float> expected = few.run(variant);
      const std::size_t period = expected.size();
      expected.resize(output_count(p));
      for (std::size_t i = period; i < expected.size(); ++i) expected[i] = expected[i - period];
      REQUIRE(compare_bits(device.run(variant), expected));
    });
  }
}

TEST_CASE("pointwise_pool passes NaN and infinity on, to their picture only", "[sanitize]") {
  const Elem elem = GENERATE(Elem::F32, Elem::F16);
  PointwisePoolParams p = make_params(elem, 3, 49, 24, 256);
  p.activation = Clip{-kInfinity, kInfinity};
  Data data = random_data(p, 50);
  data.x[product(20, p.c_in)] = kNan;
  data.x[input_count(p) - 1] = kInfinity;
  check_against_oracle(p, data);
}

using Members = std::initializer_list<std::pair<int PointwisePoolParams::*, int>>;

/// That no variant takes `good` with one of the values instead, and that the launcher says so.
void check_refused(const PointwisePoolParams& good, Members values) {
  for (const auto& [member, value] : values) {
    PointwisePoolParams p = good;
    p.*member = value;
    CAPTURE(p);
    REQUIRE(supported(p) == 0);
    for (const PointwisePoolVariant variant : kernels::pointwise_pool_variants()) {
      REQUIRE(kernels::pointwise_pool(variant, p, nullptr, nullptr, nullptr, nullptr, {}) == cudaErrorInvalidValue);
    }
  }
}

TEST_CASE("pointwise_pool says what it supports in half, and refuses the rest") {
  MOBICUDA_SKIP_BELOW(80);
  const PointwisePoolParams good = make_params(Elem::F16, 1, 49, 320, 32);
  const int padded = gpu_traits().wgmma_code ? 1 : 0;
  REQUIRE(supported(good) == 3 + padded);
  PointwisePoolParams p = good;
  p.c = 8;
  REQUIRE(supported(p) == 1 + padded);
  p = good;
  p.pixels = 257;
  REQUIRE(supported(p) == 3);
  p = good;
  p.c_in = 520;
  REQUIRE(supported(p) == 3);
  p.c_in = 2560;
  REQUIRE(supported(p) == 2);
  check_refused(good, {{&PointwisePoolParams::n, -1},
                       {&PointwisePoolParams::pixels, 0},
                       {&PointwisePoolParams::pixels, 1 << 25},
                       {&PointwisePoolParams::c_in, 0},
                       {&PointwisePoolParams::c_in, 12},
                       {&PointwisePoolParams::c_in, 1 << 20},
                       {&PointwisePoolParams::c, 4}});
  REQUIRE_FALSE(kernels::supports(PointwisePoolVariant::Slice8, good, kernels::traits_of(75, 132)));
}

TEST_CASE("pointwise_pool says what it supports in float, and refuses the rest") {
  const PointwisePoolParams good = make_params(Elem::F32, 1, 49, 320, 32);
  REQUIRE(supported(good) == 2);
  PointwisePoolParams p = good;
  p.c = 8;
  REQUIRE(supported(p) == 1);
  p = good;
  p.c_in = 316;
  REQUIRE(supported(p) == 2);
  check_refused(good, {{&PointwisePoolParams::n, -1},
                       {&PointwisePoolParams::n, std::numeric_limits<int>::max()},
                       {&PointwisePoolParams::pixels, 0},
                       {&PointwisePoolParams::pixels, 1 << 25},
                       {&PointwisePoolParams::c_in, 0},
                       {&PointwisePoolParams::c_in, 318},
                       {&PointwisePoolParams::c_in, 324},
                       {&PointwisePoolParams::c, 4}});
  REQUIRE(kernels::supports(PointwisePoolVariant::SimtSlice16, good, kernels::traits_of(75, 132)));
  p = good;
  p.elem = Elem::F64;
  REQUIRE(supported(p) == 0);
}

/// Slices enough to wrap around the rings, then more pictures than a GPU takes at once.
TEST_CASE("pointwise_pool: every variant once with many channels and with many pictures", "[race]") {
  race_case::EachOnce<PointwisePoolVariant> each(kernels::pointwise_pool_variants());
  const auto check = [](const PointwisePoolParams& p, std::span<const PointwisePoolVariant> its) {
    check_against_oracle(p, random_data(p, 70), its);
  };
  each.run(std::vector{make_params(Elem::F16, 5, 49, 1024, 256), make_params(Elem::F16, 5, 49, 640, 256),
                       make_params(Elem::F16, 5, 49, 320, 256), make_params(Elem::F32, 5, 49, 320, 256)},
           check);
  each.run(std::vector{make_params(Elem::F16, 201, 49, 24, 256), make_params(Elem::F32, 201, 49, 24, 256)}, check);
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
