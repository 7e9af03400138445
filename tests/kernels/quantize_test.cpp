#include "kernels/streaming/quantize.h"

#include <cmath>
#include <vector>

#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/int8_data.h"
#include "support/random.h"

namespace mobicuda::test {
namespace {

using kernels::DequantizeParams;
using kernels::QuantizeParams;
using kernels::RequantizeParams;
using window_case::count_of;
using window_case::kInfinity;
using window_case::kNan;

struct Extents {
  int n, pixels, c, pitch;
};
constexpr Extents kExtents[] = {{1, 1, 1, 4},  {3, 40, 3, 4},  {2, 12, 4, 4},   {1, 8, 2, 4},
                                {2, 35, 3, 4}, {3, 9, 24, 32}, {2, 50, 16, 16}, {1, 7, 5, 16}};

std::size_t number_at(bool nchw, const Extents& e, int image, int pixel, int c) {
  return nchw ? count_of(image, e.c, e.pixels, 1) + count_of(c, e.pixels, 1, 1) + static_cast<std::size_t>(pixel)
              : count_of(image, e.pixels, e.c, 1) + count_of(pixel, e.c, 1, 1) + static_cast<std::size_t>(c);
}
std::size_t byte_at(const Extents& e, int pitch, int image, int pixel, int c) {
  return count_of(image, e.pixels, pitch, 1) + count_of(pixel, pitch, 1, 1) + static_cast<std::size_t>(c);
}

/// Calls body(image, pixel, channel) for all of a pitch.
template <class Body>
void for_each_byte(const Extents& e, int pitch, const Body& body) {
  for (int image = 0; image < e.n; ++image) {
    for (int pixel = 0; pixel < e.pixels; ++pixel) {
      for (int c = 0; c < pitch; ++c) body(image, pixel, c);
    }
  }
}

float quotient(float a, float b) {
  const volatile float result = a / b;
  return result;
}

void check_quantize(const QuantizeParams& p, const Extents& e, const std::vector<float>& x) {
  const GuardedBuffer in = on_device(x);
  Bytes expected(count_of(e.n, e.pixels, e.pitch, 1));
  for_each_byte(e, e.pitch, [&](int image, int pixel, int c) {
    float value = 0.0F;
    if (c < e.c) value = x[number_at(p.nchw, e, image, pixel, c)];
    const float v = quotient(value, p.scale);
    expected[byte_at(e, e.pitch, image, pixel, c)] =
        std::isnan(v) ? static_cast<std::int8_t>(p.result.low) : to_byte(p.result, v);
  });
  const Bytes y = run_on_bytes<std::int8_t>(expected.size(), [&](void* out, const kernels::Launch& where) {
    return kernels::quantize(p, static_cast<const float*>(in.data()), out, where);
  });
  CHECK(y == expected);
}

TEST_CASE("quantize equals the oracle in every bit", "[sanitize]") {
  std::uint32_t seed = 1;
  for (const Extents& e : kExtents) {
    for (const bool nchw : {false, true}) {
      for (const kernels::ByteRange& range : kByteRanges) {
        const std::vector<float> x = random_uniform(seed++, count_of(e.n, e.pixels, e.c, 1), -9.0F, 9.0F);
        check_quantize({nchw, e.n, e.pixels, e.c, e.pitch, 0.037F, range}, e, x);
      }
    }
  }
}

TEST_CASE("quantize rounds halves to even, saturates, and makes the lowest byte of NaN", "[sanitize]") {
  std::vector<float> x;
  for (int i = -300; i <= 300; ++i) x.push_back(static_cast<float>(i) * 0.25F);
  for (const float value : {kInfinity, -kInfinity, kNan, -0.0F, 1e-45F, 3e38F, -3e38F}) x.push_back(value);
  const Extents e{1, static_cast<int>(x.size()), 1, 4};
  for (const kernels::ByteRange& range : kByteRanges) {
    for (const float scale : {0.5F, 1.0F, 0.25F, 1e-38F, 1e30F}) {
      check_quantize({false, 1, e.pixels, 1, 4, scale, range}, e, x);
    }
  }
}

TEST_CASE("dequantize equals the oracle in every bit", "[sanitize]") {
  std::uint32_t seed = 100;
  for (const Extents& e : kExtents) {
    for (const bool nchw : {false, true}) {
      for (const int zero_point : {-128, 3, 127}) {
        const DequantizeParams p{nchw, e.n, e.pixels, e.c, e.pitch, 0.0371F, zero_point};
        const Bytes x = make_bytes(ByteData::Random, seed++, count_of(e.n, e.pixels, e.pitch, 1));
        const GuardedBuffer in = on_device(x);
        std::vector<float> expected(count_of(e.n, e.pixels, e.c, 1));
        for_each_byte(e, e.c, [&](int image, int pixel, int c) {
          const float whole = static_cast<float>(x[byte_at(e, e.pitch, image, pixel, c)] - zero_point);
          expected[number_at(nchw, e, image, pixel, c)] = product(whole, p.scale);
        });
        const std::vector<float> y = run_on_bytes<float>(expected.size(), [&](void* out, const kernels::Launch& where) {
          return kernels::dequantize(p, in.data(), static_cast<float*>(out), where);
        });
        CHECK(compare_bits(y, expected));
      }
    }
  }
}

TEST_CASE("requantize equals the oracle in every bit", "[sanitize]") {
  std::uint32_t seed = 200;
  for (const Extents& e : kExtents) {
    for (const kernels::ByteRange& range : kByteRanges) {
      for (const float scale : {0.5F, 1.7F, 1e-5F, 1e30F}) {
        for (const int y_pitch : {e.pitch, e.pitch + 32}) {
          const RequantizeParams p{e.n, e.pixels, e.c, e.pitch, y_pitch, scale, -5, range};
          const Bytes x = make_bytes(ByteData::Random, seed++, count_of(e.n, e.pixels, e.pitch, 1));
          const GuardedBuffer in = on_device(x);
          Bytes expected(count_of(e.n, e.pixels, y_pitch, 1));
          for_each_byte(e, y_pitch, [&](int image, int pixel, int c) {
            const float whole = c < e.c ? static_cast<float>(x[byte_at(e, e.pitch, image, pixel, c)] - p.x_zero) : 0.0F;
            expected[byte_at(e, y_pitch, image, pixel, c)] = to_byte(range, product(whole, scale));
          });
          const Bytes y = run_on_bytes<std::int8_t>(expected.size(), [&](void* out, const kernels::Launch& where) {
            return kernels::requantize(p, in.data(), out, where);
          });
          CHECK(y == expected);
        }
      }
    }
  }
}

TEST_CASE("quantize, dequantize and requantize refuse what they do not compute") {
  const auto refused = [](const QuantizeParams& p) {
    return kernels::quantize(p, nullptr, nullptr, {}) == cudaErrorInvalidValue;
  };
  CHECK(refused({false, -1, 1, 4, 4, 1.0F, {}}));
  CHECK(refused({false, 1, 1, 0, 4, 1.0F, {}}));
  CHECK(refused({false, 1, 1, 4, 6, 1.0F, {}}));
  CHECK(refused({false, 1, 1, 8, 4, 1.0F, {}}));
  CHECK(refused({false, 1, 1, 4, 4, 0.0F, {}}));
  CHECK(refused({false, 1, 1, 4, 4, kNan, {}}));
  CHECK(refused({false, 1, 1, 4, 4, kInfinity, {}}));
  CHECK(refused({false, 1, 1, 4, 4, 1.0F, {128, -128, 127}}));
  CHECK(refused({false, 1, 1, 4, 4, 1.0F, {0, 1, 0}}));
  CHECK(kernels::dequantize({false, 1, 1, 4, 4, 1.0F, 200}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::requantize({1, 1, 4, 4, 2, 1.0F, 0, {}}, nullptr, nullptr, {}) == cudaErrorInvalidValue);
  CHECK(kernels::quantize({false, 0, 1, 4, 4, 1.0F, {}}, nullptr, nullptr, {}) == cudaSuccess);
}

TEST_CASE("quantize once in each layout", "[race]") {
  const Extents e = kExtents[1];  // by four pixels where it is NCHW
  for (const bool nchw : {false, true}) {
    check_quantize({nchw, e.n, e.pixels, e.c, e.pitch, 0.05F, {}}, e,
                   random_uniform(7, count_of(e.n, e.pixels, e.c, 1), -9.0F, 9.0F));
  }
}

}  // namespace
}  // namespace mobicuda::test
