// Activations that are not a clip, in every kernel and variant that takes them.
#include "support/activation.h"

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/conv2d/conv2d.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/streaming/elementwise.h"
#include "kernels/streaming/extremum.h"
#include "kernels/streaming/multiply.h"
#include "support/catch.h"
#include "support/device_tensor.h"
#include "support/emulated.h"
#include "support/random.h"
#include "support/run_kernel.h"

namespace mobicuda::test {
namespace {

using kernels::Activation;

GuardedBuffer bytes_of(std::size_t count, const auto& fill) {
  std::vector<std::byte> packed(count);
  fill(packed.data());
  return GuardedBuffer(packed);
}

std::vector<float> scaled(std::vector<float> values, float factor) {
  for (float& value : values) value *= factor;
  return values;
}

/// Results of an activation of the stored x alone.
void check_activated(Elem elem, const Activation& activation, const std::vector<float>& x,
                     const std::vector<float>& y) {
  std::vector<double> expected;
  std::vector<double> allowed;
  for (const float value : x) {
    expected.push_back(activate(activation, static_cast<double>(value)));
    const double error = evaluation_error(activation, std::abs(static_cast<double>(value)));
    allowed.push_back(std::isfinite(error) ? hard_bound(1.0, error, expected.back(), store_of(elem)) : 0.0);
  }
  CHECK(compare_elements(y, expected, allowed));
}

std::vector<float> run_add_zero(Elem elem, const Activation& activation, const std::vector<float>& x) {
  const DeviceTensor left(elem, x);
  const DeviceTensor right(elem, std::vector<float>(x.size(), 0.0F));
  return run_kernel(elem, x.size(), 0, [&](void* y, const kernels::Launch& where) {
    return kernels::add(elem, static_cast<std::int64_t>(x.size()), activation, left.data(), right.data(), y, where);
  });
}

TEST_CASE("activations of every half, NaN and infinity among them") {
  std::vector<float> all;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    all.push_back(__half2float(std::bit_cast<__half>(word)));
  }
  for (const Activation& activation : curved_activations()) {
    CAPTURE(activation);
    check_activated(Elem::F16, activation, all, run_add_zero(Elem::F16, activation, all));
  }
}

TEST_CASE("activations of floats small and large", "[sanitize]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.0F,   kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                            1e38F,  -1e38F,    88.7F,      -88.7F,
                            -87.3F, -104.0F,   0x1p-140F,  -0x1p-140F};
  for (const float range : {1e-6F, 0.5F, 3.0F, 20.0F, 120.0F}) {
    const auto part = random_uniform(11, 1000, -range, range);
    values.insert(values.end(), part.begin(), part.end());
  }
  for (const Activation& activation : curved_activations()) {
    CAPTURE(activation);
    check_activated(Elem::F32, activation, values, run_add_zero(Elem::F32, activation, values));
  }
}

TEST_CASE(
    "add, multiply, extremum and scale_shift apply every activation, 16 bytes at a time and one element at a time",
    "[sanitize]") {
  constexpr int kChannels = 24;
  constexpr std::size_t kCount = 7 * kChannels;
  for (const Elem elem : kElems) {
    for (const std::size_t misalign : {0U, 1U}) {
      for (const Activation& activation : curved_activations()) {
        CAPTURE(to_string(elem), misalign, activation);
        const auto a = rounded(elem, random_uniform(1, kCount, -6.0F, 6.0F));
        const auto b = rounded(elem, random_uniform(2, kCount, -6.0F, 6.0F));
        const auto scale = random_uniform(3, kChannels);
        const auto shift = random_uniform(4, kChannels);
        Oracle sum;
        Oracle affine;
        Oracle product;
        Oracle larger;
        for (std::size_t i = 0; i < kCount; ++i) {
          const auto left = static_cast<double>(a[i]);
          const auto right = static_cast<double>(b[i]);
          sum.value.push_back(left + right);
          sum.magnitude.push_back(std::abs(left) + std::abs(right));
          product.value.push_back(left * right);
          product.magnitude.push_back(std::abs(left * right));
          larger.value.push_back(std::max(left, right));
          larger.magnitude.push_back(std::abs(larger.value.back()));
          const double moved = static_cast<double>(scale[i % kChannels]) * left;
          affine.value.push_back(moved + static_cast<double>(shift[i % kChannels]));
          affine.magnitude.push_back(std::abs(moved) + std::abs(static_cast<double>(shift[i % kChannels])));
        }
        const DeviceTensor left(elem, a, misalign);
        const DeviceTensor right(elem, b, misalign);
        const DeviceTensor scales(Elem::F32, scale);
        const DeviceTensor shifts(Elem::F32, shift);
        const auto added = run_kernel(elem, kCount, misalign, [&](void* y, const kernels::Launch& where) {
          return kernels::add(elem, kCount, activation, left.data(), right.data(), y, where);
        });
        const ActivatedOracle of_sum(activation, sum, gamma(1), store_of(elem));
        CHECK(compare_elements(added, of_sum.value, of_sum.allowed));
        kernels::MultiplyParams factors;
        factors.elem = elem;
        factors.activation = activation;
        factors.axes = 1;
        factors.extent[0] = kCount;
        factors.b_stride[0] = 1;
        const auto multiplied = run_kernel(elem, kCount, misalign, [&](void* y, const kernels::Launch& where) {
          return kernels::multiply(factors, left.data(), right.data(), y, where);
        });
        const ActivatedOracle of_product(activation, product, gamma(1), store_of(elem));
        CHECK(compare_elements(multiplied, of_product.value, of_product.allowed));
        const kernels::Broadcast& pair = factors;
        const kernels::ExtremumParams operands{pair, elem, true, activation};
        const auto largest = run_kernel(elem, kCount, misalign, [&](void* y, const kernels::Launch& where) {
          return kernels::extremum(operands, left.data(), right.data(), y, where);
        });
        const ActivatedOracle of_larger(activation, larger, 0.0, store_of(elem));
        CHECK(compare_elements(largest, of_larger.value, of_larger.allowed));
        const auto moved = run_kernel(elem, kCount, misalign, [&](void* y, const kernels::Launch& where) {
          return kernels::scale_shift(elem, kCount / kChannels, kChannels, activation, left.data(), scales.floats(),
                                      shifts.floats(), y, where);
        });
        const ActivatedOracle of_affine(activation, affine, gamma(1), store_of(elem));
        CHECK(compare_elements(moved, of_affine.value, of_affine.allowed));
      }
    }
  }
}

TEST_CASE("every gemm variant applies every activation behind bias and residual", "[sanitize]") {
  for (const Elem elem : kElems) {
    // Of 72 columns without a residual whole rows are written.
    for (const auto& [rows, columns] : {std::pair{3, 75}, {130, 75}, {130, 72}}) {
      for (const Activation& activation : curved_activations()) {
        // Many rows differ from few in what they read and write, not in what they apply.
        if (is_emulated() && rows > 3 && activation.kind != curved_activations().front().kind) continue;
        kernels::GemmParams p;
        p.elem = elem;
        p.m = rows;
        p.n = columns;
        p.k = 40;
        p.bias = true;
        p.residual = columns == 75;
        p.activation = activation;
        const auto count = [](int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
        const auto x = rounded(elem, random_uniform(1, count(p.m, p.k)));
        const auto w = rounded(elem, random_uniform(2, count(p.n, p.k)));
        const auto bias = random_uniform(3, count(1, p.n));
        const auto residual = rounded(elem, random_uniform(4, count(p.m, p.n)));
        const DeviceTensor x_there(elem, x);
        const DeviceTensor bias_there(Elem::F32, bias);
        const DeviceTensor residual_there(elem, residual);
        const GuardedBuffer packed = bytes_of(kernels::gemm_packed_bytes(elem, p.n, p.k),
                                              [&](std::byte* to) { kernels::gemm_pack(elem, p.n, p.k, w.data(), to); });
        const Oracle sum = gemm(p.m, p.n, p.k, {}, x, w, bias, p.residual ? residual : std::vector<float>());
        const double error = elem == Elem::F16 ? gamma_tensor_core(p.k) : gamma(p.k);
        for (const Elem output : kElems) {
          if (output == Elem::F16 && elem == Elem::F32) continue;
          p.output = output;
          const ActivatedOracle expected(activation, sum, error, store_of(output));
          for (const kernels::GemmVariant variant : kernels::gemm_variants()) {
            if (!kernels::supports(variant, p, gpu_traits())) continue;
            CAPTURE(kernels::name(variant), to_string(elem), to_string(output), p.m, p.n, activation);
            const auto y = run_kernel(output, count(p.m, p.n), 0, [&](void* to, const kernels::Launch& where) {
              return kernels::gemm(variant, p, x_there.data(), packed.data(), bias_there.floats(),
                                   residual_there.data(), to, where);
            });
            CHECK(compare_elements(y, expected.value, expected.allowed));
          }
        }
      }
    }
  }
}

/// 9x8 pictures of 16 channels, window of `kernel` with padding that keeps the size.
template <class Params>
OracleConv set_shape(Params& p, Elem elem, int kernel, int stride) {
  OracleConv o;
  p.elem = elem;
  p.n = o.n = 2;
  p.h = o.h = 9;
  p.w = o.w = 8;
  o.c_in = o.c_out = 16;
  p.kernel_h = p.kernel_w = o.kernel_h = o.kernel_w = kernel;
  p.stride_h = p.stride_w = o.stride_h = o.stride_w = stride;
  p.pad_top = p.pad_left = o.pad_top = o.pad_left = kernel / 2;
  p.out_h = o.out_h = (o.h - 1) / stride + 1;
  p.out_w = o.out_w = (o.w - 1) / stride + 1;
  p.bias = true;
  return o;
}

std::size_t output_count(const OracleConv& o) { return static_cast<std::size_t>(o.n * o.out_h * o.out_w * o.c_out); }

TEST_CASE("every depthwise_conv variant applies every activation", "[sanitize]") {
  for (const Elem elem : kElems) {
    for (const auto& [kernel, stride] : {std::pair{3, 1}, {3, 2}, {5, 1}, {5, 2}}) {
      kernels::DepthwiseConvParams p;
      OracleConv o = set_shape(p, elem, kernel, stride);
      p.c = o.groups = 16;
      const auto taps = static_cast<std::size_t>(16 * kernel * kernel);
      const auto x = rounded(elem, random_uniform(1, static_cast<std::size_t>(o.n * o.h * o.w * o.c_in)));
      const auto w = rounded(elem, random_uniform(2, taps));
      const auto bias = scaled(random_uniform(3, 16), 3.0F);
      const DeviceTensor x_there(elem, x);
      const DeviceTensor bias_there(Elem::F32, bias);
      const GuardedBuffer packed =
          bytes_of(kernels::depthwise_conv_packed_bytes(elem, p.c, kernel, kernel),
                   [&](std::byte* to) { kernels::depthwise_conv_pack(elem, p.c, kernel, kernel, w.data(), to); });
      const Oracle sum = conv2d(o, x, w, bias);
      for (const Activation& activation : curved_activations()) {
        p.activation = activation;
        const ActivatedOracle expected(activation, sum, gamma(sum.products), store_of(elem));
        for (const kernels::DepthwiseConvVariant variant : kernels::depthwise_conv_variants()) {
          if (!kernels::supports(variant, p, gpu_traits())) continue;
          CAPTURE(kernels::name(variant), to_string(elem), kernel, stride, activation);
          const auto y = run_kernel(elem, output_count(o), 0, [&](void* to, const kernels::Launch& where) {
            return kernels::depthwise_conv(variant, p, x_there.data(), packed.data(), bias_there.floats(), to, where);
          });
          CHECK(compare_elements(y, expected.value, expected.allowed));
        }
      }
    }
  }
}

TEST_CASE("every conv2d variant applies every activation", "[sanitize]") {
  for (const Elem elem : kElems) {
    for (const auto& [c_in, stride] : {std::pair{3, 2}, {12, 2}, {16, 2}, {16, 1}}) {
      kernels::Conv2dParams p;
      OracleConv o = set_shape(p, elem, 3, stride);
      p.c_in = o.c_in = c_in;
      p.c_out = o.c_out;
      p.residual = true;
      const auto x = rounded(elem, random_uniform(1, static_cast<std::size_t>(o.n * o.h * o.w * o.c_in)));
      const auto w = rounded(elem, random_uniform(2, static_cast<std::size_t>(o.c_out * o.c_in * 9)));
      const auto bias = scaled(random_uniform(3, 16), 3.0F);
      const auto skip = rounded(elem, random_uniform(4, output_count(o)));
      const DeviceTensor x_there(elem, x);
      const DeviceTensor bias_there(Elem::F32, bias);
      const DeviceTensor residual_there(elem, skip);
      const GuardedBuffer packed =
          bytes_of(kernels::conv2d_packed_bytes(p), [&](std::byte* to) { kernels::conv2d_pack(p, w.data(), to); });
      for (const bool residual : {false, true}) {
        p.residual = residual;
        const Oracle sum = conv2d(o, x, w, bias, residual ? skip : std::vector<float>());
        // Some variants may sum on tensor cores.
        const double error = elem == Elem::F16 ? gamma_tensor_core(sum.products) : gamma(sum.products);
        for (const Activation& activation : curved_activations()) {
          p.activation = activation;
          const ActivatedOracle expected(activation, sum, error, store_of(elem));
          for (const kernels::Conv2dVariant variant : kernels::conv2d_variants()) {
            if (!kernels::supports(variant, p, gpu_traits())) continue;
            CAPTURE(kernels::name(variant), to_string(elem), c_in, stride, residual, activation);
            const auto y = run_kernel(elem, output_count(o), 0, [&](void* to, const kernels::Launch& where) {
              return kernels::conv2d(variant, p, x_there.data(), packed.data(), bias_there.floats(),
                                     residual_there.data(), to, where);
            });
            CHECK(compare_elements(y, expected.value, expected.allowed));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mobicuda::test
