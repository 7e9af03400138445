#include "kernels/inverted_residual.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>
#include <utility>
#include <vector>

#include "kernels/chained_oracle.h"
#include "kernels/inverted_residual_shapes.h"
#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

std::ostream& operator<<(std::ostream& out, const InvertedResidualParams& p) {
  return out << (p.elem == Elem::F32 ? "float" : "half") << " n" << p.n << " " << p.h << 'x' << p.w << 'x' << p.c_in
             << " -> " << p.c_hidden << " -> " << p.out_h << 'x' << p.out_w << 'x' << p.c_out << " stride " << p.stride
             << " pad " << p.pad_top << ',' << p.pad_left << " expand " << p.expand << " residual " << p.residual;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test {
namespace {

using namespace chained;
using namespace window_case;
using kernels::InvertedResidualParams;
using kernels::InvertedResidualVariant;

/// Of a block: whether it expands, and its elements.
constexpr std::pair<bool, Elem> kForms[] = {
    {true, Elem::F16}, {false, Elem::F16}, {true, Elem::F32}, {false, Elem::F32}};
// Rounding a hidden value the other way, near a tie, moves y by about a unit of half times one weight. That and
// rounding y itself add up to less than this; rounding the hidden tensors twice or to fewer bits does not.
constexpr double kAlarm = 6e-4;

std::size_t input_count(const InvertedResidualParams& p) { return count_of(p.n, p.h, p.w, p.c_in); }
std::size_t output_count(const InvertedResidualParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c_out); }

/// Sums of a 1x1 convolution: half runs on tensor cores, float does not.
double pointwise_gamma(Elem elem, int products) {
  return elem == Elem::F32 ? gamma(products) : gamma_tensor_core(products);
}

/// Inputs as stored, on the host.
struct Data {
  std::vector<float> x, expand, expand_bias, depthwise, depthwise_bias, project, project_bias;

  kernels::InvertedResidualWeights weights() const {
    const auto pointer = [](const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
    return {pointer(expand),         pointer(expand_bias), pointer(depthwise),
            pointer(depthwise_bias), pointer(project),     pointer(project_bias)};
  }
};

template <class Fill>
Data make_data(const InvertedResidualParams& p, bool bias, const Fill& fill) {
  Data data;
  data.x = fill(input_count(p));
  data.depthwise = fill(count_of(1, 3, 3, p.c_hidden));
  data.project = fill(count_of(1, 1, p.c_hidden, p.c_out));
  if (p.expand) data.expand = fill(count_of(1, 1, p.c_in, p.c_hidden));
  if (!bias) return data;
  data.depthwise_bias = fill(static_cast<std::size_t>(p.c_hidden));
  data.project_bias = fill(static_cast<std::size_t>(p.c_out));
  if (p.expand) data.expand_bias = fill(static_cast<std::size_t>(p.c_hidden));
  return data;
}

Data random_data(const InvertedResidualParams& p, std::uint32_t seed, bool bias = true) {
  Data data = make_data(p, bias, [&](std::size_t count) { return random_uniform(seed++, count); });
  for (std::vector<float>* stored : {&data.x, &data.expand, &data.depthwise, &data.project}) {
    *stored = rounded(p.elem, *stored);
  }
  return data;
}

Data integer_data(const InvertedResidualParams& p, std::uint32_t seed) {
  return make_data(p, true, [&](std::size_t count) { return random_integers(seed++, count); });
}

OracleClip oracle_clip(Clip clip) { return {static_cast<double>(clip.lo), static_cast<double>(clip.hi)}; }

OracleConv pointwise(int n, int h, int w, int c_in, int c_out, Clip clip) {
  OracleConv o;
  o.n = n;
  o.h = o.out_h = h;
  o.w = o.out_w = w;
  o.c_in = c_in;
  o.c_out = c_out;
  o.clip = oracle_clip(clip);
  return o;
}

Tensor oracle_of(const InvertedResidualParams& p, const Data& data) {
  constexpr int kTaps = 9;
  const Tensor x = exact(data.x);
  const OracleConv expand = pointwise(p.n, p.h, p.w, p.c_in, p.c_hidden, p.expand_clip);
  const Tensor hidden =
      p.expand ? convolve(expand, store_of(p.elem), pointwise_gamma(p.elem, p.c_in), x, data.expand, data.expand_bias)
               : x;
  OracleConv depthwise = pointwise(p.n, p.h, p.w, p.c_hidden, p.c_hidden, p.depthwise_clip);
  depthwise.groups = p.c_hidden;
  depthwise.kernel_h = depthwise.kernel_w = 3;
  depthwise.stride_h = depthwise.stride_w = p.stride;
  depthwise.pad_top = p.pad_top;
  depthwise.pad_left = p.pad_left;
  depthwise.out_h = p.out_h;
  depthwise.out_w = p.out_w;
  const Tensor filtered = convolve(depthwise, store_of(p.elem), pointwise_gamma(p.elem, kTaps), hidden, data.depthwise,
                                   data.depthwise_bias);
  const OracleConv project = pointwise(p.n, p.out_h, p.out_w, p.c_hidden, p.c_out, p.project_clip);
  return convolve(project, store_of(p.elem), pointwise_gamma(p.elem, p.c_hidden), filtered, data.project,
                  data.project_bias, p.residual ? &x : nullptr);
}

GuardedBuffer pack(InvertedResidualVariant variant, const InvertedResidualParams& p, const Data& data) {
  std::vector<std::byte> packed(kernels::inverted_residual_packed_bytes(variant, p));
  kernels::inverted_residual_pack(variant, p, data.weights(), packed.data());
  return GuardedBuffer(packed);
}

/// The inputs on the GPU, for all variants. Refers to `data`.
class Device {
 public:
  Device(const InvertedResidualParams& p, const Data& data) : params_(p), data_(data), x_(p.elem, data.x) {}

  std::vector<float> run(InvertedResidualVariant variant) const {
    const GuardedBuffer packed = pack(variant, params_, data_);
    std::vector<float> y =
        run_kernel(params_.elem, output_count(params_), 0, [&](void* out, const kernels::Launch& where) {
          return kernels::inverted_residual(variant, params_, x_.data(), packed.data(), out, where);
        });
    CHECK(x_.check_unchanged());
    CHECK(packed.check_unchanged());
    return y;
  }

 private:
  InvertedResidualParams params_;
  const Data& data_;  // the caller's
  DeviceTensor x_;
};

template <class Body>
int for_each_variant(const InvertedResidualParams& p, const Body& body) {
  return for_each_supported(kernels::inverted_residual_variants(), p, body);
}

int check_against_oracle(const InvertedResidualParams& p, const Data& data) {
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  const Device device(p, data);
  return for_each_variant(p, [&](InvertedResidualVariant variant) {
    const std::vector<float> y = device.run(variant);
    REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));
    if (y.size() < kAlarmElements) return;
    if (p.elem == Elem::F16) {
      REQUIRE(compare_rel_l2(y, oracle.rounded, kAlarm));
    } else {
      REQUIRE(compare_rel_l2(y, oracle.value, rel_l2_alarm(p.c_in + 9 + p.c_hidden, kStoreF32)));
    }
  });
}

InvertedResidualParams block(int n, int h, int w, int c_in, int c_hidden, int c_out, int stride) {
  InvertedResidualParams p;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = c_in;
  p.c_hidden = c_hidden;
  p.c_out = c_out;
  p.stride = stride;
  p.pad_top = p.pad_left = 1;
  p.out_h = output_extent(h, 3, stride, 1, 1, 1);
  p.out_w = output_extent(w, 3, stride, 1, 1, 1);
  p.expand = c_hidden != c_in;
  p.residual = stride == 1 && c_in == c_out;
  p.expand_clip = p.depthwise_clip = kRelu6;
  p.project_clip = kNone;
  return p;
}

InvertedResidualParams block(const InvertedResidualLayer& layer, int n) {
  return block(n, layer.size, layer.size, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
}

/// With channels that variants of all families for few channels run: B3 or B2.
InvertedResidualParams small_block(int n, int h, int w, bool expand, int stride) {
  if (!expand) return block(n, h, w, 32, 32, 16, stride);
  return stride == 1 ? block(n, h, w, 24, 144, 24, stride) : block(n, h, w, 16, 96, 24, stride);
}

/// A shape that at least one variant runs.
InvertedResidualParams random_shape(Choice& choose) {
  constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 13, 14, 15, 17, 28, 30};
  constexpr int kChannels[] = {8, 16, 24, 32, 40, 64, 96};
  constexpr int kHidden[] = {16, 32, 48, 64, 80, 144, 192, 208, 400};
  for (;;) {
    InvertedResidualParams p = block(1 + choose.upto(2), choose(kSizes), choose(kSizes), choose(kChannels),
                                     choose(kHidden), choose(kChannels), 1 + choose.upto(1));
    p.elem = choose.flip() ? Elem::F32 : Elem::F16;
    if (p.stride == 1 && choose.flip()) p.c_out = p.c_in;
    p.expand = choose.upto(3) > 0;
    if (!p.expand) p.c_hidden = p.c_in;
    p.pad_top = choose.upto(2);
    p.pad_left = choose.upto(2);
    p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, choose.upto(2));
    p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, choose.upto(2));
    p.residual = p.stride == 1 && p.c_in == p.c_out && p.out_h == p.h && p.out_w == p.w;
    p.expand_clip = kClips[choose.upto(2)];
    p.depthwise_clip = kClips[choose.upto(2)];
    p.project_clip = kClips[choose.upto(2)];
    if (p.out_h == 0 || p.out_w == 0) continue;
    if (for_each_variant(p, [](InvertedResidualVariant) {}) > 0) return p;
  }
}

TEST_CASE("inverted_residual: variants are listed in the order of their enumeration") {
  check_order(kernels::inverted_residual_variants());
}

TEST_CASE("inverted_residual equals the oracle on the blocks of MobileNetV2", "[large]") {
  std::uint32_t seed = 100;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    for (const int n : {1, 2}) {
      if (n > 1 && layer.size > 56) continue;
      InvertedResidualParams p = block(layer, n);
      // TensorFlow pads below and to the right only when the stride is 2.
      if (layer.stride == 2 && n == 2) p.pad_top = p.pad_left = 0;
      for (const Elem elem : kElems) {
        p.elem = elem;
        CAPTURE(layer.name, seed);
        check_against_oracle(p, random_data(p, seed));
        seed += 10;
      }
    }
  }
}

TEST_CASE("inverted_residual: some variant runs every block up to the 14 x 14 ones") {
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    CAPTURE(layer.name);
    if (layer.size < 14 || layer.c_out > 96) continue;
    REQUIRE(for_each_variant(block(layer, 1), [](InvertedResidualVariant) {}) > 0);
  }
}

TEST_CASE("inverted_residual equals the oracle on random shapes") {
  constexpr int kShapes = 60;
  Choice choose(7);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const InvertedResidualParams p = random_shape(choose);
    CAPTURE(i);
    check_against_oracle(p, random_data(p, 1000 + 10 * i, i % 4 != 0));
  }
}

TEST_CASE("inverted_residual equals the oracle at every batch size, size and padding") {
  const auto check = [](InvertedResidualParams p, std::uint32_t seed) {
    for (const Elem elem : kElems) {
      p.elem = elem;
      check_against_oracle(p, random_data(p, seed));
    }
  };
  for (const int stride : {1, 2}) {
    for (int n = 1; n <= 8; ++n) check(small_block(n, 9, 10, true, stride), 21);
    for (const int size : {1, 2, 4, 6, 15, 16, 29}) {
      for (const auto& [h, w] : {std::pair{size, 6}, std::pair{6, size}}) {
        check(small_block(1, h, w, true, stride), 22);
      }
    }
    for (int top = 0; top <= 2; ++top) {
      for (int left = 0; left <= 2; ++left) {
        for (const bool expand : {true, false}) {
          InvertedResidualParams p = small_block(2, 8, 7, expand, stride);
          p.pad_top = top;
          p.pad_left = left;
          p.out_h = output_extent(p.h, 3, stride, 1, top, 2 - top);
          p.out_w = output_extent(p.w, 3, stride, 1, left, 2 - left);
          check(p, 31);
        }
      }
    }
  }
}

/// The blocks for which channels are known at compile time, in any size.
TEST_CASE("inverted_residual equals the oracle on blocks of MobileNetV2's channels in other sizes") {
  constexpr int kShapes = 80;
  Choice choose(11);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const InvertedResidualLayer& layer = kMobileNetV2Blocks[1 + choose.upto(4)];
    constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 13, 17, 30};
    InvertedResidualParams p = block(1 + choose.upto(7), choose(kSizes), choose(kSizes), layer.c_in, layer.c_hidden,
                                     layer.c_out, layer.stride);
    p.pad_top = choose.upto(2);
    p.pad_left = choose.upto(2);
    p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, choose.upto(2));
    p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, choose.upto(2));
    if (p.out_h == 0 || p.out_w == 0) continue;
    p.residual = p.stride == 1 && p.c_in == p.c_out && p.out_h == p.h && p.out_w == p.w && choose.flip();
    p.depthwise_clip = kClips[choose.upto(2)];
    p.project_clip = kClips[choose.upto(2)];
    p.elem = choose.flip() ? Elem::F32 : Elem::F16;
    CAPTURE(i);
    if (i % 3 == 0) {
      p.project_clip = {-2048.0F, 2048.0F};
      const Data data = integer_data(p, 3000 + 10 * i);
      const Tensor oracle = oracle_of(p, data);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        REQUIRE(compare_exact(device.run(variant), oracle.value, shape));
      });
    } else {
      check_against_oracle(p, random_data(p, 3000 + 10 * i, i % 4 != 0));
    }
  }
}

/// B8 to B17 in any size, and as they are: their variants know the channels at compile time.
InvertedResidualParams late_block(Choice& choose) {
  constexpr int kFirst = 6;
  constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 14};
  constexpr int kLast = static_cast<int>(std::size(kMobileNetV2Blocks)) - 1;
  const InvertedResidualLayer& layer = kMobileNetV2Blocks[kFirst + choose.upto(kLast - kFirst)];
  InvertedResidualParams p =
      block(1 + choose.upto(7), choose(kSizes), choose(kSizes), layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
  p.pad_top = choose.upto(2);
  p.pad_left = choose.upto(2);
  p.out_h = output_extent(p.h, 3, p.stride, 1, p.pad_top, 1 + choose.upto(1));
  p.out_w = output_extent(p.w, 3, p.stride, 1, p.pad_left, 1 + choose.upto(1));
  p.residual = p.c_in == p.c_out && p.out_h == p.h && p.out_w == p.w && choose.flip();
  if (choose.upto(3) == 0) {
    p = block(layer, 1 + choose.upto(2));
    p.residual = p.residual && choose.flip();
  }
  return p;
}

TEST_CASE("inverted_residual equals the oracle on the late blocks' channels in other sizes") {
  constexpr int kShapes = 40;
  Choice choose(13);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    InvertedResidualParams p = late_block(choose);
    if (p.out_h == 0 || p.out_w == 0) continue;
    CAPTURE(i);
    if (i % 3 == 0) {
      p.project_clip = {-2048.0F, 2048.0F};
      const Data data = integer_data(p, 5000 + 10 * i);
      const Tensor oracle = oracle_of(p, data);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        REQUIRE(compare_exact(device.run(variant), oracle.value, shape));
      });
    } else {
      p.expand_clip = kClips[choose.upto(2)];
      p.depthwise_clip = kClips[choose.upto(2)];
      p.project_clip = kClips[choose.upto(2)];
      check_against_oracle(p, random_data(p, 5000 + 10 * i, i % 4 != 0));
    }
  }
}

TEST_CASE("inverted_residual equals the oracle on the last blocks' channels in batches of whole pictures") {
  constexpr std::pair<int, int> kSizes[] = {{7, 7}, {1, 1}, {2, 7}, {7, 3}, {5, 6}};
  constexpr int kBatches[] = {1, 2, 3, 5, 8};
  std::uint32_t seed = 7000;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    if (layer.size != 7) continue;
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
      InvertedResidualParams p =
          block(kBatches[i], kSizes[i].first, kSizes[i].second, layer.c_in, layer.c_hidden, layer.c_out, 1);
      p.residual = p.residual && i % 3 != 2;
      check_against_oracle(p, random_data(p, seed, i != 3));
      seed += 10;
    }
  }
}

TEST_CASE("inverted_residual gives a picture of the late blocks' channels the same bits in any batch and every time") {
  constexpr int kPictures = 9;
  constexpr int kRuns = 20;
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    if (layer.size > 14) continue;
    const InvertedResidualParams p = block(layer, kPictures);
    InvertedResidualParams one = p;
    one.n = 1;
    const std::size_t size = input_count(one);
    const Data all = random_data(p, 47);
    const Device device(p, all);
    for_each_variant(p, [&](InvertedResidualVariant variant) {
      const std::vector<float> y = device.run(variant);
      for (int i = 1; i < kRuns; ++i) REQUIRE(compare_bits(device.run(variant), y));
      for (const std::size_t n : {0, 4, kPictures - 1}) {
        Data alone = all;
        const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(n * size);
        alone.x.assign(from, from + static_cast<std::ptrdiff_t>(size));
        CAPTURE(n);
        const std::span<const float> in_batch(y.data() + n * output_count(one), output_count(one));
        REQUIRE(compare_bits(Device(one, alone).run(variant), in_batch));
      }
    });
  }
}

TEST_CASE("inverted_residual passes NaN on in the late blocks' channels", "[sanitize]") {
  for (const InvertedResidualLayer& layer : kMobileNetV2Blocks) {
    if (layer.size > 14) continue;
    const InvertedResidualParams p = block(layer, 3);
    Data data = random_data(p, 48);
    data.x[count_of(1, layer.size / 2, layer.size, p.c_in) + 5] = kNan;
    data.x[input_count(p) - 1] = kNan;
    const Tensor oracle = oracle_of(p, data);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    for_each_variant(p, [&](InvertedResidualVariant variant) {
      REQUIRE(compare_elements(device.run(variant), oracle.value, oracle.bound, shape));
    });
  }
}

TEST_CASE("inverted_residual is exact on small whole numbers", "[sanitize]") {
  constexpr int kShapes = 30;
  constexpr Clip kExactInHalf{-2048.0F, 2048.0F};
  Choice choose(5);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    InvertedResidualParams p = random_shape(choose);
    p.expand_clip = kRelu6;
    p.depthwise_clip = i % 2 == 0 ? kRelu6 : kNone;
    p.project_clip = kExactInHalf;
    const Data data = integer_data(p, 50 + i);
    const Tensor oracle = oracle_of(p, data);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    for_each_variant(
        p, [&](InvertedResidualVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
  }
}

TEST_CASE("inverted_residual gives a picture the same bits alone and in a batch of any size", "[sanitize]") {
  constexpr int kPictures = 70;  // more tiles than a GPU runs at once
  for (const int stride : {1, 2}) {
    for (const auto& [expand, elem] : kForms) {
      InvertedResidualParams p = small_block(kPictures, 30, 29, expand, stride);
      p.elem = elem;
      const Data all = random_data(p, 45);
      const Device device(p, all);
      InvertedResidualParams one = p;
      one.n = 1;
      const std::size_t size = input_count(one);
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        const std::vector<float> y = device.run(variant);
        for (const std::size_t n : {0, 1, 13, kPictures - 1}) {
          Data alone = all;
          const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(n * size);
          alone.x.assign(from, from + static_cast<std::ptrdiff_t>(size));
          CAPTURE(n);
          const std::span<const float> in_batch(y.data() + n * output_count(one), output_count(one));
          REQUIRE(compare_bits(Device(one, alone).run(variant), in_batch));
        }
      });
    }
  }
}

TEST_CASE("inverted_residual gives the same bits a thousand times", "[large]") {
  constexpr int kRuns = 500;  // of two launches
  for (const int stride : {1, 2}) {
    for (const Elem elem : kElems) {
      InvertedResidualParams p = block(3, 28, 28, 32, 192, elem == Elem::F32 && stride == 2 ? 64 : 32, stride);
      p.elem = elem;
      const Data data = random_data(p, 46);
      const Device device(p, data);
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        const std::vector<float> first = device.run(variant);
        for (int i = 1; i < kRuns; ++i) REQUIRE(compare_bits(device.run(variant), first));
      });
    }
  }
}

TEST_CASE("inverted_residual passes NaN on, to the windows that see it only", "[sanitize]") {
  for (const int stride : {1, 2}) {
    for (const auto& [expand, elem] : kForms) {
      InvertedResidualParams p = small_block(2, 15, 16, expand, stride);
      p.elem = elem;
      Data data = random_data(p, 41);
      data.x[count_of(1, 7, 16, p.c_in) + 5] = kNan;
      data.x[input_count(p) - 1] = kNan;
      const Tensor oracle = oracle_of(p, data);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](InvertedResidualVariant variant) {
        const std::vector<float> y = device.run(variant);
        for (std::size_t i = 0; i < y.size(); ++i) {
          CAPTURE(i);
          REQUIRE(std::isnan(y[i]) == std::isnan(oracle.value[i]));
        }
        REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));
      });
    }
  }
}

TEST_CASE("inverted_residual addresses batches of more than 2^31 elements", "[large]") {
  constexpr int kPictures = 10701;  // 2^31 elements of input and more
  InvertedResidualParams p = block(1, 112, 112, 16, 32, 16, 1);
  const std::size_t bytes = input_count(p) * sizeof(std::uint16_t);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < 3 * bytes * kPictures) MOBICUDA_SKIP("needs 13 GB of GPU memory");

  const Data data = random_data(p, 71);
  const DeviceTensor one(Elem::F16, data.x);
  const InvertedResidualVariant variant = InvertedResidualVariant::S1Tile14x14C48N32;
  const GuardedBuffer weights = pack(variant, p, data);
  const GuardedBuffer x(bytes * kPictures);
  for (std::size_t n = 0; n < kPictures; ++n) {
    check_cuda(cudaMemcpy(static_cast<std::byte*>(x.data()) + n * bytes, one.data(), bytes, cudaMemcpyDeviceToDevice),
               "copy of a picture");
  }
  const DeviceTensor expected(Elem::F16, output_count(p));
  REQUIRE(kernels::inverted_residual(variant, p, one.data(), weights.data(), expected.data(), {}) == cudaSuccess);
  p.n = kPictures;
  GuardedBuffer y(bytes * kPictures);
  REQUIRE(kernels::inverted_residual(variant, p, x.data(), weights.data(), y.data(), {}) == cudaSuccess);
  synchronize();
  for (const std::size_t n : {0, 1, 5349, 5350, 5351, 10698, 10699, 10700}) {
    CAPTURE(n);
    std::vector<std::byte> picture(bytes);
    check_cuda(
        cudaMemcpy(picture.data(), static_cast<const std::byte*>(y.data()) + n * bytes, bytes, cudaMemcpyDeviceToHost),
        "download of a picture");
    REQUIRE(picture == expected.download_bytes());
  }
  REQUIRE(y.check_guards());
}

TEST_CASE("inverted_residual says what it supports, and refuses the rest") {
  const InvertedResidualParams good = block(1, 14, 14, 16, 48, 16, 1);
  const auto supported = [](const InvertedResidualParams& p) {
    return for_each_variant(p, [](InvertedResidualVariant) {});
  };
  const int all = supported(good);
  REQUIRE(all > 0);
  InvertedResidualParams p = good;
  p.n = 0;
  REQUIRE(supported(p) == all);
  REQUIRE(kernels::inverted_residual(InvertedResidualVariant::S1Tile7x7C64N64, p, nullptr, nullptr, nullptr, {}) ==
          cudaSuccess);
  for (int InvertedResidualParams::*member :
       {&InvertedResidualParams::h, &InvertedResidualParams::c_in, &InvertedResidualParams::c_hidden,
        &InvertedResidualParams::c_out, &InvertedResidualParams::out_w, &InvertedResidualParams::stride}) {
    p = good;
    p.*member = 0;
    REQUIRE(supported(p) == 0);
    REQUIRE(kernels::inverted_residual(InvertedResidualVariant::S1Tile7x7C64N64, p, nullptr, nullptr, nullptr, {}) ==
            cudaErrorInvalidValue);
  }
  p = good;
  p.c_in = p.c_out = 12;
  REQUIRE(supported(p) == 0);
  p = good;
  p.c_hidden = 40;  // not a multiple of 16
  REQUIRE(supported(p) == 0);
  p = good;
  p.pad_top = 3;
  REQUIRE(supported(p) == 0);
  p = good;
  p.out_h = 13;  // x cannot be added
  REQUIRE(supported(p) == 0);
  p = good;
  p.expand = false;  // but has more hidden channels than input
  REQUIRE(supported(p) == 0);
  p = good;
  p.n = -1;
  REQUIRE(supported(p) == 0);
  REQUIRE_FALSE(kernels::supports(InvertedResidualVariant::S1Tile7x7C64N64, good, 75));
}

}  // namespace
}  // namespace mobicuda::test
