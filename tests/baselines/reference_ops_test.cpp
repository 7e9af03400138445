// The definitions that all engines are compared with: against values worked out by hand, and against a second
// formulation. All data are whole numbers or exact fractions, so that no tolerance is needed.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "baselines/cpu/ops/conv2d.h"
#include "baselines/cpu/ops/depthwise_conv.h"
#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/ops/gemm.h"
#include "baselines/cpu/ops/layout_transform.h"
#include "baselines/cpu/ops/pooling.h"
#include "baselines/cpu/ops/softmax.h"
#include "support/catch.h"
#include "support/random.h"

namespace mobicuda::cpu {
namespace {

using Doubles = std::vector<double>;
using Floats = std::vector<float>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TensorDesc nchw(Shape shape) { return {DType::F32, shape, Layout::NCHW}; }
TensorDesc nhwc(Shape shape) { return {DType::F32, shape, Layout::NHWC}; }

Doubles integers(std::uint32_t seed, std::int64_t count) {
  const std::vector<float> values = test::random_integers(seed, static_cast<std::size_t>(count));
  return {values.begin(), values.end()};
}

Doubles one_to(int last) {
  Doubles values;
  for (int i = 1; i <= last; ++i) values.push_back(i);
  return values;
}

// Infers the output with the library's own shape rules.
TensorDesc conv_output(const Conv2d& op, const TensorDesc& x, const Shape& weight) {
  const TensorDesc w = nchw(weight);
  const TensorDesc* inputs[] = {&x, &w, nullptr, nullptr};
  return infer_output(op, inputs);
}

TensorDesc pool_output(const Pool2d& op, const TensorDesc& x) {
  const TensorDesc* inputs[] = {&x};
  return infer_output(op, inputs);
}

Doubles pool(const Pool2d& op, const TensorDesc& x_desc, const Doubles& x) {
  const TensorDesc y_desc = pool_output(op, x_desc);
  Doubles y(static_cast<std::size_t>(y_desc.shape.elements()), kNaN);
  pool2d(op, x_desc, y_desc, x.data(), y.data(), {0, y_desc.shape[2]});
  return y;
}

// The second formulation of a convolution: each input pixel is scattered to the outputs that it reaches.
Doubles scatter_conv(const Conv2d& op, const TensorDesc& x_desc, const Shape& weight, const TensorDesc& y_desc,
                     const Doubles& x, const std::vector<float>& w) {
  const Strides xs = strides_of(x_desc);
  const Strides ys = strides_of(y_desc);
  Doubles y(static_cast<std::size_t>(y_desc.shape.elements()), 0.0);
  const std::int64_t outputs = weight[0] / op.groups;
  for (std::int64_t c = 0; c < x_desc.shape[1]; ++c) {
    const std::int64_t group = c / weight[1];
    for (std::int64_t iy = 0; iy < x_desc.shape[2]; ++iy) {
      for (std::int64_t ix = 0; ix < x_desc.shape[3]; ++ix) {
        for (std::int64_t ky = 0; ky < weight[2]; ++ky) {
          for (std::int64_t kx = 0; kx < weight[3]; ++kx) {
            const std::int64_t py = iy + op.pads.top - ky * op.dilations[0];
            const std::int64_t px = ix + op.pads.left - kx * op.dilations[1];
            if (py < 0 || px < 0 || py % op.strides[0] != 0 || px % op.strides[1] != 0) continue;
            const std::int64_t oy = py / op.strides[0];
            const std::int64_t ox = px / op.strides[1];
            if (oy >= y_desc.shape[2] || ox >= y_desc.shape[3]) continue;
            for (std::int64_t o = group * outputs; o < (group + 1) * outputs; ++o) {
              const std::int64_t tap = ((o * weight[1] + c % weight[1]) * weight[2] + ky) * weight[3] + kx;
              y[static_cast<std::size_t>(o * ys[1] + oy * ys[2] + ox * ys[3])] +=
                  x[static_cast<std::size_t>(c * xs[1] + iy * xs[2] + ix * xs[3])] *
                  static_cast<double>(w[static_cast<std::size_t>(tap)]);
            }
          }
        }
      }
    }
  }
  return y;
}

Doubles run_conv(const Conv2d& op, const TensorDesc& x_desc, const Shape& weight, const TensorDesc& y_desc,
                 const Doubles& x, const std::vector<float>& w) {
  Doubles y(static_cast<std::size_t>(y_desc.shape.elements()), kNaN);
  conv2d_reference(op, x_desc, weight, y_desc, x.data(), w.data(), nullptr, nullptr, y.data(), {0, y_desc.shape[2]});
  return y;
}

TEST_CASE("conv2d_reference gives the values worked out by hand") {
  const TensorDesc x = nchw(Shape{1, 1, 3, 3});
  const Shape weight{1, 1, 2, 2};
  const std::vector<float> w{1, 2, 3, 4};
  Conv2d op;
  CHECK(run_conv(op, x, weight, conv_output(op, x, weight), one_to(9), w) == Doubles{37, 47, 67, 77});
  op.pads = {0, 0, 1, 1};
  op.strides = {2, 2};
  CHECK(run_conv(op, x, weight, conv_output(op, x, weight), one_to(9), w) == Doubles{37, 21, 23, 9});
  op = {};
  op.dilations = {2, 2};
  CHECK(run_conv(op, x, weight, conv_output(op, x, weight), one_to(9), w) == Doubles{1 + 6 + 21 + 36});
}

TEST_CASE("conv2d_reference adds bias and residual before the activation") {
  const TensorDesc x = nchw(Shape{1, 1, 1, 3});
  Conv2d op;
  op.activation = Activation::relu6();
  const std::vector<float> w{2};
  const float bias = 1;
  const Doubles in{-3, 1, 2};
  const Doubles residual{1, 2, 5};
  Doubles y(3);
  conv2d_reference(op, x, Shape{1, 1, 1, 1}, x, in.data(), w.data(), &bias, residual.data(), y.data(), {0, 1});
  CHECK(y == Doubles{0, 5, 6});
}

TEST_CASE("conv2d_reference equals the scatter formulation") {
  const auto layout = GENERATE(Layout::NCHW, Layout::NHWC);
  const auto stride = GENERATE(1, 2, 3);
  const auto dilation = GENERATE(1, 2);
  const auto groups = GENERATE(1, 2, 6);
  const auto kernel_w = GENERATE(1, 3);
  const TensorDesc x_desc{DType::F32, Shape{1, 6, 7, 9}, layout};
  const Shape weight{12, 6 / groups, 3, kernel_w};
  Conv2d op;
  op.strides = {stride, 1};
  op.dilations = {1, dilation};
  op.groups = groups;
  op.pads = {2, 0, 1, 3};
  const TensorDesc y_desc = conv_output(op, x_desc, weight);
  const Doubles x = integers(1, x_desc.shape.elements());
  const std::vector<float> w = test::random_integers(2, static_cast<std::size_t>(weight.elements()));
  CAPTURE(to_string(layout), stride, dilation, groups, kernel_w);
  CHECK(run_conv(op, x_desc, weight, y_desc, x, w) == scatter_conv(op, x_desc, weight, y_desc, x, w));
}

TEST_CASE("depthwise_conv_reference equals conv2d_reference") {
  const auto layout = GENERATE(Layout::NCHW, Layout::NHWC);
  const auto kernel = GENERATE(1, 2, 3, 5);
  const auto stride = GENERATE(1, 2, 3);
  const auto dilation = GENERATE(1, 2);
  const auto pad = GENERATE(0, 1, 3);
  const TensorDesc x_desc{DType::F32, Shape{1, 5, 11, 9}, layout};
  const Shape weight{5, 1, kernel, 2};
  Conv2d op;
  op.strides = {1, stride};
  op.dilations = {dilation, 1};
  op.groups = 5;
  op.pads = {pad, 1, 0, pad};
  op.activation = {-20.0F, 30.0F};
  const TensorDesc y_desc = conv_output(op, x_desc, weight);
  const Doubles x = integers(3, 2 * x_desc.shape.elements());
  const std::vector<float> w = test::random_integers(4, static_cast<std::size_t>(weight.elements()));
  const std::vector<float> bias = test::random_integers(5, 5);
  const Doubles residual = integers(6, 2 * y_desc.shape.elements());
  Doubles expected(residual.size(), kNaN);
  Doubles actual(residual.size(), kNaN);
  const Range rows{0, 2 * y_desc.shape[2]};
  conv2d_reference(op, x_desc, weight, y_desc, x.data(), w.data(), bias.data(), residual.data(), expected.data(), rows);
  depthwise_conv_reference(op, x_desc, weight, y_desc, x.data(), w.data(), bias.data(), residual.data(), actual.data(),
                           rows);
  CAPTURE(to_string(layout), kernel, stride, dilation, pad);
  CHECK(actual == expected);
}

TEST_CASE("a window wholly in the padding gives the bias") {
  const TensorDesc x_desc = nhwc(Shape{1, 1, 1, 1});
  const Shape weight{1, 1, 1, 1};
  Conv2d op;
  op.pads = {2, 0, 0, 0};
  const TensorDesc y_desc = conv_output(op, x_desc, weight);
  const Doubles x{5};
  const float w = 3;
  const float bias = 7;
  Doubles y(3, kNaN);
  conv2d_reference(op, x_desc, weight, y_desc, x.data(), &w, &bias, nullptr, y.data(), {0, 3});
  CHECK(y == Doubles{7, 7, 22});
  depthwise_conv_reference(op, x_desc, weight, y_desc, x.data(), &w, &bias, nullptr, y.data(), {0, 3});
  CHECK(y == Doubles{7, 7, 22});
}

TEST_CASE("gemm_reference gives the values worked out by hand, row by row") {
  const std::vector<float> w{1, 0, -1, 2, 3, 4};  // (2, 3)
  const std::vector<float> bias{10, -20};
  const Doubles x = one_to(6);
  Doubles y(4, kNaN);
  gemm_reference(Gemm{}, Shape{2, 3}, x.data(), w.data(), bias.data(), y.data(), {0, 2});
  CHECK(y == Doubles{8, 0, 8, 27});
  gemm_reference(Gemm{Activation::relu6()}, Shape{2, 3}, x.data(), w.data(), nullptr, y.data(), {1, 2});
  CHECK(y == Doubles{8, 0, 0, 6});
}

TEST_CASE("activate clips, keeps NaN, and gives hi where lo > hi") {
  CHECK(activate(-1.0, Activation::relu()) == 0.0);
  CHECK(activate(7.0, Activation::relu6()) == 6.0);
  CHECK(activate(-kInf, Activation::none()) == -kInf);
  CHECK(std::isnan(activate(kNaN, Activation::relu6())));
  CHECK(activate(0.0, Activation{5.0F, 3.0F}) == 3.0);
  CHECK(activate(9.0F, Activation{5.0F, 3.0F}) == 3.0F);
}

TEST_CASE("scale_shift finds the channel in both layouts") {
  const std::vector<float> scale{1, 10};
  const std::vector<float> shift{0, 5};
  const Doubles x{1, 2, 3, 4};
  Doubles y(4, kNaN);
  scale_shift(ScaleShift{}, 2, 2, x.data(), scale.data(), shift.data(), y.data(), {0, 1});  // channels first
  CHECK(y == Doubles{1, 2, 35, 45});
  scale_shift(ScaleShift{}, 2, 1, x.data(), scale.data(), shift.data(), y.data(), {0, 2});  // channels last
  CHECK(y == Doubles{1, 25, 3, 45});
}

TEST_CASE("max pooling ignores padding and keeps NaN") {
  Pool2d op;
  op.kernel = {2, 2};
  op.strides = {2, 2};
  op.pads = {1, 1, 0, 0};
  const Doubles x{-1, -2, -3, -4, -5, -6, -7, -8, -9};
  CHECK(pool(op, nchw(Shape{1, 1, 3, 3}), x) == Doubles{-1, -2, -4, -5});
  op = {};
  op.kernel = {1, 3};
  for (const Doubles& row : {Doubles{kNaN, 1, 2}, Doubles{1, kNaN, 2}, Doubles{1, 2, kNaN}}) {
    CHECK(std::isnan(pool(op, nchw(Shape{1, 1, 1, 3}), row).front()));
  }
}

TEST_CASE("average pooling divides by the pixels inside, or by all that count_include_pad names") {
  Pool2d op;
  op.kind = PoolKind::Average;
  op.kernel = {5, 5};
  op.pads = {2, 2, 2, 2};
  const Doubles y = pool(op, nchw(Shape{1, 1, 5, 5}), one_to(25));
  CHECK(Doubles(y.begin(), y.begin() + 5) == Doubles{7, 7.5, 8, 8.5, 9});
  op.count_include_pad = true;
  const Doubles padded = pool(op, nchw(Shape{1, 1, 5, 5}), one_to(25));
  CHECK(padded[0] == 63.0 / 25.0);
  CHECK(padded[1] == 90.0 / 25.0);
  CHECK(padded[24] == 171.0 / 25.0);
}

TEST_CASE("ceil_mode keeps a last partial window and counts only what is there") {
  Pool2d op;
  op.kind = PoolKind::Average;
  op.kernel = {3, 3};
  op.strides = {2, 2};
  op.ceil_mode = true;
  CHECK(pool(op, nchw(Shape{1, 1, 4, 4}), one_to(16)) == Doubles{6, 7.5, 12, 13.5});
  op.count_include_pad = true;  // beyond the image there is no padding to count
  CHECK(pool(op, nchw(Shape{1, 1, 4, 4}), one_to(16)) == Doubles{6, 7.5, 12, 13.5});
  op.kind = PoolKind::Max;
  CHECK(pool(op, nchw(Shape{1, 1, 4, 4}), one_to(16)) == Doubles{11, 12, 15, 16});
}

TEST_CASE("a dilated pool takes every second pixel, and counts only those of its window") {
  Pool2d op;
  op.kernel = {2, 2};
  op.dilations = {2, 2};
  CHECK(pool(op, nchw(Shape{1, 1, 3, 4}), one_to(12)) == Doubles{11, 12});
  op.kind = PoolKind::Average;
  CHECK(pool(op, nchw(Shape{1, 1, 3, 4}), one_to(12)) == Doubles{6, 7});
  op.pads = {1, 0, 0, 0};
  CHECK(pool(op, nchw(Shape{1, 1, 3, 3}), one_to(9)) == Doubles{5, 5});  // (4 + 6) / 2, (1 + 3 + 7 + 9) / 4
  op.count_include_pad = true;
  CHECK(pool(op, nchw(Shape{1, 1, 3, 3}), one_to(9)) == Doubles{2.5, 5});
  op.pads = {};
  op.strides = {1, 2};
  op.ceil_mode = true;  // the second window's columns 2 and 4, of which the image has one
  CHECK(pool(op, nchw(Shape{1, 1, 3, 4}), one_to(12)) == Doubles{6, 7});
}

TEST_CASE("pooling finds the channel in both layouts") {
  Pool2d op;
  op.kind = PoolKind::Average;
  op.kernel = {2, 2};
  const Doubles first{1, 2, 3, 4, 50, 60, 70, 80};
  const Doubles last{1, 50, 2, 60, 3, 70, 4, 80};
  CHECK(pool(op, nchw(Shape{1, 2, 2, 2}), first) == Doubles{2.5, 65});
  CHECK(pool(op, nhwc(Shape{1, 2, 2, 2}), last) == Doubles{2.5, 65});
  Doubles y(2, kNaN);
  global_average_pool(nchw(Shape{1, 2, 2, 2}), first.data(), y.data(), {0, 2});
  CHECK(y == Doubles{2.5, 65});
  y.assign(2, kNaN);
  global_average_pool(nhwc(Shape{1, 2, 2, 2}), last.data(), y.data(), {1, 2});
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 65);
}

TEST_CASE("global average pooling goes on from one picture to the next") {
  const Doubles x = one_to(24);  // 2 pictures of (2, 2, 3)
  Doubles y(6, kNaN);
  global_average_pool(nhwc(Shape{1, 3, 2, 2}), x.data(), y.data(), {1, 5});
  CHECK(std::isnan(y[0]));
  CHECK(Doubles(y.begin() + 1, y.begin() + 5) == Doubles{6.5, 7.5, 17.5, 18.5});
  CHECK(std::isnan(y[5]));
}

TEST_CASE("softmax gives the values worked out by hand, far from zero as well") {
  // exp(log 2) and the like are within a rounding or two of the whole numbers.
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  const Doubles x{0, std::log(2.0), std::log(3.0), 1000, 1000, -kInf};
  Doubles y(6, kNaN);
  softmax(3, 1, x.data(), y.data(), {0, 2});
  CHECK(std::abs(y[0] - 1.0 / 6.0) <= kRounding);
  CHECK(std::abs(y[1] - 2.0 / 6.0) <= kRounding);
  CHECK(std::abs(y[2] - 3.0 / 6.0) <= kRounding);
  CHECK(y[3] == 0.5);
  CHECK(y[4] == 0.5);
  CHECK(y[5] == 0.0);
}

TEST_CASE("the logarithm of a softmax is finite where the softmax is 0") {
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  // Two rows, interleaved.
  const Doubles x{0, 1000, std::log(3.0), 0, -kInf, -1000};
  Doubles y(6, kNaN);
  log_softmax(3, 2, x.data(), y.data(), {0, 2});
  CHECK(std::abs(y[0] - std::log(0.25)) <= kRounding);
  CHECK(std::abs(y[2] - std::log(0.75)) <= kRounding);
  CHECK(y[4] == -kInf);
  CHECK(y[1] == 0.0);
  CHECK(y[3] == -1000.0);
  CHECK(y[5] == -2000.0);
}

TEST_CASE("softmax finds interleaved rows") {
  // Two blocks of two rows of three columns: each row is whole where the others are far away.
  const Doubles x{5, 1, 5, 1, 5, 1, -kInf, 0, 0, 0, 0, -kInf};
  Doubles y(12, kNaN);
  softmax(3, 2, x.data(), y.data(), {1, 4});
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 1.0 / 3.0);
  CHECK(y[3] == 1.0 / 3.0);
  CHECK(Doubles(y.begin() + 6, y.end()) == Doubles{0, 0.5, 0.5, 0.5, 0.5, 0});
}

TEST_CASE("a NaN makes its softmax row NaN and leaves the others") {
  const Doubles x{1, kNaN, 2, 2};
  Doubles y(4, 0.0);
  softmax(2, 1, x.data(), y.data(), {0, 2});
  CHECK(std::isnan(y[0]));
  CHECK(std::isnan(y[1]));
  CHECK(y[2] == 0.5);
}

TEST_CASE("layout transforms and transposes move every element to its place") {
  const Doubles first = one_to(24);  // 2 pictures of (2, 3, 2) in NCHW
  const TensorDesc from = nchw(Shape{1, 2, 3, 2});
  const TensorDesc to = nhwc(Shape{1, 2, 3, 2});
  Doubles last(24, kNaN);
  const auto copy = [](const CopyPlan& plan, const Doubles& x, Doubles& y) {
    copy_permuted(plan, x.data(), y.data(), {0, 2 * plan.axes[1].extent});
  };
  copy(plan_layout_transform(from, to), first, last);
  CHECK(Doubles(last.begin(), last.begin() + 12) == Doubles{1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12});
  CHECK(last[12] == 13);
  CHECK(last[13] == 19);
  Doubles back(24, kNaN);
  copy(plan_layout_transform(to, from), last, back);
  CHECK(back == first);

  Transpose op;
  op.permutation = {0, 2, 3, 1};
  Doubles transposed(24, kNaN);
  copy(plan_transpose(op, from, nchw(Shape{1, 3, 2, 2})), first, transposed);
  CHECK(transposed == last);
}

TEST_CASE("transposes of any shape and layout, however their rows are shared out") {
  constexpr std::int64_t kPictures = 2;
  const std::vector<std::array<std::int64_t, 3>> shapes{{2, 3, 4},    {17, 5, 33}, {3, 20, 16}, {1, 7, 9},
                                                        {40, 1, 18},  {6, 19, 1},  {1, 1, 8},   {16, 16, 16},
                                                        {33, 17, 35}, {1, 1, 1}};
  for (const auto& [c, h, w] : shapes) {
    for (const Layout x_layout : {Layout::NCHW, Layout::NHWC}) {
      for (const Layout y_layout : {Layout::NCHW, Layout::NHWC}) {
        std::vector<std::int64_t> order{1, 2, 3};
        do {
          Transpose op;
          op.permutation = {0, order[0], order[1], order[2]};
          const Shape x_shape{1, c, h, w};
          const auto extent = [&](std::size_t i) { return x_shape[static_cast<std::size_t>(op.permutation[i])]; };
          const TensorDesc x_desc{DType::F32, x_shape, x_layout};
          const TensorDesc y_desc{DType::F32, Shape{1, extent(1), extent(2), extent(3)}, y_layout};
          const Strides xs = strides_of(x_desc);
          const Strides ys = strides_of(y_desc);
          const std::int64_t elements = x_shape.elements();
          Floats x(static_cast<std::size_t>(kPictures * elements));
          std::iota(x.begin(), x.end(), 1.0F);
          Floats expected(x.size());
          for (std::int64_t i = 0; i < kPictures * elements; ++i) {
            const std::array<std::int64_t, 3> at{i / (h * w) % c, i / w % h, i % w};
            std::int64_t from = i / elements * elements;
            std::int64_t to = from;
            for (std::size_t axis = 0; axis < 3; ++axis) {
              from += at[axis] * xs[axis + 1];
              to += at[static_cast<std::size_t>(op.permutation[axis + 1] - 1)] * ys[axis + 1];
            }
            expected[static_cast<std::size_t>(to)] = x[static_cast<std::size_t>(from)];
          }
          const CopyPlan plan = plan_transpose(op, x_desc, y_desc);
          const std::int64_t rows = kPictures * plan.axes[1].extent;
          for (const std::int64_t part : {rows, std::int64_t{7}, std::int64_t{1}}) {
            CAPTURE(c, h, w, x_layout == Layout::NCHW, y_layout == Layout::NCHW, op.permutation, part);
            Floats y(x.size(), -1.0F);
            for (std::int64_t row = 0; row < rows; row += part) {
              copy_permuted(plan, x.data(), y.data(), {row, std::min(rows, row + part)});
            }
            CHECK(y == expected);
          }
        } while (std::ranges::next_permutation(order).found);
      }
    }
  }
}

TEST_CASE("reshape keeps the NCHW order, whatever the layouts") {
  const Doubles last{1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12};  // (2, 3, 2) in NHWC
  Doubles y(12, kNaN);
  reshape(nhwc(Shape{1, 2, 3, 2}), nchw(Shape{1, 12}), last.data(), y.data(), {0, 1});
  CHECK(y == one_to(12));
  reshape(nchw(Shape{1, 12}), nhwc(Shape{1, 2, 3, 2}), one_to(12).data(), y.data(), {0, 1});
  CHECK(y == last);
}

TEST_CASE("pad surrounds each picture with the value") {
  Pad op;
  op.pads = {1, 0, 0, 2};
  op.value = 9;
  const Doubles x = one_to(4);
  Doubles y(8, kNaN);
  pad(op, nhwc(Shape{1, 2, 1, 1}), nhwc(Shape{1, 2, 2, 3}), x.data(), (y.assign(24, kNaN), y.data()), {0, 4});
  CHECK(Doubles(y.begin(), y.begin() + 12) == Doubles{9, 9, 9, 9, 9, 9, 1, 2, 9, 9, 9, 9});
  CHECK(y[18] == 3);
  CHECK(y[19] == 4);
}

}  // namespace
}  // namespace mobicuda::cpu
