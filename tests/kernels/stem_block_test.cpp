#include "kernels/stem_block.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>
#include <vector>

#include "kernels/chained_oracle.h"
#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

std::ostream& operator<<(std::ostream& out, const StemBlockParams& p) {
  return out << (p.input == StemInput::NchwFloat ? "float" : "bytes") << " n" << p.n << " " << p.h << 'x' << p.w
             << " -> " << p.stem_h << 'x' << p.stem_w << 'x' << p.c_stem << " pad " << p.stem_pad_top << ','
             << p.stem_pad_left << " -> " << p.out_h << 'x' << p.out_w << 'x' << p.c_out << " pad "
             << p.depthwise_pad_top << ',' << p.depthwise_pad_left;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test {
namespace {

using namespace chained;
using namespace window_case;
using kernels::StemBlockParams;
using kernels::StemBlockVariant;
using kernels::StemInput;

constexpr Clip kClips[] = {kNone, {0.0F, kInfinity}, kRelu6, {-1.5F, 2.0F}};
constexpr StemInput kInputs[] = {StemInput::NchwFloat, StemInput::NhwcUint8};
constexpr int kChannels = 3;
// The window and the bias, in two halves, fill this much of an instruction's k.
constexpr int kStemProducts = 32;
// As for inverted_residual: rounding a hidden value the other way, near a tie, moves y by about a unit of half times
// one weight; that and rounding y itself add up to less than this.
constexpr double kAlarm = 6e-4;

std::size_t input_count(const StemBlockParams& p) { return count_of(p.n, p.h, p.w, kChannels); }
std::size_t output_count(const StemBlockParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c_out); }

/// Weights as stored, and the input: floats as they are, NCHW, or bytes, NHWC.
struct Data {
  std::vector<float> x, stem, stem_bias, depthwise, depthwise_bias, project, project_bias;

  kernels::StemBlockWeights weights() const {
    const auto pointer = [](const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
    return {pointer(stem),           pointer(stem_bias), pointer(depthwise),
            pointer(depthwise_bias), pointer(project),   pointer(project_bias)};
  }
};

template <class Fill>
Data make_data(const StemBlockParams& p, bool bias, const Fill& fill) {
  Data data;
  data.stem = fill(count_of(3, 3, kChannels, p.c_stem));
  data.depthwise = fill(count_of(1, 3, 3, p.c_stem));
  data.project = fill(count_of(1, 1, p.c_stem, p.c_out));
  if (!bias) return data;
  data.stem_bias = fill(static_cast<std::size_t>(p.c_stem));
  data.depthwise_bias = fill(static_cast<std::size_t>(p.c_stem));
  data.project_bias = fill(static_cast<std::size_t>(p.c_out));
  return data;
}

/// `count` whole numbers in [0, 255].
std::vector<float> random_bytes(std::uint32_t seed, std::size_t count) {
  std::vector<float> bytes = random_uniform(seed, count, 0.0F, 256.0F);
  for (float& byte : bytes) byte = std::floor(byte);
  return bytes;
}

Data random_data(const StemBlockParams& p, std::uint32_t seed, bool bias = true) {
  const std::uint32_t first = seed;
  Data data = make_data(p, bias, [&](std::size_t count) { return random_uniform(++seed, count); });
  for (std::vector<float>* stored : {&data.stem, &data.depthwise, &data.project}) {
    *stored = rounded(Elem::F16, *stored);
  }
  data.x =
      p.input == StemInput::NchwFloat ? random_uniform(first, input_count(p)) : random_bytes(first, input_count(p));
  return data;
}

Data integer_data(const StemBlockParams& p, std::uint32_t seed) {
  Data data = make_data(p, true, [&](std::size_t count) { return random_integers(++seed, count); });
  data.x = random_integers(seed + 1, input_count(p));
  if (p.input == StemInput::NhwcUint8) {
    for (float& x : data.x) x += 4.0F;
  }
  return data;
}

/// What the first convolution sees of the input.
Tensor seen(const StemBlockParams& p, const Data& data) {
  Tensor tensor(data.x.size());
  const std::size_t pixels = count_of(1, p.h, p.w, 1);
  for (std::size_t i = 0; i < data.x.size(); ++i) {
    const std::size_t c = i % kChannels;
    double error = 0.0;
    if (p.input == StemInput::NchwFloat) {
      const std::size_t pixel = i / kChannels;
      tensor.value[i] = static_cast<double>(data.x[(pixel / pixels * kChannels + c) * pixels + pixel % pixels]);
    } else {
      const double product = static_cast<double>(data.x[i]) * static_cast<double>(p.scale[c]);
      tensor.value[i] = product + static_cast<double>(p.shift[c]);
      error = 2.0 * kUnitF32 * (std::abs(product) + std::abs(tensor.value[i]));
    }
    tensor.rounded[i] = to_half(tensor.value[i]);
    tensor.bound[i] = hard_bound(0.0, 0.0, std::abs(tensor.value[i]) + error, kStoreF16) + error;
  }
  return tensor;
}

OracleConv conv(int n, int h, int w, int c_in, int out_h, int out_w, int c_out, Clip clip) {
  OracleConv o;
  o.n = n;
  o.h = h;
  o.w = w;
  o.c_in = c_in;
  o.out_h = out_h;
  o.out_w = out_w;
  o.c_out = c_out;
  o.clip = {static_cast<double>(clip.lo), static_cast<double>(clip.hi)};
  return o;
}

Tensor oracle_of(const StemBlockParams& p, const Data& data) {
  OracleConv stem = conv(p.n, p.h, p.w, kChannels, p.stem_h, p.stem_w, p.c_stem, p.stem_clip);
  stem.kernel_h = stem.kernel_w = 3;
  stem.stride_h = stem.stride_w = 2;
  stem.pad_top = p.stem_pad_top;
  stem.pad_left = p.stem_pad_left;
  OracleConv depthwise = conv(p.n, p.stem_h, p.stem_w, p.c_stem, p.out_h, p.out_w, p.c_stem, p.depthwise_clip);
  depthwise.groups = p.c_stem;
  depthwise.kernel_h = depthwise.kernel_w = 3;
  depthwise.pad_top = p.depthwise_pad_top;
  depthwise.pad_left = p.depthwise_pad_left;
  const OracleConv project = conv(p.n, p.out_h, p.out_w, p.c_stem, p.out_h, p.out_w, p.c_out, p.project_clip);
  const Tensor s =
      convolve(stem, kStoreF16, gamma_tensor_core(kStemProducts), seen(p, data), data.stem, data.stem_bias);
  const Tensor d = convolve(depthwise, kStoreF16, gamma_tensor_core(9), s, data.depthwise, data.depthwise_bias);
  return convolve(project, kStoreF16, gamma_tensor_core(p.c_stem), d, data.project, data.project_bias);
}

std::vector<std::byte> input_bytes(const StemBlockParams& p, const Data& data) {
  if (p.input == StemInput::NchwFloat) {
    const auto bytes = std::as_bytes(std::span(data.x));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> bytes;
  bytes.reserve(data.x.size());
  for (const float x : data.x) bytes.push_back(static_cast<std::byte>(static_cast<int>(x)));
  return bytes;
}

GuardedBuffer pack(StemBlockVariant variant, const StemBlockParams& p, const Data& data) {
  std::vector<std::byte> packed(kernels::stem_block_packed_bytes(variant, p));
  kernels::stem_block_pack(variant, p, data.weights(), packed.data());
  return GuardedBuffer(packed);
}

/// The inputs on the GPU, for all variants. Refers to `data`. `misalign_elements` moves x off its alignment.
class Device {
 public:
  Device(const StemBlockParams& p, const Data& data, std::size_t misalign_elements = 0)
      : params_(p), data_(data), x_(data.x.size() * element_bytes(p), misalign_elements * element_bytes(p)) {
    x_.upload(input_bytes(p, data));
  }

  std::vector<float> run(StemBlockVariant variant) const {
    const GuardedBuffer packed = pack(variant, params_, data_);
    std::vector<float> y =
        run_kernel(Elem::F16, output_count(params_), 0, [&](void* out, const kernels::Launch& where) {
          return kernels::stem_block(variant, params_, x_.data(), packed.data(), out, where);
        });
    CHECK(x_.check_unchanged());
    CHECK(packed.check_unchanged());
    return y;
  }

 private:
  static std::size_t element_bytes(const StemBlockParams& p) { return p.input == StemInput::NchwFloat ? 4 : 1; }

  StemBlockParams params_;
  const Data& data_;
  GuardedBuffer x_;
};

template <class Body>
int for_each_variant(const StemBlockParams& p, const Body& body) {
  return for_each_supported(kernels::stem_block_variants(), p, body);
}

void check_against_oracle(const StemBlockParams& p, const Data& data) {
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  const Device device(p, data);
  const int variants = for_each_variant(p, [&](StemBlockVariant variant) {
    const std::vector<float> y = device.run(variant);
    REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));
    if (y.size() >= kAlarmElements) REQUIRE(compare_rel_l2(y, oracle.rounded, kAlarm));
  });
  REQUIRE(variants > 0);
}

void set_pads(StemBlockParams& p, int stem_top, int stem_left, int stem_behind, int depthwise_top, int depthwise_left,
              int depthwise_behind) {
  p.stem_pad_top = stem_top;
  p.stem_pad_left = stem_left;
  p.stem_h = output_extent(p.h, 3, 2, 1, stem_top, stem_behind);
  p.stem_w = output_extent(p.w, 3, 2, 1, stem_left, stem_behind);
  p.depthwise_pad_top = depthwise_top;
  p.depthwise_pad_left = depthwise_left;
  p.out_h = output_extent(p.stem_h, 3, 1, 1, depthwise_top, depthwise_behind);
  p.out_w = output_extent(p.stem_w, 3, 1, 1, depthwise_left, depthwise_behind);
}

/// MobileNetV2's; `same`: padded as TensorFlow does.
StemBlockParams block(StemInput input, int n, int h, int w, bool same) {
  StemBlockParams p;
  p.input = input;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_stem = 32;
  p.c_out = 16;
  set_pads(p, same ? 0 : 1, same ? 0 : 1, 1, 1, 1, 1);
  p.stem_clip = p.depthwise_clip = kRelu6;
  p.project_clip = kNone;
  for (int c = 0; c < kChannels; ++c) {
    p.scale[c] = 1.0F / (127.5F + static_cast<float>(c));
    p.shift[c] = -1.0F + 0.125F * static_cast<float>(c);
  }
  return p;
}

/// Whole numbers stay whole.
void scale_by_one(StemBlockParams& p) {
  std::fill(std::begin(p.scale), std::end(p.scale), 1.0F);
  std::fill(std::begin(p.shift), std::end(p.shift), -4.0F);
}

StemBlockParams random_shape(Choice& choose) {
  constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 13, 27, 28, 29, 30, 33, 55, 56, 57, 61, 90};
  constexpr int kStems[] = {8, 16, 24, 32, 20};
  constexpr int kOuts[] = {4, 8, 12, 16};
  for (;;) {
    StemBlockParams p = block(kInputs[choose.upto(1)], 1 + choose.upto(2), choose(kSizes), choose(kSizes), true);
    if (choose.flip()) {
      p.c_stem = choose(kStems);
      p.c_out = choose(kOuts);
    }
    set_pads(p, choose.upto(2), choose.upto(2), choose.upto(2), choose.upto(2), choose.upto(2), choose.upto(2));
    p.stem_clip = kClips[choose.upto(3)];
    p.depthwise_clip = kClips[choose.upto(3)];
    p.project_clip = kClips[choose.upto(3)];
    if (p.stem_h > 0 && p.stem_w > 0 && p.out_h > 0 && p.out_w > 0) return p;
  }
}

TEST_CASE("stem_block equals the oracle on MobileNetV2's", "[large]") {
  for (const StemInput input : kInputs) {
    for (const bool same : {true, false}) {
      const StemBlockParams p = block(input, same ? 1 : 2, 224, 224, same);
      check_against_oracle(p, random_data(p, 100));
    }
  }
}

TEST_CASE("stem_block equals the oracle on random shapes") {
  constexpr int kShapes = 60;
  Choice choose(7);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const StemBlockParams p = random_shape(choose);
    CAPTURE(i);
    check_against_oracle(p, random_data(p, 1000 + 10 * i, i % 4 != 0));
  }
}

TEST_CASE("stem_block equals the oracle at every batch size, size and padding") {
  for (const StemInput input : kInputs) {
    for (int n = 1; n <= 8; ++n) {
      const StemBlockParams p = block(input, n, 19, 34, n % 2 == 0);
      check_against_oracle(p, random_data(p, 21));
    }
    for (const int size : {1, 2, 4, 6, 27, 28, 29, 57}) {
      for (const auto& [h, w] : {std::pair{size, 9}, std::pair{9, size}}) {
        const StemBlockParams p = block(input, 1, h, w, size % 2 == 0);
        check_against_oracle(p, random_data(p, 22));
      }
    }
    for (int top = 0; top <= 2; ++top) {
      for (int left = 0; left <= 2; ++left) {
        StemBlockParams p = block(input, 2, 16, 31, true);
        set_pads(p, top, left, 2 - top, left, top, 2 - left);
        check_against_oracle(p, random_data(p, 31));
      }
    }
  }
}

TEST_CASE("stem_block is exact on small whole numbers", "[sanitize]") {
  constexpr int kShapes = 24;
  Choice choose(5);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    StemBlockParams p = random_shape(choose);
    scale_by_one(p);
    p.stem_clip = kRelu6;
    p.depthwise_clip = i % 2 == 0 ? kRelu6 : kNone;
    p.project_clip = {-2048.0F, 2048.0F};  // exact in half
    const Data data = integer_data(p, 50 + i);
    const Tensor oracle = oracle_of(p, data);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    const int variants = for_each_variant(
        p, [&](StemBlockVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
    REQUIRE(variants > 0);
  }
}

TEST_CASE("stem_block gives a picture the same bits alone, in a batch of any size, by any variant", "[sanitize]") {
  constexpr int kPictures = 40;
  for (const StemInput input : kInputs) {
    const StemBlockParams p = block(input, kPictures, 58, 61, true);
    const Data all = random_data(p, 45);
    StemBlockParams one = p;
    one.n = 1;
    const std::size_t size = input_count(one);
    const std::vector<float> y = Device(p, all).run(StemBlockVariant::Rows28);
    for (const std::size_t n : {0, 1, 13, kPictures - 1}) {
      Data alone = all;
      const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(n * size);
      alone.x.assign(from, from + static_cast<std::ptrdiff_t>(size));
      CAPTURE(n);
      const std::span<const float> in_batch(y.data() + n * output_count(one), output_count(one));
      // 4 bytes off, floats cannot be loaded in pairs.
      for (const std::size_t misalign : {0, 1}) {
        const Device device(one, alone, misalign);
        for_each_variant(one, [&](StemBlockVariant variant) { REQUIRE(compare_bits(device.run(variant), in_batch)); });
      }
    }
  }
}

TEST_CASE("stem_block gives the same bits a thousand times", "[large]") {
  constexpr int kRuns = 500;  // of two launches
  for (const StemInput input : kInputs) {
    const StemBlockParams p = block(input, 3, 60, 60, true);
    const Data data = random_data(p, 46);
    const Device device(p, data);
    for (const StemBlockVariant variant : {StemBlockVariant::Rows2, StemBlockVariant::Rows14}) {
      const std::vector<float> first = device.run(variant);
      for (int i = 1; i < kRuns; ++i) REQUIRE(compare_bits(device.run(variant), first));
    }
  }
}

TEST_CASE("stem_block passes NaN on, to the windows that see it only", "[sanitize]") {
  for (int behind = 0; behind <= 2; ++behind) {
    StemBlockParams p = block(StemInput::NchwFloat, 2, 42, 61, true);
    set_pads(p, 0, 1, behind, 1, 2, 1);
    Data data = random_data(p, 41);
    const std::size_t picture = count_of(1, p.h, p.w, kChannels);
    data.x[count_of(1, 1, p.h, p.w) + count_of(1, 13, p.w, 1) + 29] = kNan;
    data.x[picture + count_of(1, 2, p.h, p.w) + count_of(1, 1, 7, 1)] = kNan;
    data.x[2 * picture - 1] = kNan;
    const Tensor oracle = oracle_of(p, data);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    for_each_variant(p, [&](StemBlockVariant variant) {
      REQUIRE(compare_elements(device.run(variant), oracle.value, oracle.bound, shape));
    });
  }
}

TEST_CASE("stem_block addresses batches of more than 2^31 elements", "[large]") {
  constexpr int kPictures = 14267;  // 2^31 elements of input and more
  StemBlockParams p = block(StemInput::NhwcUint8, 1, 224, 224, true);
  const std::size_t x_bytes = input_count(p);
  const std::size_t y_bytes = output_count(p) * sizeof(std::uint16_t);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < (x_bytes + y_bytes) * kPictures * 3 / 2) MOBICUDA_SKIP("needs 12 GB of GPU memory");

  const Data data = random_data(p, 71);
  const StemBlockVariant variant = StemBlockVariant::Rows28;
  const GuardedBuffer one(input_bytes(p, data));
  const GuardedBuffer weights = pack(variant, p, data);
  const GuardedBuffer x(x_bytes * kPictures);
  for (std::size_t n = 0; n < kPictures; ++n) {
    check_cuda(
        cudaMemcpy(static_cast<std::byte*>(x.data()) + n * x_bytes, one.data(), x_bytes, cudaMemcpyDeviceToDevice),
        "copy of a picture");
  }
  const GuardedBuffer expected(y_bytes);
  REQUIRE(kernels::stem_block(variant, p, one.data(), weights.data(), expected.data(), {}) == cudaSuccess);
  p.n = kPictures;
  const GuardedBuffer y(y_bytes * kPictures);
  REQUIRE(kernels::stem_block(variant, p, x.data(), weights.data(), y.data(), {}) == cudaSuccess);
  synchronize();
  for (const std::size_t n : {0, 1, 5349, 5350, 10699, 10700, 14265, 14266}) {
    CAPTURE(n);
    std::vector<std::byte> picture(y_bytes);
    check_cuda(cudaMemcpy(picture.data(), static_cast<const std::byte*>(y.data()) + n * y_bytes, y_bytes,
                          cudaMemcpyDeviceToHost),
               "download of a picture");
    REQUIRE(picture == expected.download());
  }
  REQUIRE(y.check_guards());
}

TEST_CASE("stem_block says what it supports, and refuses the rest") {
  const StemBlockParams good = block(StemInput::NchwFloat, 1, 32, 32, true);
  const auto supported = [](const StemBlockParams& p) { return for_each_variant(p, [](StemBlockVariant) {}); };
  const auto launched = [](const StemBlockParams& p) {
    return kernels::stem_block(StemBlockVariant::Rows2, p, nullptr, nullptr, nullptr, {});
  };
  const int all = static_cast<int>(kernels::stem_block_variants().size());
  REQUIRE(supported(good) == all);
  StemBlockParams p = good;
  p.n = 0;
  REQUIRE(supported(p) == all);
  REQUIRE(launched(p) == cudaSuccess);
  for (int StemBlockParams::*member :
       {&StemBlockParams::h, &StemBlockParams::w, &StemBlockParams::c_stem, &StemBlockParams::c_out,
        &StemBlockParams::stem_h, &StemBlockParams::stem_w, &StemBlockParams::out_h, &StemBlockParams::out_w}) {
    p = good;
    p.*member = 0;
    REQUIRE(supported(p) == 0);
    REQUIRE(launched(p) == cudaErrorInvalidValue);
  }
  for (int StemBlockParams::*member : {&StemBlockParams::stem_pad_top, &StemBlockParams::depthwise_pad_left}) {
    p = good;
    p.*member = 3;
    REQUIRE(supported(p) == 0);
  }
  for (int StemBlockParams::*member : {&StemBlockParams::stem_w, &StemBlockParams::out_h}) {
    p = good;
    p.*member += 2;  // more than 2 pixels of padding behind the picture
    REQUIRE(supported(p) == 0);
  }
  p = good;
  p.c_stem = 33;
  REQUIRE(supported(p) == 0);
  p = good;
  p.c_out = 20;
  REQUIRE(supported(p) == 0);
  p = good;
  p.n = -1;
  REQUIRE(supported(p) == 0);
  REQUIRE_FALSE(kernels::supports(StemBlockVariant::Rows2, good, 75));
}

}  // namespace
}  // namespace mobicuda::test
