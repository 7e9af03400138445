// The cuDNN baseline through the public interface: every kind of layer against the fp64 oracle with derived
// bounds, small networks, and the promises that all engines make.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include <mobicuda/cuda_interop.h>

#include "baselines/cudnn_runs.h"
#include "runtime/device_buffer.h"
#include "support/catch.h"
#include "support/network_oracle.h"
#include "support/pictures.h"

namespace mobicuda::test {
namespace {

constexpr std::int64_t kLongestSum = 130;  // of small_mobilenet(): its classifier's

// ---- layers --------------------------------------------------------------------------------------

TEST_CASE("cudnn: pointwise convolutions stay within the hard bound of the oracle") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Tf32, Precision::Fp16);
  check_conv({32, 9, 7, 16, 1, 1, conv_op(1, {}, 1, Activation::none())}, precision, 2);
  check_conv({16, 14, 14, 96, 1, 1, conv_op(1, {}, 1, Activation::relu6())}, precision, 3);
  check_conv({24, 5, 6, 24, 1, 1, conv_op(1, {}, 1, Activation::none()), true, true}, precision, 2);
}

TEST_CASE("cudnn: pointwise convolutions of odd channels and other activations stay within the hard bound") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16, Precision::Fp64);
  check_conv({5, 6, 7, 33, 1, 1, conv_op(1, {}, 1, Activation::relu()), false}, precision, 1);
  check_conv({64, 7, 7, 128, 1, 1, conv_op(1, {}, 1, {-0.5F, 2.0F})}, precision, 1);
}

TEST_CASE("cudnn: depthwise convolutions stay within the hard bound of the oracle") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16, Precision::Fp64);
  check_conv({32, 14, 14, 32, 3, 3, conv_op(1, {1, 1, 1, 1}, 32, Activation::relu6())}, precision, 2);
  check_conv({48, 15, 12, 48, 3, 3, conv_op(2, {1, 1, 1, 1}, 48, Activation::relu6())}, precision, 2);
  check_conv({40, 14, 14, 40, 3, 3, conv_op(2, {0, 0, 1, 1}, 40, Activation::relu6())}, precision, 2);
  check_conv({7, 9, 9, 7, 5, 5, conv_op(1, {2, 2, 2, 2}, 7, Activation::none()), true, true}, precision, 1);
}

TEST_CASE("cudnn: stems of any padding stay within the hard bound of the oracle") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16, Precision::Fp64);
  check_conv({3, 32, 48, 32, 3, 3, conv_op(2, {1, 1, 1, 1}, 1, Activation::relu6())}, precision, 2);
  check_conv({3, 33, 31, 32, 3, 3, conv_op(2, {0, 0, 1, 1}, 1, Activation::relu6())}, precision, 2);
}

TEST_CASE("cudnn: grouped and dilated convolutions stay within the hard bound of the oracle") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16, Precision::Fp64);
  check_conv({8, 13, 9, 16, 3, 5, conv_op(1, {1, 0, 2, 1}, 2, Activation::relu())}, precision, 1);
  ConvCase dilated{16, 13, 12, 24, 3, 3, conv_op(1, {2, 2, 2, 2}, 1, Activation::none()), false};
  dilated.op.dilations = {2, 2};
  dilated.input_layout = Layout::NHWC;
  check_conv(dilated, precision, 2);
}

TEST_CASE("cudnn: gemm stays within the hard bound of the oracle") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16, Precision::Fp64);
  struct Case {
    std::int64_t features, outputs, pictures;
  };
  for (const auto& [features, outputs, pictures] : {Case{1280, 1000, 7}, Case{128, 17, 1}}) {
    CAPTURE(features, outputs, pictures, to_string(precision));
    const auto make = [features = features, outputs = outputs](WeightKind kind) {
      TestGraph net({DType::F32, Shape{1, features}, Layout::NCHW}, 6, kind);
      return net.gemm(outputs).build();
    };
    check_layer(make, precision, features, pictures);
  }
}

TEST_CASE("cudnn: operations without sums are as exact in fp32 as in fp64") {
  const TensorDesc image{DType::F32, Shape{1, 6, 8, 5}, Layout::NCHW};
  const auto check = [&](const char* what, const std::function<void(TestGraph&)>& append) {
    TestGraph net(image, 8);
    append(net);
    const Graph graph = net.build();
    const Floats input = random_integers(9, static_cast<std::size_t>(3 * image.shape.elements()));
    INFO(what);
    CHECK(compare_exact(run_cudnn(graph, Precision::Fp32, input), as_doubles(run_oracle(graph, input))));
    CHECK(compare_exact(run_cudnn(graph, Precision::Fp64, input), as_doubles(run_oracle(graph, input))));
    // These numbers are exact in half as well.
    CHECK(compare_exact(run_cudnn(graph, Precision::Fp16, input), as_doubles(run_oracle(graph, input))));
  };
  check("add", [](TestGraph& net) { net.add(Add{Activation::relu6()}, {net.last(), net.last()}); });
  check("clip", [](TestGraph& net) { net.add(Clip{{-1.0F, 2.5F}}, {net.last()}); });
  check("max pooling", [](TestGraph& net) {
    net.add(Pool2d{PoolKind::Max, {2, 3}, {2, 1}, {1, 1, 1, 1}, false, false}, {net.last()});
  });
  check("average pooling", [](TestGraph& net) {
    net.add(Pool2d{PoolKind::Average, {2, 2}, {2, 1}, {}, false, false}, {net.last()});
  });
  check("transpose", [](TestGraph& net) { net.add(Transpose{{0, 3, 1, 2}}, {net.last()}); });
  check("pad", [](TestGraph& net) { net.add(Pad{{1, 2, 3, 0}, 0.5F}, {net.last()}); });
  check("pad of one pixel", [](TestGraph& net) {
    net.add(Pool2d{PoolKind::Max, {8, 5}, {1, 1}, {}, false, false}, {net.last()});
    net.add(Pad{{1, 2, 3, 0}, 0.5F}, {net.last()});
  });
  check("reshape", [](TestGraph& net) { net.flatten(); });
  check("reshape after work", [](TestGraph& net) {
    net.add(Clip{{-1.0F, 2.0F}}, {net.last()}).flatten().add(Clip{}, {net.last()});
  });
  check("nothing", [](TestGraph& net) { net.add(Identity{}, {net.last()}); });
}

TEST_CASE("cudnn: pictures of any number of channels and pixels are rearranged exactly") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16, Precision::Fp64);
  for (const std::int64_t channels : {1, 3, 4, 5, 8}) {
    for (const std::int64_t width : {6, 7}) {
      CAPTURE(channels, width, to_string(precision));
      TestGraph net({DType::F32, Shape{1, channels, 10, width}, Layout::NCHW}, 8);
      const Graph graph = net.add(Clip{{-3.0F, 3.0F}}, {net.last()}).build();
      const Floats input = random_integers(10, static_cast<std::size_t>(3 * channels * 10 * width));
      CHECK(compare_exact(run_cudnn(graph, precision, input), as_doubles(run_oracle(graph, input))));
    }
  }
}

TEST_CASE("cudnn: scale and shift, and the global average, stay within the hard bound of the oracle") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16, Precision::Fp64);
  const TensorDesc image{DType::F32, Shape{1, 40, 7, 5}, Layout::NCHW};
  const auto scaled = [&](WeightKind kind) {
    TestGraph net(image, 8, kind);
    const ValueId scale = net.constant(Shape{40}, 2.0F);
    const ValueId shift = net.constant(Shape{40}, 2.0F);
    return net.add(ScaleShift{}, {net.last(), scale, shift}).build();
  };
  check_layer(scaled, precision, 1, 2);
  const auto averaged = [&](WeightKind kind) {
    TestGraph net(image, 8, kind);
    return net.add(GlobalAveragePool{}, {net.last()}).build();
  };
  check_layer(averaged, precision, 7 * 5, 3);
}

TEST_CASE("cudnn: softmax stays within its derived error") {
  constexpr std::int64_t kColumns = 1000;
  constexpr double kLargest = 10.0;
  TestGraph net({DType::F32, Shape{1, kColumns}, Layout::NCHW}, 1);
  const Graph graph = net.add(Softmax{}, {net.last()}).build();
  const Floats input = random_uniform(3, 2 * kColumns, -10.0F, 10.0F);
  const std::vector<double> expected = as_doubles(run_oracle(graph, input));
  std::vector<double> allowed;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    allowed.push_back(expected[i] * softmax_relative_error(kLargest - static_cast<double>(input[i])));
  }
  CHECK(compare_elements(run_cudnn(graph, Precision::Fp32, input), expected, allowed));
  CHECK(compare_rel_l2(run_cudnn(graph, Precision::Fp64, input), expected, 2 * kUnitF32));
}

TEST_CASE("cudnn: the logarithm of a softmax stays within its derived error") {
  constexpr std::int64_t kColumns = 1000;
  TestGraph net({DType::F32, Shape{1, kColumns}, Layout::NCHW}, 1);
  const Graph graph = net.add(LogSoftmax{}, {net.last()}).build();
  const Floats input = random_uniform(3, 2 * kColumns, -200.0F, 200.0F);
  const std::vector<double> expected = as_doubles(run_oracle(graph, input));
  std::vector<double> allowed;
  for (const double y : expected) allowed.push_back(log_softmax_error(y));
  CHECK(compare_elements(run_cudnn(graph, Precision::Fp32, input), expected, allowed));
  CHECK(compare_rel_l2(run_cudnn(graph, Precision::Fp64, input), expected, 2 * kUnitF32));
}

// ---- networks ------------------------------------------------------------------------------------

TEST_CASE("cudnn: a small MobileNetV2 agrees with the oracle") {
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16, Precision::Fp64);
  const Graph graph = small_mobilenet(32, 48, 11);
  const Floats input = input_for(graph, 3);
  CHECK(NetworkOracle(graph, input, 3, kLongestSum).compare(run_cudnn(graph, precision, input), precision));
}

TEST_CASE("cudnn: fewer pictures than max_batch give what a full batch gives") {
  constexpr std::int64_t kBatch = 4;
  const Graph graph = small_mobilenet(32, 32, 12);
  const auto engine = make_cudnn_backend()->compile(graph, options_for(Precision::Fp16, kBatch));
  const Floats input = input_for(graph, kBatch);
  const Floats together = run(*engine, input);
  const auto in = static_cast<std::ptrdiff_t>(engine->input().shape.elements());
  const auto out = static_cast<std::ptrdiff_t>(engine->output().shape.elements());
  for (std::ptrdiff_t n = 1; n < kBatch; ++n) {
    CAPTURE(n);
    const Floats first = run(*engine, Floats(input.begin(), input.begin() + n * in));
    CHECK(compare_bits(first, Floats(together.begin(), together.begin() + n * out)));
  }
}

TEST_CASE("cudnn: without a CUDA graph, and with an allocation for each tensor, the results are the same") {
  const Graph graph = small_mobilenet(32, 32, 13);
  const Floats input = input_for(graph, 2);
  EngineOptions options = options_for(Precision::Fp32, 2);
  options.cuda_graph = false;
  options.guarded_arena = true;
  const Floats actual = run(*make_cudnn_backend()->compile(graph, options), input);
  CHECK(NetworkOracle(graph, input, 2, kLongestSum).compare(actual, Precision::Fp32));
}

TEST_CASE("cudnn: one engine serves several threads, each with its session") {
  const Graph graph = small_mobilenet(32, 32, 14);
  const auto engine = make_cudnn_backend()->compile(graph, options_for(Precision::Fp16, 2));
  const Floats input = input_for(graph, 2);
  const Floats expected = run(*engine, input);
  std::vector<Floats> results(3);
  std::vector<std::string> errors(results.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < results.size(); ++t) {
      threads.emplace_back([&, t] {
        try {
          for (int i = 0; i < 5; ++i) results[t] = run(*engine, input);
        } catch (const Error& error) {
          errors[t] = error.what();
        }
      });
    }
  }
  for (std::size_t t = 0; t < results.size(); ++t) {
    CHECK(errors[t].empty());
    CAPTURE(errors[t]);
    CHECK(compare_bits(results[t], expected));
  }
}

TEST_CASE("cudnn: runs on the caller's stream and device buffers") {
  const Graph graph = small_mobilenet(32, 32, 15);
  const auto engine = make_cudnn_backend()->compile(graph, options_for(Precision::Fp32, 2));
  const Floats input = input_for(graph, 2);
  const Floats expected = run(*engine, input);
  const auto session = engine->create_session();
  const auto bytes = [](const Floats& values) { return values.size() * sizeof(float); };
  DeviceBuffer x(static_cast<std::int64_t>(bytes(input)), "x");
  const DeviceBuffer y(static_cast<std::int64_t>(bytes(expected)), "y");
  x.upload(std::as_bytes(std::span(input)));
  const Stream stream;
  run_on_device(*session, 2, static_cast<const float*>(x.data()), static_cast<float*>(y.data()), stream.get());
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  Floats actual(expected.size());
  REQUIRE(cudaMemcpy(actual.data(), y.data(), bytes(actual), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(compare_bits(actual, expected));
}

TEST_CASE("cudnn: pictures of bytes equal the oracle on the floats that they stand for") {
  const Graph graph = small_mobilenet(32, 32, 15);
  const auto precision = GENERATE(Precision::Fp32, Precision::Fp16);
  EngineOptions options = options_for(precision, 2);
  const auto pictures = random_pictures(graph, 2);
  options.picture_input = exact_picture_input();
  const auto session = make_cudnn_backend()->compile(graph, options)->create_session();
  Floats actual(static_cast<std::size_t>(2 * graph.output_desc().shape.elements()));
  session->run(pictures, actual);
  CHECK(NetworkOracle(graph, floats_of(graph, pictures), 2, kLongestSum).compare(actual, precision));
  std::copy(pictures.begin(), pictures.end(), session->staged_pictures(2).begin());
  session->run_staged(2);
  CHECK(compare_bits(session->staged_output(2), actual));
}

// ---- what the engine says ------------------------------------------------------------------------

TEST_CASE("cudnn: layers carry the nodes' names, kernels and counts") {
  std::vector<std::string> messages;
  EngineOptions options = options_for(Precision::Fp16, 1);
  options.log = [&](LogLevel, std::string_view text) { messages.emplace_back(text); };
  const Graph graph = small_mobilenet(32, 32, 16);
  const auto engine = make_cudnn_backend()->compile(graph, options);
  std::int64_t flops = 0;
  for (const LayerInfo& layer : engine->layers()) {
    CAPTURE(layer.name, layer.kernel);
    CHECK_FALSE(layer.name.empty());
    CHECK(layer.kernel.find('/') != std::string::npos);
    CHECK(layer.activation_bytes > 0);
    flops += layer.flops;
  }
  std::int64_t expected_flops = 0;
  const Graph optimized = optimize(graph);
  for (const Node& node : optimized.nodes()) expected_flops += flops_per_picture(optimized, node);
  CHECK(flops == expected_flops);
  CHECK(messages.size() > 10);
  CHECK(engine->memory().weight_bytes > 0);
  const auto session = engine->create_session();
  for (const ProfileMode mode : {ProfileMode::AsRun, ProfileMode::Serialized}) {
    CHECK(session->profile(1, 3, mode).layers.size() == engine->layers().size());
  }
}

}  // namespace
}  // namespace mobicuda::test
