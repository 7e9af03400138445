#include "kernels/gated_pointwise/gated_pointwise.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <span>

#include "kernels/chained_oracle.h"
#include "kernels/race_case.h"
#include "support/activation.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/network_shapes.h"
#include "support/random.h"
#include "support/run_kernel.h"

namespace mobicuda::kernels {

static std::ostream& operator<<(std::ostream& out, const GatedPointwiseParams& p) {
  return out << 'n' << p.n << ' ' << p.pixels << 'x' << p.c << " squeezed " << p.squeezed << " to " << p.out
             << " residual " << p.residual << ' ' << p.activation;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test {
namespace {

using kernels::Activation;
using kernels::ActivationKind;
using kernels::GatedPointwiseParams;
using kernels::GatedPointwiseVariant;

constexpr kernels::Clip kRelu{0.0F, std::numeric_limits<float>::infinity()};
constexpr kernels::Clip kUnit{0.0F, 1.0F};

std::size_t product(int a, int b, int c = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

GatedPointwiseParams make_params(int n, int pixels, int c, int squeezed, int out, bool smooth, bool residual) {
  GatedPointwiseParams p;
  p.n = n;
  p.pixels = pixels;
  p.c = c;
  p.squeezed = squeezed;
  p.out = out;
  p.residual = residual;
  p.squeeze_activation = smooth ? Activation(ActivationKind::Silu) : Activation(kRelu);
  p.gate_activation = smooth ? Activation(ActivationKind::Sigmoid) : Activation(kUnit);
  return p;
}

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, reduce, reduce_bias, expand, expand_bias, weight, bias, residual;
};

/// `biases`: whether there are any.
Data random_data(const GatedPointwiseParams& p, std::uint32_t seed, bool biases = true) {
  Data data;
  const auto halves = [](const std::vector<float>& values) { return rounded(Elem::F16, values); };
  data.x = halves(random_uniform(seed, product(p.n, p.pixels, p.c), -1.0F, 3.0F));
  data.reduce = halves(random_uniform(seed + 1, product(p.squeezed, p.c), -0.2F, 0.2F));
  data.expand = halves(random_uniform(seed + 2, product(p.c, p.squeezed)));
  data.weight = halves(random_uniform(seed + 3, product(p.out, p.c)));
  if (p.residual) data.residual = halves(random_uniform(seed + 4, product(p.n, p.pixels, p.out)));
  if (!biases) return data;
  data.reduce_bias = random_uniform(seed + 5, static_cast<std::size_t>(p.squeezed));
  data.expand_bias = random_uniform(seed + 6, static_cast<std::size_t>(p.c));
  data.bias = random_uniform(seed + 7, static_cast<std::size_t>(p.out));
  return data;
}

/// Whole numbers, whose means, where pixels are a power of two up to 64, gates and products are exact.
Data whole_data(const GatedPointwiseParams& p, std::uint32_t seed) {
  Data data;
  data.x = random_integers(seed, product(p.n, p.pixels, p.c));
  data.reduce = random_integers(seed + 1, product(p.squeezed, p.c));
  data.expand = random_integers(seed + 2, product(p.c, p.squeezed));
  data.weight = random_integers(seed + 3, product(p.out, p.c));
  if (p.residual) data.residual = random_integers(seed + 4, product(p.n, p.pixels, p.out));
  data.reduce_bias = random_integers(seed + 5, static_cast<std::size_t>(p.squeezed));
  data.expand_bias = random_integers(seed + 6, static_cast<std::size_t>(p.c));
  data.bias = random_integers(seed + 7, static_cast<std::size_t>(p.out));
  return data;
}

double at_or_zero(const std::vector<float>& values, std::size_t i) {
  return values.empty() ? 0.0 : static_cast<double>(values[i]);
}

/// A value and what an evaluation of it may err by.
struct Bounded {
  double value = 0.0;
  double error = 0.0;
};

/// activation(sum of factors * vector + more), where the vector has errors of its own, without the rounding to storage.
Bounded layer(const Activation& activation, double gamma, const float* factors, std::span<const Bounded> vector,
              std::initializer_list<double> more) {
  double sum = 0.0;
  double magnitude = 0.0;
  double carried = 0.0;
  for (const double term : more) {
    sum += term;
    magnitude += std::abs(term);
  }
  for (std::size_t i = 0; i < vector.size(); ++i) {
    const auto factor = static_cast<double>(factors[i]);
    sum += factor * vector[i].value;
    magnitude += std::abs(factor) * (std::abs(vector[i].value) + vector[i].error);
    carried += std::abs(factor) * vector[i].error;
  }
  const double error = gamma * magnitude + carried;
  return {activate(activation, sum),
          largest_slope(activation) * error + evaluation_error(activation, std::abs(sum) + error)};
}

struct Expected {
  std::vector<double> value;
  std::vector<double> allowed;
};

std::vector<Bounded> gates_of(const GatedPointwiseParams& p, const Data& data, const float* x) {
  const auto c = static_cast<std::size_t>(p.c);
  std::vector<Bounded> mean(c);
  for (std::size_t i = 0; i < c; ++i) {
    double sum = 0.0;
    double magnitude = 0.0;
    for (std::size_t pixel = 0; pixel < static_cast<std::size_t>(p.pixels); ++pixel) {
      sum += static_cast<double>(x[pixel * c + i]);
      magnitude += std::abs(static_cast<double>(x[pixel * c + i]));
    }
    const auto count = static_cast<double>(p.pixels);
    mean[i] = {sum / count, gamma(p.pixels) * magnitude / count};
  }
  const auto squeezed = static_cast<std::size_t>(p.squeezed);
  std::vector<Bounded> s(squeezed);
  for (std::size_t j = 0; j < squeezed; ++j) {
    s[j] = layer(p.squeeze_activation, gamma(p.c), data.reduce.data() + j * c, mean, {at_or_zero(data.reduce_bias, j)});
  }
  std::vector<Bounded> gates(c);
  for (std::size_t i = 0; i < c; ++i) {
    gates[i] = layer(p.gate_activation, gamma(p.squeezed), data.expand.data() + i * squeezed, s,
                     {at_or_zero(data.expand_bias, i)});
  }
  return gates;
}

Expected oracle(const GatedPointwiseParams& p, const Data& data) {
  const auto c = static_cast<std::size_t>(p.c);
  const auto out = static_cast<std::size_t>(p.out);
  const auto pixels = static_cast<std::size_t>(p.pixels);
  Expected expected;
  for (std::size_t n = 0; n < static_cast<std::size_t>(p.n); ++n) {
    const float* image = data.x.data() + n * pixels * c;
    const std::vector<Bounded> gates = gates_of(p, data, image);
    std::vector<Bounded> gated(c);
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      for (std::size_t i = 0; i < c; ++i) {
        const auto x = static_cast<double>(image[pixel * c + i]);
        const double value = x * gates[i].value;
        const double error = std::abs(x) * (gates[i].error + kUnitF32 * (std::abs(gates[i].value) + gates[i].error));
        gated[i] = {value, hard_bound(1.0, error, value, kStoreF16)};
      }
      for (std::size_t o = 0; o < out; ++o) {
        const double residual = at_or_zero(data.residual, (n * pixels + pixel) * out + o);
        const Bounded y = layer(p.activation, gamma_tensor_core(p.c), data.weight.data() + o * c, gated,
                                {at_or_zero(data.bias, o), residual});
        expected.value.push_back(y.value);
        expected.allowed.push_back(hard_bound(1.0, y.error, y.value, kStoreF16));
      }
    }
  }
  return expected;
}

class Device {
 public:
  Device(const GatedPointwiseParams& p, const Data& data)
      : params_(p), data_(data), x_(Elem::F16, data.x), residual_(Elem::F16, data.residual) {}

  std::vector<float> run(GatedPointwiseVariant variant) const {
    std::vector<std::byte> packed(kernels::gated_pointwise_packed_bytes(variant, params_));
    const auto pointer = [](const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
    kernels::gated_pointwise_pack(variant, params_,
                                  {data_.reduce.data(), pointer(data_.reduce_bias), data_.expand.data(),
                                   pointer(data_.expand_bias), pointer(data_.bias)},
                                  packed.data());
    const GuardedBuffer weights{std::span<const std::byte>(packed)};
    packed.resize(kernels::gated_pointwise_projection_bytes(params_.out, params_.c));
    kernels::gated_pointwise_pack_projection(params_.out, params_.c, data_.weight.data(), packed.data());
    const GuardedBuffer projection{std::span<const std::byte>(packed)};
    std::vector<float> y = run_kernel(
        Elem::F16, product(params_.n, params_.pixels, params_.out), 0, [&](void* out, const kernels::Launch& where) {
          return kernels::gated_pointwise(variant, params_, x_.data(), weights.data(), projection.data(),
                                          residual_.data(), out, where);
        });
    CHECK(x_.check_unchanged());
    CHECK(residual_.check_unchanged());
    CHECK(weights.check_unchanged());
    CHECK(projection.check_unchanged());
    return y;
  }

 private:
  GatedPointwiseParams params_;
  const Data& data_;
  DeviceTensor x_, residual_;
};

template <class Body>
int for_each_variant(const GatedPointwiseParams& p, const Body& body) {
  return for_each_supported(kernels::gated_pointwise_variants(), p, body);
}

int check(const GatedPointwiseParams& p, std::uint32_t seed, bool biases = true,
          std::span<const GatedPointwiseVariant> variants = kernels::gated_pointwise_variants()) {
  const Data data = random_data(p, seed, biases);
  const Expected expected = oracle(p, data);
  const Device device(p, data);
  const int shape[] = {p.n, p.pixels, p.out};
  return for_each_supported(variants, p, [&](GatedPointwiseVariant variant) {
    CHECK(compare_elements(device.run(variant), expected.value, expected.allowed, shape));
  });
}

void check_whole(const GatedPointwiseParams& p, std::uint32_t seed) {
  const Data data = whole_data(p, seed);
  Expected expected = oracle(p, data);
  for (double& value : expected.value) value = chained::to_half(value);
  const Device device(p, data);
  const int shape[] = {p.n, p.pixels, p.out};
  for_each_variant(
      p, [&](GatedPointwiseVariant variant) { CHECK(compare_exact(device.run(variant), expected.value, shape)); });
}

TEST_CASE("gated_pointwise equals the oracle on the blocks of MobileNetV3 and EfficientNet-B0") {
  MOBICUDA_SKIP_BELOW(90);
  const auto check_all = [](std::span<const GatedLayer> layers) {
    for (const auto& [pixels, c, squeezed, out] : layers) {
      for (const bool smooth : {false, true}) {
        CHECK(check(make_params(2, pixels, c, squeezed, out, smooth, smooth), 100) > 0);
      }
    }
  };
  check_all(kGatedProjections);
  check_all(kMobileNetV3SmallGatedProjections);
}

TEST_CASE("gated_pointwise equals whole numbers to the bit", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  check_whole(make_params(1, 64, 40, 5, 24, false, true), 150);
  check_whole(make_params(2, 16, 16, 3, 40, false, false), 160);
  check_whole(make_params(1, 32, 80, 156, 8, false, true), 170);  // the ranks share the products of the gate
}

TEST_CASE("gated_pointwise equals the oracle for every number of channels, pixels and squeezed channels",
          "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  for (const int c : {8, 24, 136}) check(make_params(1, 21, c, 6, 16, true, true), 200);
  for (const int pixels : {1, 7, 17, 130}) check(make_params(2, pixels, 24, 5, 8, false, false), 300);
  for (const int squeezed : {1, 9, 64}) check(make_params(1, 10, 40, squeezed, 24, true, false), 400);
  for (const int squeezed : {155, 160}) check(make_params(1, 19, 88, squeezed, 8, true, true), 450);
  check(make_params(1, 10, 40, 20, 24, true, true), 500, false);
  check(make_params(0, 10, 80, 20, 16, true, true), 600);
}

TEST_CASE("gated_pointwise equals the oracle for every number of output channels", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  for (const int out : {8, 24, 136}) {
    for (const int pixels : {33, 200, 520}) check(make_params(1, pixels, 56, 6, out, true, true), 620);
  }
}

TEST_CASE("gated_pointwise equals the oracle with every activation", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  std::vector<Activation> all = curved_activations();
  all.emplace_back(kernels::Clip{0.0F, 6.0F});
  for (const Activation& activation : all) {
    GatedPointwiseParams p = make_params(1, 5, 16, 3, 8, true, true);
    p.activation = activation;
    check(p, 640);
    p.squeeze_activation = p.gate_activation = activation;
    p.activation = {};
    check(p, 645);
  }
}

TEST_CASE("gated_pointwise equals the oracle where a cluster has several images", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  check(make_params(50, 3, 16, 4, 8, true, true), 650);
  check(make_params(20, 3, 64, 480, 8, true, false), 660);  // heavy matrices, and few blocks on an SM
}

TEST_CASE("gated_pointwise gives a picture the same bits in every batch") {
  MOBICUDA_SKIP_BELOW(90);
  for (const int squeezed : {24, 136}) {
    GatedPointwiseParams p = make_params(1100, 49, 96, squeezed, 40, true, true);
    const Data all = random_data(p, 7);
    const Device together(p, all);
    p.n = 1;
    Data last = all;
    last.x.assign(all.x.end() - static_cast<std::ptrdiff_t>(product(p.pixels, p.c)), all.x.end());
    const auto picture = static_cast<std::ptrdiff_t>(product(p.pixels, p.out));
    last.residual.assign(all.residual.end() - picture, all.residual.end());
    const Device alone(p, last);
    for_each_variant(p, [&](GatedPointwiseVariant variant) {
      const std::vector<float> y = together.run(variant);
      const std::vector<float> of_last(y.end() - picture, y.end());
      CHECK(compare_bits(alone.run(variant), of_last));
    });
  }
}

TEST_CASE("gated_pointwise keeps NaN within its picture", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  const GatedPointwiseParams p = make_params(3, 20, 16, 4, 8, true, false);
  Data data = random_data(p, 8);
  data.x[product(20, 16) + 35] = std::numeric_limits<float>::quiet_NaN();
  const Device device(p, data);
  for_each_variant(p, [&](GatedPointwiseVariant variant) {
    const std::vector<float> y = device.run(variant);
    for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i / product(20, 8) == 1));
  });
}

TEST_CASE("gated_pointwise says what it supports, and refuses the rest") {
  constexpr kernels::DeviceTraits kHopper = kernels::traits_of(90, 132);
  const GatedPointwiseParams good = make_params(1, 49, 96, 24, 40, true, true);
  const auto supported = [&](const GatedPointwiseParams& p, const kernels::DeviceTraits& gpu) {
    int count = 0;
    for (const GatedPointwiseVariant v : kernels::gated_pointwise_variants()) count += supports(v, p, gpu) ? 1 : 0;
    return count;
  };
  const int all = static_cast<int>(kernels::gated_pointwise_variants().size());
  CHECK(supported(good, kHopper) == all);
  CHECK(supported(good, kernels::traits_of(89, 58)) == 0);
  const auto with = [&](auto member, auto value) {
    GatedPointwiseParams p = good;
    p.*member = value;
    return supported(p, kHopper);
  };
  CHECK(with(&GatedPointwiseParams::elem, Elem::F32) == 0);
  CHECK(with(&GatedPointwiseParams::elem, Elem::F64) == 0);
  CHECK(with(&GatedPointwiseParams::c, 100) == 0);
  CHECK(with(&GatedPointwiseParams::c, 2056) == 0);
  CHECK(with(&GatedPointwiseParams::out, 44) == 0);
  CHECK(with(&GatedPointwiseParams::pixels, 3136) == 2);  // 602 KB of x
  CHECK(with(&GatedPointwiseParams::pixels, 12544) == 0);
  CHECK(with(&GatedPointwiseParams::n, -1) == 0);
  const auto check_largest = [&](std::span<const GatedLayer> layers) {
    for (const auto& [pixels, c, squeezed, out] : layers) {
      CAPTURE(pixels, c, squeezed, out);
      CHECK(supports(GatedPointwiseVariant::Bands8, make_params(64, pixels, c, squeezed, out, true, true), kHopper));
    }
  };
  check_largest(kGatedProjections);
  check_largest(kMobileNetV3SmallGatedProjections);
  GatedPointwiseParams p = good;
  p.n = -1;
  CHECK(kernels::gated_pointwise(GatedPointwiseVariant::Bands2, p, nullptr, nullptr, nullptr, nullptr, nullptr, {}) ==
        cudaErrorInvalidValue);
}

TEST_CASE("gated_pointwise: every variant once", "[race]") {
  race_case::EachOnce<GatedPointwiseVariant> each(kernels::gated_pointwise_variants());
  for (const int squeezed : {31, 100}) {  // 100: matrices of more than 48 KB
    each.run(
        std::vector{make_params(3, 57, 136, squeezed, 24, true, true)},
        [](const GatedPointwiseParams& p, std::span<const GatedPointwiseVariant> its) { check(p, 700, true, its); });
  }
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
