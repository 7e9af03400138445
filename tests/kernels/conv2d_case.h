// Parameters, data and checks that the tests of conv2d share.
#pragma once

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/conv2d/conv2d.h"
#include "kernels/window_case.h"
#include "support/catch.h"
#include "support/conv_oracle.h"
#include "support/device_tensor.h"
#include "support/oracle.h"
#include "support/random.h"
#include "support/run_kernel.h"
#include "support/tolerance.h"

namespace mobicuda::kernels {

inline std::ostream& operator<<(std::ostream& out, const Conv2dParams& p) {
  constexpr const char* kInputs[] = {"NHWC", "NCHW float", "NHWC float", "NHWC bytes"};
  return out << test::to_string(p.elem) << " from " << kInputs[static_cast<int>(p.input)] << " n" << p.n << ' ' << p.h
             << 'x' << p.w << 'x' << p.c_in << " -> " << p.out_h << 'x' << p.out_w << 'x' << p.c_out << " kernel "
             << p.kernel_h << 'x' << p.kernel_w << " stride " << p.stride_h << ',' << p.stride_w << " dilation "
             << p.dilation_h << ',' << p.dilation_w << " pad " << p.pad_top << ',' << p.pad_left << " groups "
             << p.groups << " bias " << p.bias << " residual " << p.residual << " max_pool " << p.max_pool << " second "
             << p.second.h << 'x' << p.second.w << 'x' << p.second.c_in << " stride " << p.second.stride_h << ','
             << p.second.stride_w << " clip " << p.activation.lo << ".." << p.activation.hi;
}

}  // namespace mobicuda::kernels

namespace mobicuda::test::conv2d_case {

using namespace window_case;
using kernels::Conv2dParams;
using kernels::Conv2dVariant;
using Input = Conv2dParams::Input;

inline constexpr Input kInputs[] = {Input::NhwcElem, Input::NchwFloat, Input::NhwcFloat};  // of all variants

inline std::size_t input_count(const Conv2dParams& p) { return count_of(p.n, p.h, p.w, p.c_in); }
inline std::size_t output_count(const Conv2dParams& p) {
  const int pool = p.max_pool ? 2 : 1;
  return count_of(p.n, p.out_h / pool, p.out_w / pool, p.c_out);
}
inline std::size_t weight_count(const Conv2dParams& p) {
  return count_of(p.c_out, p.kernel_h, p.kernel_w, p.c_in / p.groups);
}
inline Elem input_elem(const Conv2dParams& p) { return p.input == Input::NhwcElem ? p.elem : Elem::F32; }

inline OracleConv oracle_of(const Conv2dParams& p) {
  OracleConv o = oracle_of_window(p);
  o.c_in = p.c_in;
  o.c_out = p.c_out;
  o.groups = p.groups;
  return o;
}

/// Inputs as stored, on the host; x in NHWC whatever the kernel reads. Of a second convolution x2 stands for the
/// residual, and its weights are behind those of the first.
struct Data {
  std::vector<float> x, weight, bias, residual;
};

inline Data random_data(const Conv2dParams& p, std::uint32_t seed) {
  Data data;
  data.x = rounded(input_elem(p), random_uniform(seed, input_count(p)));
  data.weight = rounded(p.elem, random_uniform(seed + 1, weight_count(p)));
  if (p.bias) data.bias = random_uniform(seed + 2, static_cast<std::size_t>(p.c_out));
  if (p.residual) data.residual = rounded(p.elem, random_uniform(seed + 3, output_count(p)));
  return data;
}

inline Data integer_data(const Conv2dParams& p, std::uint32_t seed) {
  Data data{random_integers(seed, input_count(p)), random_integers(seed + 1, weight_count(p)), {}, {}};
  if (p.bias) data.bias = random_integers(seed + 2, static_cast<std::size_t>(p.c_out));
  if (p.residual) data.residual = random_integers(seed + 3, output_count(p));
  return data;
}

inline std::vector<float> to_nchw(const Conv2dParams& p, const std::vector<float>& nhwc) {
  const auto pixels = static_cast<std::size_t>(p.h) * static_cast<std::size_t>(p.w);
  const auto channels = static_cast<std::size_t>(p.c_in);
  std::vector<float> nchw(nhwc.size());
  for (std::size_t n = 0; n < static_cast<std::size_t>(p.n); ++n) {
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      for (std::size_t c = 0; c < channels; ++c) {
        nchw[(n * channels + c) * pixels + pixel] = nhwc[(n * pixels + pixel) * channels + c];
      }
    }
  }
  return nchw;
}

/// The inputs on the GPU, for all variants. `misalign_elements`: x begins so far behind an aligned address.
class Device {
 public:
  Device(const Conv2dParams& p, const Data& data, std::size_t misalign_elements = 0)
      : params_(p),
        x_(input_elem(p), p.input == Input::NchwFloat ? to_nchw(p, data.x) : data.x, misalign_elements),
        packed_(pack(p, data.weight)),
        bias_(Elem::F32, data.bias),
        residual_(p.elem, data.residual) {}

  std::vector<float> run(Conv2dVariant variant) const {
    return run(variant, [&](void*, cudaStream_t) { return residual_.data(); });
  }

  /// y is the residual, which the parameters must have.
  std::vector<float> run_in_place(Conv2dVariant variant) const {
    return run(variant, [&](void* y, cudaStream_t stream) -> const void* {
      const std::size_t bytes = output_count(params_) * kernels::size_of(params_.elem);
      check_cuda(cudaMemcpyAsync(y, residual_.data(), bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
      return y;
    });
  }

 private:
  template <class Residual>
  std::vector<float> run(Conv2dVariant variant, const Residual& residual) const {
    const auto enqueue = [&](void* out, const kernels::Launch& where) {
      const void* const added = residual(out, where.stream);
      return kernels::conv2d(variant, params_, x_.data(), packed_.data(), bias_.floats(), added, out, where);
    };
    std::vector<float> y = run_kernel(params_.elem, output_count(params_), 0, enqueue);
    CHECK(x_.check_unchanged());
    CHECK(packed_.check_unchanged());
    CHECK(bias_.check_unchanged());
    CHECK(residual_.check_unchanged());
    return y;
  }

  static GuardedBuffer pack(const Conv2dParams& p, const std::vector<float>& weight) {
    std::vector<std::byte> packed(kernels::conv2d_packed_bytes(p));
    kernels::conv2d_pack(p, weight.data(), packed.data());
    if (p.second.c_in > 0) {
      const Conv2dParams alone = second_alone(p);
      kernels::conv2d_pack(alone, weight.data() + weight_count(p),
                           packed.data() + packed.size() - kernels::conv2d_packed_bytes(alone));
    }
    return GuardedBuffer(packed);
  }

  Conv2dParams params_;
  DeviceTensor x_;
  GuardedBuffer packed_;
  DeviceTensor bias_;
  DeviceTensor residual_;
};

/// Products of halves, summed on tensor cores.
inline bool on_tensor_cores(Conv2dVariant variant, const Conv2dParams& p) {
  return p.elem == Elem::F16 && kernels::on_tensor_cores(variant);
}

/// Takes the network's input as half.
inline bool rounds_input(Conv2dVariant variant) {
  return variant == Conv2dVariant::First32 || variant == Conv2dVariant::First64 || variant == Conv2dVariant::First96;
}

/// The oracles of a result: of the input as it is, and as half.
struct Oracles {
  template <class Compute>
  Oracles(const Conv2dParams& p, const std::vector<float>& x, const Compute& compute) : exact(compute(x)) {
    if (p.elem == Elem::F16 && p.input != Input::NhwcElem) from_half = compute(rounded(Elem::F16, x));
  }
  const Oracle& of(Conv2dVariant variant) const { return rounds_input(variant) ? from_half : exact; }

  Oracle exact, from_half;
};

/// Products of a sum, zeros that the variant computes with the others among them.
inline std::int64_t products_of(Conv2dVariant variant, const Conv2dParams& p, const Oracle& oracle) {
  constexpr int kMatrixInputs = 16;
  if (variant == Conv2dVariant::Stem3x3Split) return 2 * (oracle.products + 2);  // what splitting loses among them
  if (rounds_input(variant)) return std::int64_t{p.kernel_h} * kernels::round_up(p.kernel_w, 4) * 4;
  if (variant == Conv2dVariant::Grouped3x3 || variant == Conv2dVariant::Grouped3x3Tma) {
    return std::int64_t{p.kernel_h} * p.kernel_w * kernels::round_up(p.c_in / p.groups, kMatrixInputs);
  }
  return oracle.products;
}

inline std::vector<double> bounds_of(Conv2dVariant variant, const Conv2dParams& p, const Oracle& oracle) {
  const double error = on_tensor_cores(variant, p) ? gamma_tensor_core(products_of(variant, p, oracle))
                                                   : gamma(oracle.products, unit_of(p.elem));
  return hard_bounds(error, oracle.magnitude, oracle.value, store_of(p.elem));
}

/// The largest of each 2x2 outputs of a convolution without max_pool; NaN where one of them is.
inline std::vector<float> pool_outputs(const Conv2dParams& p, const std::vector<float>& y) {
  const auto at = [&](int n, int row, int column, int c) {
    return y[((static_cast<std::size_t>(n) * static_cast<std::size_t>(p.out_h) + static_cast<std::size_t>(row)) *
                  static_cast<std::size_t>(p.out_w) +
              static_cast<std::size_t>(column)) *
                 static_cast<std::size_t>(p.c_out) +
             static_cast<std::size_t>(c)];
  };
  std::vector<float> pooled;
  for (int n = 0; n < p.n; ++n) {
    for (int row = 0; row + 1 < p.out_h; row += 2) {
      for (int column = 0; column + 1 < p.out_w; column += 2) {
        for (int c = 0; c < p.c_out; ++c) {
          float largest = at(n, row, column, c);
          for (const float value :
               {at(n, row, column + 1, c), at(n, row + 1, column, c), at(n, row + 1, column + 1, c)}) {
            if (value > largest || std::isnan(value)) largest = value;
          }
          pooled.push_back(largest);
        }
      }
    }
  }
  return pooled;
}

template <class Body>
int for_each_variant(const Conv2dParams& p, const Body& body) {
  return for_each_supported(kernels::conv2d_variants(), p, body);
}

inline void check_against_oracle(const Conv2dParams& p, std::uint32_t seed,
                                 std::span<const Conv2dVariant> variants = kernels::conv2d_variants()) {
  const Data data = random_data(p, seed);
  const OracleConv conv = oracle_of(p);
  const std::vector<std::size_t> pixels = sample_pixels(conv, seed, kSampledPixels);
  const Oracles oracles(p, data.x, [&](const std::vector<float>& x) {
    return conv2d_at(conv, pixels, x, data.weight, data.bias, data.residual);
  });
  const Store store = store_of(p.elem);
  const int shape[] = {static_cast<int>(pixels.size()), p.c_out};
  const Device device(p, data);
  CAPTURE(seed);
  for_each_supported(variants, p, [&](Conv2dVariant variant) {
    const Oracle& oracle = oracles.of(variant);
    const std::vector<float> y = device.run(variant);
    const std::vector<float> sampled = gather(y, pixels, p.c_out);
    REQUIRE(compare_elements(sampled, oracle.value, bounds_of(variant, p, oracle), shape));
    if (sampled.size() >= kAlarmElements) {
      REQUIRE(compare_rel_l2(sampled, oracle.value, rel_l2_alarm(oracle.products, store)));
    }
  });
}

/// One convolution of both inputs side by side.
inline Conv2dParams joined(Conv2dParams p) {
  p.c_in += p.second.c_in;
  p.second = {};
  return p;
}

inline std::size_t index(int n, int y, int x, int h, int w, int channels) {
  return count_of(1, 1, 1, channels) * static_cast<std::size_t>((n * h + y) * w + x);
}

/// The same inputs apart. What the second convolution does not read is NaN.
inline Data apart(const Conv2dParams& p, const Data& both) {
  const Conv2dParams::Second& second = p.second;
  const int all = p.c_in + second.c_in;
  Data data;
  data.bias = both.bias;
  data.x.resize(input_count(p));
  data.residual.assign(count_of(p.n, second.h, second.w, second.c_in), kNan);
  for (int n = 0; n < p.n; ++n) {
    for (int y = 0; y < p.h; ++y) {
      for (int x = 0; x < p.w; ++x) {
        const float* from = &both.x[index(n, y, x, p.h, p.w, all)];
        std::copy_n(from, p.c_in, &data.x[index(n, y, x, p.h, p.w, p.c_in)]);
        std::copy_n(
            from + p.c_in, second.c_in,
            &data.residual[index(n, y * second.stride_h, x * second.stride_w, second.h, second.w, second.c_in)]);
      }
    }
  }
  for (int co = 0; co < p.c_out; ++co) {
    const float* row = &both.weight[count_of(1, 1, co, all)];
    data.weight.insert(data.weight.end(), row, row + p.c_in);
  }
  for (int co = 0; co < p.c_out; ++co) {
    const float* row = &both.weight[count_of(1, 1, co, all)];
    data.weight.insert(data.weight.end(), row + p.c_in, row + all);
  }
  return data;
}

/// A convolution in half.
struct WindowLayer {
  int n, h, w, c_in, c_out;
  int kernel_h, kernel_w;
  int pad_top, pad_left;
  int out_h, out_w;
  int groups = 1;
  int stride = 1;
};

inline Conv2dParams params_of(const WindowLayer& layer) {
  Conv2dParams p;
  p.elem = Elem::F16;
  p.n = layer.n;
  p.h = layer.h;
  p.w = layer.w;
  p.c_in = layer.c_in;
  p.c_out = layer.c_out;
  p.kernel_h = layer.kernel_h;
  p.kernel_w = layer.kernel_w;
  p.pad_top = layer.pad_top;
  p.pad_left = layer.pad_left;
  p.out_h = layer.out_h;
  p.out_w = layer.out_w;
  p.groups = layer.groups;
  p.stride_h = p.stride_w = layer.stride;
  return p;
}

/// A stem of MobileNetV2: 3x3 with padding of one pixel.
inline Conv2dParams stem(Elem elem, Input input, int n, int h, int w, int c_out, int stride) {
  Conv2dParams p;
  p.elem = elem;
  p.input = input;
  p.n = n;
  p.h = h;
  p.w = w;
  p.c_in = 3;
  p.c_out = c_out;
  p.kernel_h = p.kernel_w = 3;
  p.stride_h = p.stride_w = stride;
  p.pad_top = p.pad_left = 1;
  p.out_h = output_extent(h, 3, stride, 1, 1, 1);
  p.out_w = output_extent(w, 3, stride, 1, 1, 1);
  p.bias = true;
  p.activation = kRelu6;
  return p;
}

}  // namespace mobicuda::test::conv2d_case
