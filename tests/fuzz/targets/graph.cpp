// Graphs made by calls of GraphBuilder. An input is read choice by choice. The first byte says whether the graph is
// valid, made as those of the differential tests but for the most part smaller, or of any operations with any
// attributes.
#include <algorithm>
#include <cmath>
#include <limits>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/error.h>

#include "fuzz/target.h"
#include "support/bounded_graph.h"
#include "support/random_graph.h"

namespace mobicuda::fuzz {
namespace {

using test::ByteChoices;

// Few nodes and small tensors reach the same branches in less time; one kind of these has more nodes and larger
// tensors.
constexpr std::uint32_t kKinds = 64;
struct Size {
  std::uint32_t most_nodes;
  int shrink;
};
constexpr Size kUsual{3, 32};
constexpr Size kLarge{8, 16};

// The engine's answer must be within the bounds of the graph as it was written, before any pass.
void run_valid(ByteChoices& choices, const Size& size) {
  const Graph graph = test::random_graph(choices, size.most_nodes, size.shrink);
  print(graph);
  const Precision precision = choices.one_in(2) ? Precision::Fp64 : Precision::Fp32;
  const auto elements = static_cast<std::size_t>(graph.input_desc().shape.elements());
  std::vector<float> image(elements);
  for (float& x : image) x = static_cast<float>(choices.below(256)) / 128 - 1;
  EngineOptions options = small_options();
  options.precision = precision;
  const auto engine = make_cpu_backend()->compile(graph, options);
  std::vector<float> output(static_cast<std::size_t>(graph.output_desc().shape.elements()));
  engine->create_session()->run(image, output);
  const auto bounded = test::run_bounded(graph, image, test::arithmetic_of(precision, "cpu"));
  const auto verdict = test::compare_elements(output, bounded.value, bounded.allowed);
  if (!verdict) fail("beyond the bounds: " + verdict.reason + "\n" + print(graph));
}

class Wild {
 public:
  explicit Wild(ByteChoices& choices) : choices_(choices) {}

  void run() {
    GraphBuilder builder("wild");
    returns([&] { builder.set_input("x", {DType::F32, shape(), layout()}); });
    while (!choices_.done()) {
      returns([&] {
        if (choices_.one_in(4)) {
          builder.add_constant("c", constant());
        } else {
          builder.add_node(op(), inputs(), {}, "y");
        }
        ++values_;
      });
    }
    returns([&] { static_cast<void>(builder.value(id())); });
    returns([&] { builder.rename(id(), "renamed"); });
    returns([&] {
      const Graph graph = std::move(builder).build(id());
      print(graph);
      static_cast<void>(graph.consumers(id()));
      for (const Node& node : graph.nodes()) flops_per_picture(graph, node);
      returns([&] { static_cast<void>(graph.producer(id())); });
      print(optimize(graph));
      if (is_small(graph)) run_once(*make_cpu_backend()->compile(graph, small_options()));
    });
  }

 private:
  std::int64_t number() {
    static constexpr std::int64_t kNumbers[] = {1,  2,    3,     4,     0,          -1,         5,         8,
                                                16, 1024, 65536, 65537, 2147483647, 2147483648, INT64_MAX, INT64_MIN};
    return choices_.any_of(kNumbers);
  }
  float fraction() {
    static constexpr float kFractions[] = {0.0F,
                                           1.0F,
                                           0.5F,
                                           -1.0F,
                                           1e30F,
                                           std::numeric_limits<float>::infinity(),
                                           std::numeric_limits<float>::quiet_NaN()};
    return choices_.any_of(kFractions);
  }
  // Small extents for the most part, so that operations fit each other.
  std::int64_t extent() { return choices_.one_in(8) ? number() : 1 + choices_.below(4); }
  Shape shape() {
    Shape made;
    returns([&] {
      const std::uint32_t rank = choices_.one_in(4) ? choices_.below(8) : 4;
      std::vector<std::int64_t> dims;
      for (std::uint32_t axis = 0; axis < rank; ++axis) dims.push_back(axis == 0 ? 1 : extent());
      made = Shape(dims);
    });
    return made;
  }
  Layout layout() { return choices_.one_in(4) ? static_cast<Layout>(choices_.below(4)) : Layout::NCHW; }
  ValueId id() { return static_cast<ValueId>(choices_.below(static_cast<std::uint32_t>(values_ + 2))) - 1; }
  std::vector<ValueId> inputs() {
    std::vector<ValueId> ids(1 + choices_.below(4));
    for (ValueId& one : ids) one = id();
    return ids;
  }
  std::shared_ptr<const HostTensor> constant() {
    const Shape of = shape();
    if (of.elements() > 4096) return nullptr;
    if (choices_.one_in(4)) {
      HostTensor integers(choices_.one_in(2) ? DType::I8 : choices_.one_in(2) ? DType::U8 : DType::I32, of);
      std::ranges::fill(integers.bytes(), static_cast<std::byte>(choices_.below(256)));
      return std::make_shared<const HostTensor>(std::move(integers));
    }
    const std::vector<float> values(static_cast<std::size_t>(of.elements()), fraction());
    return std::make_shared<const HostTensor>(HostTensor::of<float>(of, values));
  }
  std::array<std::int64_t, 2> pair() { return {window(), window()}; }
  std::int64_t window() { return choices_.one_in(6) ? number() : 1 + choices_.below(3); }
  std::int64_t offset() { return choices_.one_in(6) ? number() : choices_.below(3); }
  Padding padding() {
    if (choices_.one_in(2)) return {};
    return {offset(), offset(), offset(), offset()};
  }
  Activation activation() {
    Activation made = Activation::of(static_cast<ActivationKind>(choices_.below(9)), fraction());
    if (choices_.one_in(2)) made = {fraction(), fraction()};
    return made;
  }

  Op op() {
    switch (choices_.below(18)) {
      case 0:
        return Conv2d{pair(), pair(), padding(), window(), activation()};
      case 1:
        return Gemm{activation()};
      case 2:
        return ScaleShift{activation()};
      case 3:
        return Add{activation()};
      case 4:
        if (choices_.one_in(2)) return Extremum{static_cast<ExtremumKind>(choices_.below(3)), activation()};
        return Mul{activation()};
      case 5:
        return Unary{static_cast<UnaryKind>(choices_.below(8)), fraction()};
      case 6:
        return Clip{activation()};
      case 7: {
        Pool2d pool{static_cast<PoolKind>(choices_.below(3)),
                    pair(),
                    pair(),
                    padding(),
                    choices_.one_in(2),
                    choices_.one_in(2),
                    pair()};
        return pool;
      }
      case 8:
        return GlobalAveragePool{};
      case 9:
        return LocalResponseNorm{window(), fraction(), fraction(), fraction()};
      case 10:
        return choices_.one_in(2) ? Op{Softmax{}} : Op{LogSoftmax{}};
      case 11:
        return Concat{window()};
      case 12:
        return Slice{window(), offset(), window()};
      case 13:
        return Reshape{shape()};
      case 14: {
        Transpose transpose;
        for (std::uint32_t axes = choices_.below(6); axes > 0; --axes) {
          transpose.permutation.push_back(choices_.one_in(8) ? number() : choices_.below(4));
        }
        return transpose;
      }
      case 15:
        return Pad{padding(), fraction(), static_cast<PadMode>(choices_.below(4))};
      case 16:
        return LayoutTransform{layout()};
      default:
        return choices_.one_in(2) ? integer_op() : Op{Identity{}};
    }
  }

  std::int32_t small() { return choices_.one_in(4) ? static_cast<std::int32_t>(choices_.below(600)) - 300 : 0; }
  QuantizedResult result() {
    const DType dtype = choices_.one_in(8) ? static_cast<DType>(choices_.below(9)) : DType::I8;
    if (choices_.one_in(4)) return QuantizedResult::real();
    return {dtype, {choices_.one_in(4) ? fraction() : 0.5F, small()}, {small(), small()}};
  }
  Op integer_op() {
    switch (choices_.below(7)) {
      case 0:
        return Quantize{result()};
      case 1:
        return Dequantize{};
      case 2:
        return Requantize{result()};
      case 3:
        return QuantizedConv2d{pair(), pair(), padding(), window(), result()};
      case 4:
        return QuantizedGemm{result()};
      case 5:
        return QuantizedAdd{result()};
      default: {
        QuantizedAveragePool pool;
        pool.window.kind = static_cast<PoolKind>(choices_.below(3));
        pool.window.kernel = pair();
        pool.window.strides = pair();
        pool.window.pads = padding();
        pool.result = result();
        return pool;
      }
    }
  }

  ByteChoices& choices_;
  int values_ = 1;
};

bool run(Bytes input) {
  ByteChoices choices(input);
  const std::uint32_t kind = choices.below(kKinds);
  if (kind % 4 == 0) {
    Wild(choices).run();
    return true;
  }
  return returns([&] { run_valid(choices, kind == kKinds - 1 ? kLarge : kUsual); });
}

}  // namespace

Target graph() { return {run}; }

}  // namespace mobicuda::fuzz
