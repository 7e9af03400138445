#include "kernels/streaming/int8_pooling.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/int8_data.h"

namespace mobicuda::test {
namespace {

using kernels::Int8PoolingParams;
using window_case::count_of;

Int8PoolingParams window(int n, int h, int w, int c, int size, int stride, int pad) {
  Int8PoolingParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c = c;
  p.kernel_h = p.kernel_w = size;
  p.stride_h = p.stride_w = stride;
  p.pad_top = p.pad_left = pad;
  p.out_h = (h + 2 * pad - size) / stride + 1;
  p.out_w = (w + 2 * pad - size) / stride + 1;
  p.x_pitch = p.y_pitch = kernels::round_up(c, kernels::kChannelStep);
  p.x_scale = 0.031F;
  p.y_scale = 0.027F;
  p.x_zero = -11;
  p.result = {5, -120, 120};
  return p;
}

Int8PoolingParams whole_map(int n, int h, int w, int c) {
  Int8PoolingParams p = window(n, h, w, c, 1, 1, 0);
  p.kernel_h = h;
  p.kernel_w = w;
  p.out_h = p.out_w = 1;
  return p;
}

float quotient(float a, float b) {
  const volatile float result = a / b;
  return result;
}

void check_pooling(const Int8PoolingParams& p, ByteData data = ByteData::Random) {
  const Bytes x = make_bytes(data, 5, count_of(p.n, p.h, p.w, p.x_pitch));
  const GuardedBuffer in = on_device(x);
  const int computed = std::min({p.x_pitch, p.y_pitch, kernels::round_up(p.c, kernels::kChannelStep)});
  Bytes expected(count_of(p.n, p.out_h, p.out_w, p.y_pitch), -1);
  for (std::size_t pixel = 0; pixel < count_of(p.n, p.out_h, p.out_w, 1); ++pixel) {
    const int ox = static_cast<int>(pixel % static_cast<std::size_t>(p.out_w));
    const int oy = static_cast<int>(pixel / static_cast<std::size_t>(p.out_w) % static_cast<std::size_t>(p.out_h));
    const auto image = static_cast<int>(pixel / count_of(1, p.out_h, p.out_w, 1));
    for (int c = 0; c < computed; ++c) {
      std::int64_t sum = 0;
      int largest = kernels::kLowestByte;
      int count = 0;
      for (int iy = std::max(oy * p.stride_h - p.pad_top, 0);
           iy < std::min(oy * p.stride_h - p.pad_top + p.kernel_h, p.h); ++iy) {
        for (int ix = std::max(ox * p.stride_w - p.pad_left, 0);
             ix < std::min(ox * p.stride_w - p.pad_left + p.kernel_w, p.w); ++ix) {
          const std::int8_t value = x[count_of(image, p.h, p.w, p.x_pitch) + count_of(iy, p.w, p.x_pitch, 1) +
                                      count_of(ix, p.x_pitch, 1, 1) + static_cast<std::size_t>(c)];
          sum += value - p.x_zero;
          largest = std::max<int>(largest, value);
          ++count;
        }
      }
      std::int8_t& to = expected[pixel * static_cast<std::size_t>(p.y_pitch) + static_cast<std::size_t>(c)];
      if (p.is_max) {
        to = static_cast<std::int8_t>(largest);
        continue;
      }
      const int divisor = p.count_padding ? p.kernel_h * p.kernel_w : count;
      const float factor = quotient(p.x_scale, product(p.y_scale, static_cast<float>(divisor)));
      to = to_byte(p.result, product(static_cast<float>(sum), factor));
    }
  }
  const Bytes y = run_on_bytes<std::int8_t>(expected.size(), [&](void* out, const kernels::Launch& where) {
    return kernels::int8_pooling(p, in.data(), out, where);
  });
  CAPTURE(p.is_max, p.n, p.h, p.w, p.c, p.kernel_h, p.stride_h, p.pad_top, p.count_padding);
  CHECK(y == expected);
}

TEST_CASE("int8_pooling of windows equals the oracle in every bit", "[sanitize]") {
  for (const bool is_max : {false, true}) {
    for (const bool count_padding : {false, true}) {
      for (const int c : {3, 16, 40}) {
        for (const auto& [size, stride, pad] : {std::array{3, 2, 1}, {2, 2, 0}, {5, 1, 2}}) {
          Int8PoolingParams p = window(2, 9, 8, c, size, stride, pad);
          p.is_max = is_max;
          p.count_padding = count_padding;
          check_pooling(p);
          p.y_pitch += 16;
          p.x_pitch += 4;
          check_pooling(p);
        }
      }
    }
  }
}

TEST_CASE("int8_pooling of many windows, sixteen channels a thread, equals the oracle in every bit", "[sanitize]") {
  for (const bool is_max : {false, true}) {
    Int8PoolingParams p = window(gpu_traits().multiprocessors, 30, 21, 72, 3, 2, 1);
    p.is_max = is_max;
    check_pooling(p);
    p.y_pitch += 16;
    p.x_pitch += 32;
    check_pooling(p);
  }
}

TEST_CASE("int8_pooling of whole maps equals the oracle in every bit", "[sanitize]") {
  for (const auto& [h, w] : {std::pair{1, 1}, {7, 7}, {5, 12}}) {
    for (const int c : {4, 80, 200}) check_pooling(whole_map(3, h, w, c));
  }
}

TEST_CASE("int8_pooling equals the oracle: extremes, zero points and ranges at both ends", "[sanitize]") {
  for (const kernels::ByteRange& range : kByteRanges) {
    for (const int x_zero : {-128, 0, 127}) {
      for (const ByteData data : kByteData) {
        Int8PoolingParams p = whole_map(1, 7, 7, 32);
        p.result = range;
        p.x_zero = x_zero;
        check_pooling(p, data);
        p.x_scale = p.y_scale = 1.0F;
        p.kernel_h = p.kernel_w = 2;  // quarters, among them halves
        p.out_h = p.out_w = 6;
        check_pooling(p, data);
      }
    }
  }
}

TEST_CASE("int8_pooling refuses what it does not compute") {
  const auto refused = [](const auto& change) {
    Int8PoolingParams p = window(1, 8, 8, 16, 3, 1, 1);
    change(p);
    return kernels::int8_pooling(p, nullptr, nullptr, {}) == cudaErrorInvalidValue;
  };
  CHECK(refused([](Int8PoolingParams& p) { p.n = -1; }));
  CHECK(refused([](Int8PoolingParams& p) { p.c = 0; }));
  CHECK(refused([](Int8PoolingParams& p) { p.x_pitch = 12; }));
  CHECK(refused([](Int8PoolingParams& p) { p.y_pitch = 18; }));
  CHECK(refused([](Int8PoolingParams& p) { p.pad_top = 3; }));
  CHECK(refused([](Int8PoolingParams& p) { p.out_w = 10; }));
  CHECK(refused([](Int8PoolingParams& p) { p.x_scale = 0.0F; }));
  CHECK(refused([](Int8PoolingParams& p) { p.x_zero = 130; }));
  CHECK(refused([](Int8PoolingParams& p) { p.result.high = 128; }));
  CHECK(refused([](Int8PoolingParams& p) { p.kernel_h = p.kernel_w = 5000; }));
}

TEST_CASE("int8_pooling once each way", "[race]") {
  check_pooling(whole_map(2, 7, 7, 80));
  Int8PoolingParams p = window(2, 9, 8, 16, 3, 2, 1);
  check_pooling(p);
  p.is_max = true;
  check_pooling(p);
}

}  // namespace
}  // namespace mobicuda::test
