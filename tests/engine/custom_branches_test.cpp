// What networks with branches need, through the custom engine: against the fp64 engine.
#include <algorithm>

#include <mobicuda/mobicuda.h>

#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/gated_pointwise/gated_pointwise.h"
#include "kernels/squeeze_excite/squeeze_excite.h"
#include "support/catch.h"
#include "support/gpu_traits.h"
#include "support/graphs.h"
#include "support/network_oracle.h"
#include "support/temporary_folder.h"
#include "support/texts.h"
#include "support/tolerance.h"

namespace mobicuda {
namespace {

using test::gated_blocks;
using test::gpu_traits;
using test::NetworkOracle;
using test::TestNetwork;

EngineOptions guarded(Precision precision) {
  EngineOptions options;
  options.precision = precision;
  options.max_batch = 4;
  options.guarded_arena = true;
  return options;
}

/// Three pictures in an engine for four, and each by itself, which must give the same bits in any place of the batch.
void check(const Graph& graph, Precision precision, const EngineOptions& options) {
  constexpr std::int64_t kPictures = 3;
  constexpr std::int64_t kLongestSum = 300;
  const auto picture = static_cast<std::size_t>(graph.input_desc().shape.elements());
  const auto logits = static_cast<std::size_t>(graph.output_desc().shape.elements());
  const auto input = test::random_uniform(5, kPictures * picture);
  const auto engine = make_custom_backend()->compile(graph, options);
  const auto session = engine->create_session();
  std::vector<float> output(kPictures * logits);
  session->run(input, output);
  CHECK(NetworkOracle(graph, input, kPictures, kLongestSum).compare(output, precision));
  std::vector<float> turned_input(input.begin() + static_cast<std::ptrdiff_t>(picture), input.end());
  turned_input.insert(turned_input.end(), input.begin(), input.begin() + static_cast<std::ptrdiff_t>(picture));
  std::vector<float> turned(kPictures * logits);
  session->run(turned_input, turned);
  std::rotate(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(logits), output.end());
  CHECK(test::compare_bits(turned, output));
}

void check(const Graph& graph, Precision precision) { check(graph, precision, guarded(precision)); }

constexpr Precision kBoth[] = {Precision::Fp32, Precision::Fp16};  // of kernels that have no double
constexpr Precision kPrecisions[] = {Precision::Fp32, Precision::Fp16, Precision::Fp64};

TEST_CASE("custom: convolutions and maxima over 2x2 behind them equal the oracle", "[sanitize]") {
  for (const char* form : {"fused", "layers"}) {
    CAPTURE(form);
    EngineOptions options = guarded(Precision::Fp16);
    options.kernel_variants["pool"] = form;
    check(test::pooled_convolutions(), Precision::Fp16, options);
  }
  check(test::pooled_convolutions(), Precision::Fp32);
}

TEST_CASE("custom: pointwise convolutions that are added equal the oracle", "[sanitize]") {
  for (const char* form : {"fused", "layers"}) {
    CAPTURE(form);
    EngineOptions options = guarded(Precision::Fp16);
    options.kernel_variants["projection"] = form;
    check(test::summed_convolutions(), Precision::Fp16, options);
  }
  check(test::summed_convolutions(), Precision::Fp32);
}

TEST_CASE("custom: values joined along every axis equal the oracle", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    for (const std::int64_t axis : {1, 2, 3}) {
      CAPTURE(to_string(precision), axis);
      TestNetwork network(Shape{1, 5, 6, 7});
      const ValueId x = network.last();
      const ValueId left = network.conv(axis == 1 ? 11 : 16, 1);
      network.add(Unary{UnaryKind::Tanh}, {x});
      const ValueId right = network.conv(16, 1);
      network.add(Concat{axis}, {left, right, left});
      network.conv(12, 3, 1, {1, 1, 1, 1});
      check(std::move(network).build(), precision);
    }
  }
}

TEST_CASE("custom: more values than one step joins, the network's own input among them, equal the oracle") {
  for (const Precision precision : kPrecisions) {
    CAPTURE(to_string(precision));
    TestNetwork network(Shape{1, 8, 3, 3});
    const ValueId x = network.last();
    const ValueId y = network.conv(4, 1);
    std::vector<ValueId> values;
    for (int i = 0; i < 18; ++i) values.push_back(i % 3 == 0 ? x : y);
    network.add(Concat{}, values);
    if (precision == Precision::Fp16) network.conv(6, 1);  // in float also as the network's output
    check(std::move(network).build(), precision);
  }
}

TEST_CASE("custom: slices along every axis and a shuffle of channels equal the oracle", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    CAPTURE(to_string(precision));
    TestNetwork network(Shape{1, 8, 9, 7});
    network.conv(16, 1);
    network.add(Slice{2, 1, 7}, {network.last()});
    network.add(Slice{3, 2, 5}, {network.last()});
    const ValueId entry = network.last();
    const ValueId kept = network.add(Slice{1, 0, 8}, {entry});
    network.add(Slice{1, 8, 8}, {entry});
    network.conv(8, 1);
    network.add(Concat{}, {kept, network.last()});
    network.add(Reshape{Shape{1, 2, 8, 7, 5}}, {network.last()});
    network.add(Transpose{{0, 2, 1, 3, 4}}, {network.last()});
    network.add(Reshape{Shape{1, 16, 7, 5}}, {network.last()});
    network.conv(6, 1);
    network.add(Slice{1, 1, 3}, {network.last()});
    check(std::move(network).build(), precision);
  }
}

TEST_CASE("custom: a gate of squeeze and excite equals the oracle", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    for (const UnaryKind kind : {UnaryKind::Sigmoid, UnaryKind::HardSwish}) {
      CAPTURE(to_string(precision), static_cast<int>(kind));
      TestNetwork network(Shape{1, 7, 11, 9});
      network.conv(40, 1);
      const ValueId expanded = network.add(Unary{kind}, {network.last()});
      network.add(GlobalAveragePool{}, {expanded});
      network.conv(9, 1, 1, {}, 1, Activation::relu());
      network.conv(40, 1);
      network.add(Unary{UnaryKind::Sigmoid}, {network.last()});
      network.add(Mul{Activation::relu6()}, {expanded, network.last()});
      network.conv(12, 1);
      check(std::move(network).build(), precision);
    }
  }
}

TEST_CASE("custom: blocks with gates equal the oracle, as one launch and as layers", "[sanitize]") {
  for (const Precision precision : kBoth) {
    for (const bool smooth : {false, true}) {
      for (const std::string form : {"", "fused", "layers"}) {
        CAPTURE(to_string(precision), smooth, form);
        EngineOptions options = guarded(precision);
        options.kernel_variants["gated_project"] = "layers";
        options.kernel_variants["pair"] = "layers";
        if (!form.empty()) options.kernel_variants["gate"] = form;
        const Graph graph = gated_blocks(smooth);
        check(graph, precision, options);
        const auto engine = make_custom_backend()->compile(graph, options);
        const auto count = [&](std::string_view kernel) {
          return std::count_if(engine->layers().begin(), engine->layers().end(),
                               [&](const LayerInfo& layer) { return layer.kernel.starts_with(kernel); });
        };
        const bool clusters = gpu_traits().code >= 90;
        CHECK(count("squeeze_excite/") == (form == "layers" || !clusters ? 0 : 2));
        CHECK(count("multiply") == (form == "layers" || !clusters ? 2 : 0));
        CHECK(count("unary") == 0);
        CHECK(count("depthwise_conv/strip5x5") == 2);
      }
    }
  }
}

TEST_CASE("custom: expansions before a gate equal the oracle in one launch with the depthwise convolution",
          "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const bool smooth : {false, true}) {
    for (const kernels::ExpandDepthwiseVariant variant : kernels::expand_depthwise_variants()) {
      CAPTURE(smooth, kernels::name(variant));
      EngineOptions options = guarded(Precision::Fp16);
      options.kernel_variants["expand_depthwise"] = kernels::name(variant);
      const Graph graph = gated_blocks(smooth);
      check(graph, Precision::Fp16, options);
      const auto engine = make_custom_backend()->compile(graph, options);
      const auto pairs = std::count_if(engine->layers().begin(), engine->layers().end(), [](const LayerInfo& layer) {
        return layer.kernel.starts_with("expand_depthwise/");
      });
      // The second one has stride 2.
      CHECK(pairs == (kernels::name(variant).find("strip7") == std::string_view::npos ? 2 : 1));
    }
  }
}

TEST_CASE("custom: every variant of squeeze_excite runs by name") {
  MOBICUDA_SKIP_BELOW(90);
  for (const kernels::SqueezeExciteVariant variant : kernels::squeeze_excite_variants()) {
    CAPTURE(kernels::name(variant));
    EngineOptions options = guarded(Precision::Fp16);
    options.kernel_variants["gated_project"] = "layers";
    options.kernel_variants["squeeze_excite"] = kernels::name(variant);
    check(gated_blocks(true), Precision::Fp16, options);
  }
}

TEST_CASE("custom: gates and the projections behind them equal the oracle in one launch", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(90);
  for (const bool smooth : {false, true}) {
    for (const kernels::GatedPointwiseVariant variant : kernels::gated_pointwise_variants()) {
      CAPTURE(smooth, kernels::name(variant));
      EngineOptions options = guarded(Precision::Fp16);
      options.kernel_variants["gated_pointwise"] = kernels::name(variant);
      const Graph graph = gated_blocks(smooth);
      check(graph, Precision::Fp16, options);
      const auto engine = make_custom_backend()->compile(graph, options);
      // The projection of the second one is the head's.
      CHECK(std::count_if(engine->layers().begin(), engine->layers().end(),
                          [](const LayerInfo& layer) { return layer.kernel.starts_with("gated_pointwise/"); }) == 1);
    }
  }
}

TEST_CASE("custom: gates are timed against the layers that they stand for") {
  MOBICUDA_SKIP_BELOW(90);
  const TemporaryFolder folder;
  EngineOptions options = guarded(Precision::Fp16);
  options.timing_cache = folder.path() / "times";
  const Graph graph = gated_blocks(true);
  check(graph, Precision::Fp16, options);
  const std::string times = text_of(options.timing_cache);
  CHECK(contains(times, "|gated_pointwise n="));
  CHECK(contains(times, "|gated_pointwise/bands"));
  CHECK(contains(times, "|squeeze_excite n="));
  CHECK(contains(times, "|squeeze_excite/slices"));
  CHECK(contains(times, "|pooling/global_average+gemm/"));
  CHECK(contains(times, "+multiply|"));
  options.require_timing_cache = true;
  check(graph, Precision::Fp16, options);
  CHECK((text_of(options.timing_cache) == times));
}

TEST_CASE("custom: gates whose layers cannot run as asked, or that no kernel takes, are not timed") {
  MOBICUDA_SKIP_BELOW(90);
  const TemporaryFolder folder;
  EngineOptions options = guarded(Precision::Fp16);
  options.timing_cache = folder.path() / "times";
  // Ten squeezed channels: rows that do not start on 16 bytes.
  options.kernel_variants["gemm"] = "mma_64x64x64";
  check(gated_blocks(true), Precision::Fp16, options);
  CHECK_FALSE(contains(text_of(options.timing_cache), "squeeze_excite"));

  options.kernel_variants.clear();
  TestNetwork network(Shape{1, 3, 32, 24});
  const ValueId x = network.conv(48, 3, 2, {1, 1, 1, 1});
  network.add(GlobalAveragePool{}, {x});
  network.conv(16, 1, 1, {}, 1, Activation::relu());
  network.conv(48, 1, 1, {}, 1, Activation{0.0F, 1.0F});
  network.add(Mul{Activation{0.0F, 6.0F}}, {x, network.last()});
  network.head(10);
  check(std::move(network).build(), Precision::Fp16, options);
  CHECK_FALSE(contains(text_of(options.timing_cache), "squeeze_excite"));
}

TEST_CASE("custom: a pointwise convolution runs by gemm and by conv2d, also into its part of joined values",
          "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const Precision precision : kPrecisions) {
    for (const char* kernel : {"gemm", "conv2d"}) {
      CAPTURE(to_string(precision), kernel);
      TestNetwork network(Shape{1, 8, 7, 6});
      network.conv(16, 3, 1, {1, 1, 1, 1});
      const ValueId left = network.conv(24, 1);
      network.add(Add{}, {left, left});
      const ValueId middle = network.conv(24, 3, 1, {1, 1, 1, 1});
      const ValueId joined = network.conv(16, 1);
      network.add(Concat{1}, {network.add(Unary{UnaryKind::Tanh}, {middle}), joined});
      network.conv(12, 3);
      const Graph graph = std::move(network).build();
      EngineOptions options = guarded(precision);
      options.kernel_variants["pointwise"] = kernel;
      check(graph, precision, options);
      const auto engine = make_custom_backend()->compile(graph, options);
      const auto gemms = std::count_if(engine->layers().begin(), engine->layers().end(),
                                       [](const LayerInfo& layer) { return layer.kernel.starts_with("gemm"); });
      const int apart = precision == Precision::Fp16 ? 0 : 1;  // else conv2d writes no pixels that lie apart
      CHECK(gemms == (kernel == std::string_view("gemm") ? 2 : apart));
    }
  }
}

TEST_CASE("custom: products and extrema of equal values, of a map of pixels and of rows equal the oracle",
          "[sanitize]") {
  const Op operations[] = {Mul{}, Extremum{ExtremumKind::Max, {}}, Extremum{ExtremumKind::Min, {}}};
  for (const Precision precision : kPrecisions) {
    for (const Op& op : operations) {
      for (const int form : {0, 1, 2}) {
        CAPTURE(to_string(precision), op_name(op), form);
        TestNetwork network(Shape{1, 8, 6, 5});
        const ValueId left = network.conv(16, 1);
        ValueId right = network.conv(form == 1 ? 1 : 16, 1);
        if (form == 2) right = network.add(Slice{2, 3, 1}, {right});
        network.add(op, {left, right});
        network.conv(6, 1);
        check(std::move(network).build(), precision);
      }
    }
  }
}

TEST_CASE("custom: every unary function, norms and softmaxes of each pixel equal the oracle", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    CAPTURE(to_string(precision));
    TestNetwork network(Shape{1, 6, 9, 8});
    network.conv(16, 3, 1, {1, 1, 1, 1});
    for (const UnaryKind kind : {UnaryKind::LeakyRelu, UnaryKind::Elu, UnaryKind::Tanh, UnaryKind::HardSwish}) {
      network.add(Unary{kind, 0.5F}, {network.last()});
      network.conv(16, 1);
    }
    network.add(LocalResponseNorm{5, 1.0F, 0.75F, 2.0F}, {network.last()});
    network.conv(21, 1);
    network.add(LogSoftmax{}, {network.last()});
    // The bound is what rounded weights do; LogSoftmax makes little of those before it, and rounds its own values.
    network.conv(13, 1);
    network.add(LocalResponseNorm{4, 1.0F, 0.5F, 1.0F}, {network.last()});
    network.add(Softmax{}, {network.last()});
    check(std::move(network).build(), precision);
  }
}

TEST_CASE("custom: pools with taps apart and padding from the picture equal the oracle", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    CAPTURE(to_string(precision));
    TestNetwork network(Shape{1, 6, 12, 11});
    network.conv(16, 3, 1, {1, 1, 1, 1});
    Pool2d pool{PoolKind::Max, {3, 2}, {1, 1}, {1, 1, 1, 0}, false, false};
    pool.dilations = {2, 3};
    network.add(pool, {network.last()});
    network.add(Pad{{2, 1, 0, 3}, 0.0F, PadMode::Reflect}, {network.last()});
    network.conv(10, 1);
    pool.kind = PoolKind::Average;
    network.add(pool, {network.last()});
    network.add(Pad{{0, 4, 5, 1}, 0.0F, PadMode::Edge}, {network.last()});
    network.conv(6, 3);
    check(std::move(network).build(), precision);
  }
}

TEST_CASE("custom: values of three axes are normalised, scaled and joined in their own order", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    CAPTURE(to_string(precision));
    TestNetwork network(Shape{1, 4, 6, 5});
    network.conv(8, 1);
    network.add(Reshape{Shape{1, 8, 30}}, {network.last()});
    network.scale_shift();
    const ValueId scaled = network.last();
    network.add(Softmax{}, {scaled});
    network.add(Concat{2}, {network.last(), scaled});
    network.add(Slice{1, 2, 5}, {network.last()});
    network.add(Reshape{Shape{1, 5 * 60}}, {network.last()});
    network.gemm(7);
    check(std::move(network).build(), precision);
  }
}

int steps(const Engine& engine, std::string_view kernel) {
  return static_cast<int>(std::count_if(engine.layers().begin(), engine.layers().end(),
                                        [&](const LayerInfo& layer) { return layer.kernel == kernel; }));
}

/// check(), and how many steps copy into joined values.
void check_copies(const Graph& graph, Precision precision, int copies) {
  CHECK(steps(*make_custom_backend()->compile(graph, guarded(precision)), "concat") == copies);
  check(graph, precision);
}

TEST_CASE("custom: branches are written where they are joined", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    CAPTURE(to_string(precision));
    TestNetwork network(Shape{1, 6, 9, 8});
    const ValueId entry = network.conv(16, 3, 1, {1, 1, 1, 1});
    const ValueId one = network.conv(24, 1, 1, {}, 1, Activation::relu());
    const Pool2d pool{PoolKind::Max, {3, 3}, {1, 1}, {1, 1, 1, 1}, false, false};
    const ValueId pooled = network.add(pool, {entry});
    const ValueId inner = network.add(Concat{}, {one, pooled});  // a slice of the outer one
    const ValueId last = network.add(pool, {inner});             // reads a slice
    network.add(Concat{}, {last, inner, network.last()});        // `last` twice: once in place, once copied
    network.conv(12, 1);
    check_copies(std::move(network).build(), precision, 1);
  }
}

TEST_CASE("custom: convolutions on tensor cores are written where they are joined", "[sanitize]") {
  constexpr int kTensorCores = 80;
  for (const Precision precision : kPrecisions) {
    CAPTURE(to_string(precision));
    TestNetwork network(Shape{1, 6, 9, 8});
    const ValueId entry = network.conv(16, 3, 1, {1, 1, 1, 1});
    const ValueId wide = network.conv(24, 3, 1, {1, 1, 1, 1}, 1, Activation::relu());
    const ValueId pooled = network.add(Pool2d{PoolKind::Max, {3, 3}, {1, 1}, {1, 1, 1, 1}, false, false}, {entry});
    network.add(Concat{}, {pooled, wide});
    network.conv(12, 1);
    const bool in_place = precision == Precision::Fp16 && gpu_traits().code >= kTensorCores;
    check_copies(std::move(network).build(), precision, in_place ? 0 : 1);
  }
}

TEST_CASE("custom: a growing concatenation has one buffer, appended to or written anew for each layer", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    for (const bool appended : {true, false}) {
      CAPTURE(to_string(precision), appended);
      TestNetwork network(Shape{1, 6, 7, 5});
      network.conv(16, 3, 1, {1, 1, 1, 1});
      const Pool2d pool{PoolKind::Average, {2, 2}, {1, 1}, {}, false, false};
      std::vector<ValueId> parts{network.add(pool, {network.last()})};
      ValueId joined = parts[0];
      for (int layer = 0; layer < 4; ++layer) {
        network.add(ScaleShift{Activation::relu()}, {joined, network.constant(Shape{16 + 8 * layer}, 0.5F, 1.5F),
                                                     network.constant(Shape{16 + 8 * layer})});
        network.conv(16, 1, 1, {}, 1, Activation::relu());
        parts.push_back(network.conv(8, 1));
        joined = network.add(Concat{}, appended ? std::vector<ValueId>{joined, parts.back()} : parts);
      }
      network.scale_shift(Activation::relu());
      network.conv(10, 1);
      check_copies(std::move(network).build(), precision, 0);
    }
  }
}

TEST_CASE("custom: values that cannot be written or read in place are copied", "[sanitize]") {
  for (const Precision precision : kPrecisions) {
    CAPTURE(to_string(precision));
    TestNetwork network(Shape{1, 8, 6, 5});
    const ValueId entry = network.last();
    const ValueId odd = network.conv(13, 1);
    const ValueId even = network.conv(16, 1);
    network.add(Concat{}, {odd, even});  // the second one would start at channel 13
    network.conv(16, 1);
    const ValueId softmax = network.add(Softmax{}, {network.last()});  // writes dense pixels only
    const ValueId read = network.conv(16, 1);
    network.add(Concat{}, {read, softmax, entry});
    const ValueId joined = network.conv(8, 1);
    network.add(Softmax{}, {read});  // reads dense pixels only
    network.conv(8, 1);
    network.add(Add{}, {network.last(), joined});
    check_copies(std::move(network).build(), precision, 2);
  }
}

TEST_CASE("custom: operations without a kernel are named at compile time") {
  const auto refusal = [](TestNetwork network) -> std::string {
    try {
      make_custom_backend()->compile(std::move(network).build(), guarded(Precision::Fp32));
      return "compiled";
    } catch (const Error& error) {
      return error.code() == ErrorCode::unsupported ? error.what() : "another error";
    }
  };
  const Shape shape{1, 2, 3, 4, 5, 6};
  for (const Op& op : {Op(Mul{}), Op(Extremum{})}) {
    TestNetwork alternate(shape);
    const ValueId whole = alternate.last();
    alternate.add(Slice{2, 0, 1}, {whole});
    alternate.add(Slice{4, 0, 1}, {alternate.last()});
    alternate.add(op, {whole, alternate.last()}, "layer");
    const std::string of_op = refusal(std::move(alternate));
    CHECK(contains(of_op, std::string(op_name(op)) + " that repeats along alternate axes has no kernel"));
  }
  TestNetwork transpose(shape);
  transpose.add(Transpose{{0, 5, 4, 3, 2, 1}}, {transpose.last()}, "layer");
  const std::string of_transpose = refusal(std::move(transpose));
  CHECK(of_transpose.find("Transpose of more than 4 axes") != std::string::npos);
}

}  // namespace
}  // namespace mobicuda
