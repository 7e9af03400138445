// Quantised convolutions and matrix products. In double precision the definitions of ops/quantized_reference.h; else
// rows of operands, as Int8ProductTask takes them, or a depthwise convolution on the bytes themselves.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/int8_kernels.h"
#include "baselines/cpu/ops/integer_types.h"
#include "baselines/cpu/ops/quantized_reference.h"

namespace mobicuda::cpu {
namespace {

constexpr std::int64_t kRows = 48;           // of a block: whole tiles, few enough that they stay in the L2 cache
constexpr std::int64_t kPartsPerThread = 4;  // so that a slow thread holds the others up little

// The constants of a QuantizedConv2d or QuantizedGemm, which have the same positions.
class Constants {
 public:
  explicit Constants(const NodeView& view, const QuantizedResult& result) : view_(view), result_(result) {}

  // Weights `first` to first + count without their zero points.
  void differences(std::int64_t first, std::int64_t count, std::int16_t* to) const {
    const TensorDesc& desc = view_.desc(QuantizedConv2d::kWeight);
    const std::int64_t a_channel = desc.shape.elements() / desc.shape[0];
    const auto zero_points = view_.constant<std::int32_t>(QuantizedConv2d::kWeightZeroPoint);
    with_integer(desc.dtype, [&]<class W>(W) {
      const auto weights = view_.constant<W>(QuantizedConv2d::kWeight);
      for (std::int64_t i = first; i < first + count; ++i) {
        const auto channel = static_cast<std::size_t>(i / a_channel);
        const std::int32_t zero_point = zero_points.empty() ? 0 : zero_points[channel];
        *to++ = static_cast<std::int16_t>(weights[static_cast<std::size_t>(i)] - zero_point);
      }
    });
  }

  // Whether that is known of all of them by their type alone, as a saved engine has no weights but packed ones.
  bool are_int8() const {
    return view_.desc(QuantizedConv2d::kWeight).dtype == DType::I8 &&
           view_.node.inputs[QuantizedConv2d::kWeightZeroPoint] == kNoValue;
  }

  // Of output first + o at place(o), filled up with zeros to `room`, less `zero_point` times the output's weights.
  template <class Place>
  PackedWeights bias(std::int64_t first, std::int64_t outputs, std::int64_t room, std::int32_t zero_point,
                     const Place& place) const {
    return view_.weights.pack<std::int32_t>(room, [&](std::int32_t* to) {
      const auto all = view_.constant<std::int32_t>(QuantizedConv2d::kBias);
      const TensorDesc& desc = view_.desc(QuantizedConv2d::kWeight);
      std::vector<std::int16_t> weights(static_cast<std::size_t>(desc.shape.elements() / desc.shape[0]));
      const auto each = static_cast<std::int64_t>(weights.size());
      for (std::int64_t o = 0; o < outputs; ++o) {
        differences((first + o) * each, each, weights.data());
        const std::int64_t sum = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
        const std::int64_t at = place(o);
        to[at] = int8_bias(all.empty() ? 0 : all[static_cast<std::size_t>(first + o)], zero_point, sum);
      }
    });
  }

  template <class Place>
  PackedWeights multipliers(std::int64_t first, std::int64_t outputs, std::int64_t room, const Place& place) const {
    return view_.weights.pack<float>(room, [&](float* to) {
      const float x_scale = view_.desc(QuantizedConv2d::kInput).quantization.scale;
      const auto all = view_.constant<float>(QuantizedConv2d::kWeightScale);
      for (std::int64_t o = 0; o < outputs; ++o) {
        const std::int64_t at = place(o);
        to[at] = product_multiplier(x_scale, all[static_cast<std::size_t>(first + o)], result_);
      }
    });
  }

 private:
  const NodeView& view_;
  const QuantizedResult& result_;
};

Int8Output output_of(const QuantizedResult& result, const StepContext& context, int buffer) {
  if (result.dtype == DType::F32) return {nullptr, context.buffer<float>(buffer), {}};
  return {context.buffer<std::uint8_t>(buffer), nullptr, rounding_of(result)};
}

// ---- the definitions

// reference(X, Y): the types of activations and results in a double-precision engine.
template <class Reference>
void with_types(DType x, DType y, const Reference& reference) {
  with_integer(x, [&]<class X>(X of_x) {
    if (y == DType::F32) return reference(of_x, double{});
    with_integer(y, [&]<class Y>(Y of_y) { reference(of_x, of_y); });
  });
}

template <class Op>
LoweredNode lower_reference(const Op& op, const NodeView& view) {
  const Constants constants(view, op.result);
  const TensorDesc x_desc = view.desc(Op::kInput);
  const TensorDesc y_desc = view.output_desc();
  const Shape weight_shape = view.desc(Op::kWeight).shape;
  const PackedWeights weight = view.weights.pack<std::int16_t>(
      weight_shape.elements(), [&](std::int16_t* to) { constants.differences(0, weight_shape.elements(), to); });
  const PackedWeights bias = constants.bias(0, weight_shape[0], weight_shape[0], 0, std::identity());
  const PackedWeights multiplier = constants.multipliers(0, weight_shape[0], weight_shape[0], std::identity());
  constexpr bool kConvolution = std::is_same_v<Op, QuantizedConv2d>;
  LoweredNode lowered;
  lowered.kernel = kConvolution ? "conv2d/int8_reference" : "gemm/int8_reference";
  lowered.weight_bytes = weight.bytes() + bias.bytes() + multiplier.bytes();
  lowered.run = [=, from = view.inputs[Op::kInput], to = view.output](const StepContext& context) {
    const IntegerWeights weights{weight.as<std::int16_t>(), bias.as<std::int32_t>(), multiplier.as<float>()};
    const std::int64_t rows = kConvolution ? y_desc.shape[2] : 1;
    context.pool.for_ranges(context.n * rows, 1, [&](std::int64_t first, std::int64_t last, int) {
      with_types(x_desc.dtype, op.result.dtype, [&]<class X, class Y>(X, Y) {
        if constexpr (kConvolution) {
          quantized_conv2d_reference(op, x_desc, weight_shape, y_desc, context.buffer<const X>(from), weights,
                                     context.buffer<Y>(to), Range{first, last});
        } else {
          quantized_gemm_reference(op, x_desc, weight_shape, context.buffer<const X>(from), weights,
                                   context.buffer<Y>(to), Range{first, last});
        }
      });
    });
  };
  return lowered;
}

// ---- products

// A window over images, or the rows of a matrix as images of one pixel. NHWC.
struct Windows {
  std::int64_t h = 1, w = 1, c = 0;
  std::int64_t out_h = 1, out_w = 1;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::array<std::int64_t, 2> strides{1, 1};
  std::array<std::int64_t, 2> dilations{1, 1};
  std::int64_t pad_top = 0, pad_left = 0;
  std::int64_t groups = 1;

  std::int64_t channels() const { return c / groups; }
  std::int64_t k() const { return kernel_h * kernel_w * channels(); }
  // Whether a row is a pixel, all of it.
  bool are_pixels() const {
    return groups == 1 && kernel_h == 1 && kernel_w == 1 && strides == std::array<std::int64_t, 2>{1, 1} &&
           out_h == h && out_w == w;
  }
};

// How a row's operands follow from x: `x - less` as Operand, bytes modulo 256.
struct Operands8 {
  std::int32_t less = 0;
  std::int32_t padding = 0;
  std::int64_t unit = 2;  // rows are filled up to a multiple of it
};

// `count` elements of x as operands.
template <class Operand, class X>
Operand* convert(const X* from, std::int64_t count, const Operands8& as, Operand* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Operand>(from[i] - as.less);
  return to + count;
}

// The inputs of output pixels as rows (ky, kx, channel) of operands, those in the padding as `padding`.
template <class Operand, class X>
void gather_rows(const Windows& g, std::int64_t group, const Operands8& as, const X* x, Range pixels, Operand* to) {
  const std::int64_t channels = g.channels();
  const std::int64_t filled = (as.unit - g.k() % as.unit) % as.unit;
  if (g.are_pixels() && filled == 0) {
    convert(x + pixels.first * channels, (pixels.last - pixels.first) * channels, as, to);
    return;
  }
  const bool has_runs = g.groups == 1 && g.dilations[1] == 1;  // pixels under a window that lie side by side
  const X* image = x + pixels.first / (g.out_w * g.out_h) * g.h * g.w * g.c + group * channels;
  std::int64_t oy = pixels.first / g.out_w % g.out_h;
  std::int64_t ox = pixels.first % g.out_w;
  for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
    const std::int64_t top = oy * g.strides[0] - g.pad_top;
    const std::int64_t left = ox * g.strides[1] - g.pad_left;
    for (std::int64_t ky = 0; ky < g.kernel_h; ++ky) {
      const std::int64_t iy = top + ky * g.dilations[0];
      if (iy < 0 || iy >= g.h) {
        to = std::fill_n(to, g.kernel_w * channels, static_cast<Operand>(as.padding));
      } else if (has_runs && left >= 0 && left + g.kernel_w <= g.w) {
        to = convert(image + (iy * g.w + left) * g.c, g.kernel_w * channels, as, to);
      } else {
        for (std::int64_t kx = 0; kx < g.kernel_w; ++kx) {
          const std::int64_t ix = left + kx * g.dilations[1];
          to = ix < 0 || ix >= g.w ? std::fill_n(to, channels, static_cast<Operand>(as.padding))
                                   : convert(image + (iy * g.w + ix) * g.c, channels, as, to);
        }
      }
    }
    to = std::fill_n(to, filled, Operand{0});
    if (++ox < g.out_w) continue;
    ox = 0;
    if (++oy < g.out_h) continue;
    oy = 0;
    image += g.h * g.w * g.c;
  }
}

struct Int8Group {
  PackedWeights weight;
  PackedWeights bias;
  PackedWeights multiplier;
};

struct Int8Product {
  const Int8Kernels* kernels = nullptr;
  Windows windows;
  TensorDesc x_desc;
  QuantizedResult result;
  Operands8 operands;
  std::vector<Int8Group> groups;
  std::int64_t n = 0;  // outputs of a group
  std::int64_t panels = 0;
  int x = kNoBuffer, y = kNoBuffer;

  std::int64_t k() const { return (windows.k() + operands.unit - 1) / operands.unit * operands.unit; }
  bool are_quads() const { return kernels->operands == Int8Operands::Quads; }
  // Whether x has the rows as they are.
  bool reads_x() const {
    return are_quads() && x_desc.dtype == DType::U8 && windows.are_pixels() && k() == windows.k();
  }
  std::int64_t workspace_bytes() const {
    return reads_x() ? 0 : checked_multiply(kRows * k(), int8_operand_bytes(*kernels));
  }
};

// Weights (O, I / groups, taps) in the order (O, taps, I / groups).
void taps_first(std::int64_t outputs, std::int64_t channels, std::int64_t taps, const std::vector<std::int16_t>& from,
                std::vector<std::int16_t>& to) {
  for (std::int64_t i = 0; i < outputs * channels * taps; ++i) {
    const std::int64_t output = i / (channels * taps);
    const std::int64_t channel = i / taps % channels;
    to[static_cast<std::size_t>((output * taps + i % taps) * channels + channel)] = from[static_cast<std::size_t>(i)];
  }
}

// The rows of a block's group as operands.
const void* rows_of(const Int8Product& p, const StepContext& context, std::int64_t group, Range pixels, int worker) {
  if (p.reads_x()) return context.buffer<const std::uint8_t>(p.x) + pixels.first * p.windows.c;
  void* const rows = context.scratch(worker);
  with_integer(p.x_desc.dtype, [&]<class X>(X) {
    const X* const x = context.buffer<const X>(p.x);
    if (p.are_quads()) {
      gather_rows(p.windows, group, p.operands, x, pixels, static_cast<std::uint8_t*>(rows));
    } else {
      gather_rows(p.windows, group, p.operands, x, pixels, static_cast<std::int16_t*>(rows));
    }
  });
  return rows;
}

void run_blocks(const Int8Product& p, const StepContext& context) {
  const Windows& g = p.windows;
  const std::int64_t pixels = context.n * g.out_h * g.out_w;
  const std::int64_t blocks = (pixels + kRows - 1) / kRows;
  const auto groups = static_cast<std::int64_t>(p.groups.size());
  const std::int64_t wanted = kPartsPerThread * context.pool.threads();
  const std::int64_t parts = context.pool.threads() == 1 || blocks * groups >= wanted
                                 ? 1
                                 : std::min(p.panels, (wanted + blocks * groups - 1) / (blocks * groups));
  context.pool.for_ranges(blocks * groups * parts, 1, [&](std::int64_t first, std::int64_t last, int worker) {
    for (std::int64_t at = first; at < last; ++at) {
      const std::int64_t part = at % parts;
      const std::int64_t group = at / parts % groups;
      const std::int64_t block = at / parts / groups;
      const Range range{block * kRows, std::min(pixels, (block + 1) * kRows)};
      const Int8Group& weights = p.groups[static_cast<std::size_t>(group)];
      Int8ProductTask task;
      task.x = rows_of(p, context, group, range, worker);
      task.x_stride = p.k();
      task.packed = weights.weight.as<std::byte>();
      task.bias = weights.bias.as<std::int32_t>();
      task.multiplier = weights.multiplier.as<float>();
      task.y_stride = groups * p.n;
      task.y = output_of(p.result, context, p.y).at(range.first * task.y_stride + group * p.n);
      task.rows = range.last - range.first;
      task.k = p.k();
      task.n = p.n;
      task.first_panel = part * p.panels / parts;
      task.last_panel = (part + 1) * p.panels / parts;
      p.kernels->products(task);
    }
  });
}

template <class Op>
LoweredNode lower_products(const char* kernel, const Op& op, const Windows& windows, const NodeView& view) {
  const Constants constants(view, op.result);
  const std::int64_t k = windows.k();
  Int8Product product;
  product.kernels = &int8_kernels(constants.are_int8());
  product.windows = windows;
  product.x_desc = view.desc(Op::kInput);
  product.result = op.result;
  const Int8Kernels& kernels = *product.kernels;
  const std::int32_t x_zero_point = product.x_desc.quantization.zero_point;
  const std::int32_t zero_point = int8_zero_point(kernels, product.x_desc.dtype == DType::I8, x_zero_point);
  product.operands = {x_zero_point - zero_point, zero_point, int8_group(kernels)};
  product.n = view.desc(Op::kWeight).shape[0] / windows.groups;
  product.panels = (product.n + kernels.panel - 1) / kernels.panel;
  product.x = view.inputs[Op::kInput];
  product.y = view.output;
  LoweredNode lowered;
  for (std::int64_t group = 0; group < windows.groups; ++group) {
    const std::int64_t first = group * product.n;
    const std::int64_t room = product.panels * kernels.panel;
    Int8Group packed;
    packed.weight = view.weights.pack<std::byte>(int8_packed_bytes(kernels, product.n, k), [&](std::byte* to) {
      std::vector<std::int16_t> differences(static_cast<std::size_t>(product.n * k));
      std::vector<std::int16_t> rows(differences.size());
      constants.differences(first * k, product.n * k, differences.data());
      taps_first(product.n, windows.channels(), windows.kernel_h * windows.kernel_w, differences, rows);
      int8_pack(kernels, product.n, k, rows.data(), to);
    });
    packed.bias = constants.bias(first, product.n, room, zero_point, std::identity());
    packed.multiplier = constants.multipliers(first, product.n, room, std::identity());
    lowered.weight_bytes += packed.weight.bytes() + packed.bias.bytes() + packed.multiplier.bytes();
    product.groups.push_back(std::move(packed));
  }
  lowered.kernel = std::string(kernel) + "/int8_" + kernels.name;
  lowered.workspace_bytes = product.workspace_bytes();
  lowered.run = [product = std::move(product)](const StepContext& context) { run_blocks(product, context); };
  return lowered;
}

Windows windows_of(const QuantizedConv2d& op, const NodeView& view) {
  const Shape& x = view.desc(QuantizedConv2d::kInput).shape;
  const Shape& weight = view.desc(QuantizedConv2d::kWeight).shape;
  const Shape& y = view.output_desc().shape;
  Windows g;
  g.h = x[2];
  g.w = x[3];
  g.c = x[1];
  g.out_h = y[2];
  g.out_w = y[3];
  g.kernel_h = weight[2];
  g.kernel_w = weight[3];
  g.strides = op.strides;
  g.dilations = op.dilations;
  g.pad_top = op.pads.top;
  g.pad_left = op.pads.left;
  g.groups = op.groups;
  return g;
}

LoweredNode lower_depthwise(const QuantizedConv2d& op, const Windows& g, const NodeView& view) {
  const Constants constants(view, op.result);
  const Int8Kernels& kernels = int8_kernels(constants.are_int8());
  const TensorDesc& x_desc = view.desc(QuantizedConv2d::kInput);
  Int8DepthwiseTask shape;
  shape.is_signed = x_desc.dtype == DType::I8;
  shape.x_zero_point = x_desc.quantization.zero_point;
  shape.h = g.h;
  shape.w = g.w;
  shape.c = g.c;
  shape.out_w = g.out_w;
  shape.kernel_h = g.kernel_h;
  shape.kernel_w = g.kernel_w;
  shape.stride_h = g.strides[0];
  shape.stride_w = g.strides[1];
  shape.dilation_h = g.dilations[0];
  shape.dilation_w = g.dilations[1];
  shape.pad_top = g.pad_top;
  shape.pad_left = g.pad_left;
  const PackedWeights weight =
      view.weights.pack<std::byte>(int8_depthwise_bytes(kernels, g.c, g.kernel_h, g.kernel_w), [&](std::byte* to) {
        std::vector<std::int16_t> filters(static_cast<std::size_t>(g.c * g.kernel_h * g.kernel_w));
        constants.differences(0, static_cast<std::int64_t>(filters.size()), filters.data());
        int8_pack_depthwise(kernels, g.c, g.kernel_h, g.kernel_w, filters.data(), to);
      });
  const auto place = [&](std::int64_t channel) { return int8_channel_order(kernels, channel); };
  const std::int64_t room = int8_whole_blocks(kernels, g.c);
  const std::int32_t zero_point = int8_zero_point(kernels, shape.is_signed, shape.x_zero_point);
  const PackedWeights bias = constants.bias(0, g.c, room, zero_point, place);
  const PackedWeights multiplier = constants.multipliers(0, g.c, room, place);
  LoweredNode lowered;
  lowered.kernel = std::string("depthwise_conv/int8_") + kernels.name;
  lowered.weight_bytes = weight.bytes() + bias.bytes() + multiplier.bytes();
  lowered.workspace_bytes = int8_scratch_bytes(kernels, shape);
  lowered.run = [=, &kernels, result = op.result, out_h = g.out_h, x = view.inputs[QuantizedConv2d::kInput],
                 y = view.output](const StepContext& context) {
    context.pool.for_ranges(context.n * out_h, 1, [&](std::int64_t first, std::int64_t last, int worker) {
      for (std::int64_t row = first; row < last; ++row) {
        Int8DepthwiseTask task = shape;
        task.packed = weight.as<std::byte>();
        task.bias = bias.as<std::int32_t>();
        task.multiplier = multiplier.as<float>();
        task.scratch = reinterpret_cast<std::byte*>(context.scratch(worker));
        task.x = context.buffer<const std::uint8_t>(x) + row / out_h * shape.h * shape.w * shape.c;
        task.oy = row % out_h;
        task.y = output_of(result, context, y).at(row * shape.out_w * shape.c);
        kernels.depthwise(task);
      }
    });
  };
  return lowered;
}

}  // namespace

LoweredNode lower(const QuantizedConv2d& op, const NodeView& view) {
  if (view.fp64) return lower_reference(op, view);
  const Windows windows = windows_of(op, view);
  const Shape& weight = view.desc(QuantizedConv2d::kWeight).shape;
  if (op.groups == windows.c && weight[0] == windows.c) return lower_depthwise(op, windows, view);
  const bool pointwise = weight[2] == 1 && weight[3] == 1 && op.groups == 1;
  return lower_products(pointwise ? "gemm" : "conv2d", op, windows, view);
}

LoweredNode lower(const QuantizedGemm& op, const NodeView& view) {
  if (view.fp64) return lower_reference(op, view);
  Windows rows;
  rows.c = view.desc(QuantizedGemm::kInput).shape[1];
  return lower_products("gemm", op, rows, view);
}

}  // namespace mobicuda::cpu
