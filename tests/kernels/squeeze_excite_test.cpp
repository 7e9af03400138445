#include "kernels/squeeze_excite/squeeze_excite.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <span>

#include "kernels/race_case.h"
#include "support/activation.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/network_shapes.h"
#include "support/random.h"
#include "support/run_kernel.h"

namespace mobicuda::kernels {

static std::ostream& operator<<(std::ostream& out, const SqueezeExciteParams& p) {
  return out << test::to_string(p.elem) << " n" << p.n << ' ' << p.pixels << 'x' << p.c << " squeezed " << p.squeezed;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test {
namespace {

using kernels::Activation;
using kernels::ActivationKind;
using kernels::SqueezeExciteParams;
using kernels::SqueezeExciteVariant;

constexpr kernels::Clip kRelu{0.0F, std::numeric_limits<float>::infinity()};
constexpr kernels::Clip kUnit{0.0F, 1.0F};

std::size_t product(int a, int b, int c = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

SqueezeExciteParams make_params(Elem elem, int n, int pixels, int c, int squeezed, bool smooth) {
  SqueezeExciteParams p;
  p.elem = elem;
  p.n = n;
  p.pixels = pixels;
  p.c = c;
  p.squeezed = squeezed;
  p.squeeze_activation = smooth ? Activation(ActivationKind::Silu) : Activation(kRelu);
  p.gate_activation = smooth ? Activation(ActivationKind::Sigmoid) : Activation(kUnit);
  return p;
}

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, reduce, reduce_bias, expand, expand_bias;
};

Data random_data(const SqueezeExciteParams& p, std::uint32_t seed, bool biases = true) {
  Data data;
  data.x = rounded(p.elem, random_uniform(seed, product(p.n, p.pixels, p.c), -1.0F, 3.0F));
  data.reduce = rounded(p.elem, random_uniform(seed + 1, product(p.squeezed, p.c), -0.2F, 0.2F));
  data.expand = rounded(p.elem, random_uniform(seed + 2, product(p.c, p.squeezed)));
  if (!biases) return data;
  data.reduce_bias = random_uniform(seed + 3, static_cast<std::size_t>(p.squeezed));
  data.expand_bias = random_uniform(seed + 4, static_cast<std::size_t>(p.c));
  return data;
}

/// A value and what a float evaluation of it may err by, all but the rounding to storage.
struct Bounded {
  double value = 0.0;
  double error = 0.0;
};

/// activation(sum of factors * vector + bias), where the vector has errors of its own.
Bounded layer(const Activation& activation, const float* factors, std::size_t stride,
              const std::vector<Bounded>& vector, double bias) {
  double sum = bias;
  double magnitude = std::abs(bias);
  double carried = 0.0;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    const auto factor = static_cast<double>(factors[i * stride]);
    sum += factor * vector[i].value;
    magnitude += std::abs(factor) * (std::abs(vector[i].value) + vector[i].error);
    carried += std::abs(factor) * vector[i].error;
  }
  const double error = gamma(static_cast<std::int64_t>(vector.size())) * magnitude + carried;
  return {activate(activation, sum),
          largest_slope(activation) * error + evaluation_error(activation, std::abs(sum) + error)};
}

struct Expected {
  std::vector<double> value;
  std::vector<double> allowed;
};

Expected oracle(const SqueezeExciteParams& p, const Data& data) {
  const auto c = static_cast<std::size_t>(p.c);
  const auto squeezed = static_cast<std::size_t>(p.squeezed);
  const auto pixels = static_cast<std::size_t>(p.pixels);
  Expected expected;
  for (std::size_t n = 0; n < static_cast<std::size_t>(p.n); ++n) {
    const float* x = data.x.data() + n * pixels * c;
    std::vector<Bounded> mean(c);
    for (std::size_t i = 0; i < c; ++i) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
        sum += static_cast<double>(x[pixel * c + i]);
        magnitude += std::abs(static_cast<double>(x[pixel * c + i]));
      }
      const auto count = static_cast<double>(pixels);
      mean[i] = {sum / count, gamma(p.pixels) * magnitude / count};
    }
    std::vector<Bounded> s(squeezed);
    for (std::size_t j = 0; j < squeezed; ++j) {
      const double bias = data.reduce_bias.empty() ? 0.0 : static_cast<double>(data.reduce_bias[j]);
      s[j] = layer(p.squeeze_activation, data.reduce.data() + j * c, 1, mean, bias);
    }
    std::vector<Bounded> gate(c);
    for (std::size_t i = 0; i < c; ++i) {
      const double bias = data.expand_bias.empty() ? 0.0 : static_cast<double>(data.expand_bias[i]);
      gate[i] = layer(p.gate_activation, data.expand.data() + i * squeezed, 1, s, bias);
    }
    for (std::size_t i = 0; i < pixels * c; ++i) {
      const auto value = static_cast<double>(x[i]);
      const Bounded& g = gate[i % c];
      expected.value.push_back(value * g.value);
      const double error = std::abs(value) * (g.error + kUnitF32 * (std::abs(g.value) + g.error));
      expected.allowed.push_back(hard_bound(1.0, error, expected.value.back(), store_of(p.elem)));
    }
  }
  return expected;
}

class Device {
 public:
  Device(const SqueezeExciteParams& p, const Data& data) : params_(p), data_(data), x_(p.elem, data.x) {}

  std::vector<float> run(SqueezeExciteVariant variant) const {
    std::vector<std::byte> packed(kernels::squeeze_excite_packed_bytes(variant, params_));
    const auto pointer = [](const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
    kernels::squeeze_excite_pack(
        variant, params_,
        {data_.reduce.data(), pointer(data_.reduce_bias), data_.expand.data(), pointer(data_.expand_bias)},
        packed.data());
    const GuardedBuffer weights{std::span<const std::byte>(packed)};
    std::vector<float> y = run_kernel(params_.elem, data_.x.size(), 0, [&](void* out, const kernels::Launch& where) {
      return kernels::squeeze_excite(variant, params_, x_.data(), weights.data(), out, where);
    });
    CHECK(x_.check_unchanged());
    CHECK(weights.check_unchanged());
    return y;
  }

 private:
  SqueezeExciteParams params_;
  const Data& data_;
  DeviceTensor x_;
};

template <class Body>
int for_each_variant(const SqueezeExciteParams& p, const Body& body) {
  return for_each_supported(kernels::squeeze_excite_variants(), p, body);
}

void check(const SqueezeExciteParams& p, std::uint32_t seed, bool biases = true,
           std::span<const SqueezeExciteVariant> variants = kernels::squeeze_excite_variants()) {
  const Data data = random_data(p, seed, biases);
  const Expected expected = oracle(p, data);
  const Device device(p, data);
  const int shape[] = {p.n, p.pixels, p.c};
  for_each_supported(variants, p, [&](SqueezeExciteVariant variant) {
    CHECK(compare_elements(device.run(variant), expected.value, expected.allowed, shape));
  });
}

TEST_CASE("squeeze_excite equals the oracle on the blocks of MobileNetV3 and EfficientNet-B0") {
  MOBICUDA_SKIP_BELOW(90);
  const auto check_all = [](std::span<const GateLayer> layers) {
    for (const Elem elem : kElems) {
      for (const auto& [pixels, c, squeezed] : layers) {
        for (const bool smooth : {false, true}) check(make_params(elem, 2, pixels, c, squeezed, smooth), 100);
      }
    }
  };
  check_all(kGates);
  check_all(kMobileNetV3SmallGates);
}

TEST_CASE("squeeze_excite equals the oracle for every number of channels, pixels and squeezed channels", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  for (const Elem elem : kElems) {
    for (const int c : {8, 16, 24, 40, 72, 264, 512}) check(make_params(elem, 2, 21, c, 6, true), 200);
    for (const int pixels : {1, 2, 7, 8, 9, 15, 17, 257}) check(make_params(elem, 3, pixels, 24, 5, false), 300);
    for (const int squeezed : {1, 2, 3, 31, 64, 65, 255, 300}) check(make_params(elem, 1, 10, 80, squeezed, true), 400);
    check(make_params(elem, 2, 10, 80, 20, true), 500, false);
    check(make_params(elem, 0, 10, 80, 20, true), 600);
  }
}

TEST_CASE("squeeze_excite equals the oracle where a block has pixels for all its threads, and for more", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  for (const Elem elem : kElems) {
    for (const int pixels : {28, 29, 56, 57, 112, 113, 300}) check(make_params(elem, 1, pixels, 512, 6, true), 250);
  }
}

TEST_CASE("squeeze_excite equals the oracle where a cluster has several images", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  for (const Elem elem : kElems) check(make_params(elem, 150, 3, 64, 12, true), 650);
}

TEST_CASE("squeeze_excite gives a picture the same bits in every batch") {
  MOBICUDA_SKIP_BELOW(90);
  for (const Elem elem : kElems) {
    SqueezeExciteParams p = make_params(elem, 1100, 49, 96, 24, true);
    const Data all = random_data(p, 7);
    const Device together(p, all);
    p.n = 1;
    const auto picture = product(p.pixels, p.c);
    Data last = all;
    last.x.assign(all.x.end() - static_cast<std::ptrdiff_t>(picture), all.x.end());
    const Device alone(p, last);
    for_each_variant(p, [&](SqueezeExciteVariant variant) {
      const std::vector<float> y = together.run(variant);
      const std::vector<float> of_last(y.end() - static_cast<std::ptrdiff_t>(picture), y.end());
      CHECK(compare_bits(alone.run(variant), of_last));
    });
  }
}

TEST_CASE("squeeze_excite keeps NaN within its picture", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  const SqueezeExciteParams p = make_params(Elem::F16, 3, 20, 16, 4, true);
  Data data = random_data(p, 8);
  data.x[product(20, 16) + 35] = std::numeric_limits<float>::quiet_NaN();
  const Device device(p, data);
  for_each_variant(p, [&](SqueezeExciteVariant variant) {
    const std::vector<float> y = device.run(variant);
    for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i / product(20, 16) == 1));
  });
}

TEST_CASE("squeeze_excite says what it supports, and refuses the rest") {
  constexpr kernels::DeviceTraits kHopper = kernels::traits_of(90, 132);
  const SqueezeExciteParams good = make_params(Elem::F16, 1, 49, 96, 24, true);
  const auto supported = [&](const SqueezeExciteParams& p, const kernels::DeviceTraits& gpu) {
    int count = 0;
    for (const SqueezeExciteVariant v : kernels::squeeze_excite_variants()) count += supports(v, p, gpu) ? 1 : 0;
    return count;
  };
  const int all = static_cast<int>(kernels::squeeze_excite_variants().size());
  CHECK(supported(good, kHopper) == all);
  CHECK(supported(good, kernels::traits_of(89, 58)) == 0);
  SqueezeExciteParams p = good;
  p.elem = Elem::F64;
  CHECK(supported(p, kHopper) == 0);
  p = good;
  p.c = 100;
  CHECK(supported(p, kHopper) == 0);
  p = good;
  p.squeezed = 1200;  // matrices of 225 KB each: a fourth of both fits shared memory, with the sums of all ranks
  CHECK(supported(p, kHopper) == 2);
  p = good;
  p.c = 1152;
  p.squeezed = 48;  // of 108 KB
  CHECK(supported(p, kHopper) == 3);
  p = good;
  p.c = 8;  // one packet: no slices
  CHECK(supported(p, kHopper) == 4);
  p = good;
  p.pixels = 1 << 24;
  CHECK(supported(p, kHopper) == all);
  ++p.pixels;
  CHECK(supported(p, kHopper) == 0);
  p = good;
  p.n = -1;
  CHECK(kernels::squeeze_excite(SqueezeExciteVariant::Slices2, p, nullptr, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
}

TEST_CASE("squeeze_excite: every variant once", "[race]") {
  race_case::EachOnce<SqueezeExciteVariant> each(kernels::squeeze_excite_variants());
  for (const Elem elem : kElems) {
    each.run(std::vector{make_params(elem, 3, 57, 264, 31, true)},
             [](const SqueezeExciteParams& p, std::span<const SqueezeExciteVariant> its) { check(p, 700, true, its); });
  }
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
