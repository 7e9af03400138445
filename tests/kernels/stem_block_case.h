// Parameters, data and checks that the tests of stem_block share.
#pragma once

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "kernels/chained_oracle.h"
#include "kernels/stem_block/stem_block.h"
#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const StemBlockParams& p) {
  return out << (p.elem == Elem::F32 ? "fp32" : "fp16") << " from "
             << (p.input == StemInput::NchwFloat ? "float" : "bytes") << " n" << p.n << " " << p.h << 'x' << p.w
             << " -> " << p.stem_h << 'x' << p.stem_w << 'x' << p.c_stem << " pad " << p.stem_pad_top << ','
             << p.stem_pad_left << " -> " << p.out_h << 'x' << p.out_w << 'x' << p.c_out << " pad "
             << p.depthwise_pad_top << ',' << p.depthwise_pad_left;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::stem_block_case {

using namespace chained;
using namespace window_case;
using kernels::StemBlockParams;
using kernels::StemBlockVariant;
using kernels::StemInput;

inline constexpr Clip kClips[] = {kNone, {0.0F, kInfinity}, kRelu6, {-1.5F, 2.0F}};
inline constexpr int kChannels = 3;
inline constexpr int kTaps = 9;
// In half, the window and the bias, in two halves, fill this much of an instruction's k.
inline constexpr int kStemProducts = 32;
// As for inverted_residual: rounding a hidden value the other way, near a tie, moves y by about a unit of half times
// one weight; that and rounding y itself add up to less than this.
inline constexpr double kAlarm = 6e-4;

inline std::size_t input_count(const StemBlockParams& p) { return count_of(p.n, p.h, p.w, kChannels); }
inline std::size_t output_count(const StemBlockParams& p) { return count_of(p.n, p.out_h, p.out_w, p.c_out); }

/// What is read, and the elements of what is written.
struct Form {
  StemInput input;
  Elem elem;
};
inline constexpr Form kForms[] = {{StemInput::NchwFloat, Elem::F16},
                                  {StemInput::NhwcUint8, Elem::F16},
                                  {StemInput::NchwFloat, Elem::F32},
                                  {StemInput::NhwcUint8, Elem::F32}};

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
inline std::vector<float> random_bytes(std::uint32_t seed, std::size_t count) {
  std::vector<float> bytes = random_uniform(seed, count, 0.0F, 256.0F);
  for (float& byte : bytes) byte = std::floor(byte);
  return bytes;
}

inline Data random_data(const StemBlockParams& p, std::uint32_t seed, bool bias = true) {
  const std::uint32_t first = seed;
  Data data = make_data(p, bias, [&](std::size_t count) { return random_uniform(++seed, count); });
  for (std::vector<float>* stored : {&data.stem, &data.depthwise, &data.project}) {
    *stored = rounded(p.elem, *stored);
  }
  data.x =
      p.input == StemInput::NchwFloat ? random_uniform(first, input_count(p)) : random_bytes(first, input_count(p));
  return data;
}

inline Data integer_data(const StemBlockParams& p, std::uint32_t seed) {
  Data data = make_data(p, true, [&](std::size_t count) { return random_integers(++seed, count); });
  data.x = random_integers(seed + 1, input_count(p));
  if (p.input == StemInput::NhwcUint8) {
    for (float& x : data.x) x += 4.0F;
  }
  return data;
}

/// What the first convolution sees of the input.
inline Tensor seen(const StemBlockParams& p, const Data& data) {
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
    tensor.bound[i] = error;
    if (p.elem == Elem::F16) tensor.bound[i] += hard_bound(0.0, 0.0, std::abs(tensor.value[i]) + error, kStoreF16);
  }
  return tensor;
}

inline OracleConv conv(int n, int h, int w, int c_in, int out_h, int out_w, int c_out) {
  OracleConv o;
  o.n = n;
  o.h = h;
  o.w = w;
  o.c_in = c_in;
  o.out_h = out_h;
  o.out_w = out_w;
  o.c_out = c_out;
  return o;
}

inline Tensor oracle_of(const StemBlockParams& p, const Data& data) {
  OracleConv stem = conv(p.n, p.h, p.w, kChannels, p.stem_h, p.stem_w, p.c_stem);
  stem.kernel_h = stem.kernel_w = 3;
  stem.stride_h = stem.stride_w = 2;
  stem.pad_top = p.stem_pad_top;
  stem.pad_left = p.stem_pad_left;
  OracleConv depthwise = conv(p.n, p.stem_h, p.stem_w, p.c_stem, p.out_h, p.out_w, p.c_stem);
  depthwise.groups = p.c_stem;
  depthwise.kernel_h = depthwise.kernel_w = 3;
  depthwise.pad_top = p.depthwise_pad_top;
  depthwise.pad_left = p.depthwise_pad_left;
  const OracleConv project = conv(p.n, p.out_h, p.out_w, p.c_stem, p.out_h, p.out_w, p.c_out);
  const Store store = store_of(p.elem);
  // Half runs on tensor cores, float does not.
  const bool half = p.elem == Elem::F16;
  const auto of = [&](int products) { return half ? gamma_tensor_core(products) : gamma(products); };
  const int products = half ? kStemProducts : kChannels * kTaps;
  const Tensor s = convolve(stem, p.stem_clip, store, of(products), seen(p, data), data.stem, data.stem_bias);
  const Tensor d = convolve(depthwise, p.depthwise_clip, store, of(kTaps), s, data.depthwise, data.depthwise_bias);
  return convolve(project, p.project_clip, store, of(p.c_stem), d, data.project, data.project_bias);
}

inline std::vector<std::byte> input_bytes(const StemBlockParams& p, const Data& data) {
  if (p.input == StemInput::NchwFloat) {
    const auto bytes = std::as_bytes(std::span(data.x));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> bytes;
  bytes.reserve(data.x.size());
  for (const float x : data.x) bytes.push_back(static_cast<std::byte>(static_cast<int>(x)));
  return bytes;
}

inline GuardedBuffer pack(StemBlockVariant variant, const StemBlockParams& p, const Data& data) {
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
        run_kernel(params_.elem, output_count(params_), 0, [&](void* out, const kernels::Launch& where) {
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

inline void check_against_oracle(const StemBlockParams& p, const Data& data) {
  const Tensor oracle = oracle_of(p, data);
  const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
  const Device device(p, data);
  const int variants = for_each_variant(p, [&](StemBlockVariant variant) {
    const std::vector<float> y = device.run(variant);
    REQUIRE(compare_elements(y, oracle.value, oracle.bound, shape));
    if (y.size() < kAlarmElements) return;
    if (p.elem == Elem::F16) {
      REQUIRE(compare_rel_l2(y, oracle.rounded, kAlarm));
    } else {
      REQUIRE(compare_rel_l2(y, oracle.value, rel_l2_alarm(kChannels * kTaps + kTaps + p.c_stem, kStoreF32)));
    }
  });
  REQUIRE(variants > 0);
}

inline void set_pads(StemBlockParams& p, int stem_top, int stem_left, int stem_behind, int depthwise_top,
                     int depthwise_left, int depthwise_behind) {
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
inline StemBlockParams block(const Form& form, int n, int h, int w, bool same) {
  StemBlockParams p;
  p.elem = form.elem;
  p.input = form.input;
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
inline void scale_by_one(StemBlockParams& p) {
  std::fill(std::begin(p.scale), std::end(p.scale), 1.0F);
  std::fill(std::begin(p.shift), std::end(p.shift), -4.0F);
}

inline StemBlockParams random_shape(Choice& choose) {
  constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 13, 27, 28, 29, 30, 33, 55, 56, 57, 61, 90};
  constexpr int kStems[] = {8, 16, 24, 32, 20, 40, 48};
  constexpr int kOuts[] = {4, 8, 12, 16, 20, 24};
  for (;;) {
    StemBlockParams p = block(kForms[choose.upto(3)], 1 + choose.upto(2), choose(kSizes), choose(kSizes), true);
    if (choose.flip()) {
      p.c_stem = choose(kStems);
      p.c_out = choose(kOuts);
    }
    if (p.elem == Elem::F32) {
      p.c_out = kernels::round_up(p.c_out, 8);
      p.c_stem = std::min(p.c_stem, 2 * p.c_out);
    }
    set_pads(p, choose.upto(2), choose.upto(2), choose.upto(2), choose.upto(2), choose.upto(2), choose.upto(2));
    p.stem_clip = kClips[choose.upto(3)];
    p.depthwise_clip = kClips[choose.upto(3)];
    p.project_clip = kClips[choose.upto(3)];
    if (p.stem_h > 0 && p.stem_w > 0 && p.out_h > 0 && p.out_w > 0) return p;
  }
}

}  // namespace mobicuda::test::stem_block_case
