// Every exporter writes MobileNetV2 in its own way. Whatever the way, the logits must be those of the plain form,
// and the optimised graph must have the same operations, or one exporter's users would get a slower network.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter_row.h"
#include "support/catch.h"
#include "support/folders.h"
#include "support/sanitizer.h"

namespace {

using namespace mobicuda;
using namespace mobicuda::test;
using zoo::HeadStyle;
using zoo::MobileNetV2Options;
using zoo::PaddingStyle;

Rewrite clips(ClipForm form) {
  return [form](Model& model) { write_clips(model, form); };
}
Rewrite head(PoolForm pool, ClassifierForm classifier) {
  return [=](Model& model) { write_head(model, pool, classifier); };
}
Rewrite dropout(DropoutForm form) {
  return [form](Model& model) { write_dropout(model, form); };
}
Rewrite softmax(SoftmaxAxis axis) {
  return [axis](Model& model) { write_softmax(model, axis); };
}
Rewrite half(HalfForm form) {
  return [form](Model& model) { write_half(model, form); };
}
Rewrite pad_nodes(bool depthwise_only) {
  return [=](Model& model) { write_pad_nodes(model, depthwise_only); };
}
Rewrite bias_adds(bool rank4) {
  return [=](Model& model) { write_bias_adds(model, rank4); };
}

}  // namespace

TEST_CASE("the plain form at every opset") {
  for (std::int64_t opset = 7; opset <= 23; ++opset) {
    for (const HeadStyle style : {HeadStyle::Gemm, HeadStyle::MatMul, HeadStyle::Reshape}) {
      if (kThreadSanitized && style != HeadStyle::Gemm && opset % 8 != 7) continue;
      MobileNetV2Options options = small_network();
      static const Model plain = build_mobilenet_v2(options);
      options.opset = opset;
      options.head = style;
      CAPTURE(opset, static_cast<int>(style));
      require_same(import(build_mobilenet_v2(options)), plain);
    }
  }
}

TEST_CASE("PyTorch TorchScript, opsets 9 to 17, is read") {
  check_row({9, PaddingStyle::Torch, {write_initializers_as_inputs, write_anonymous}, true});
  check_row({10, PaddingStyle::Torch, {write_constants_as_nodes, dropout(DropoutForm::Identity)}});
  check_row({11, PaddingStyle::Torch, {clips(ClipForm::ConstantNodes)}});
  check_row({13, PaddingStyle::Torch, {clips(ClipForm::ConstantNodes), write_anonymous, dropout(DropoutForm::Node)}});
  check_row({14, PaddingStyle::Torch, {clips(ClipForm::ConstantNodes), write_batchnorm_defaults}, true});
  check_row({17, PaddingStyle::Torch, {clips(ClipForm::ConstantNodes), write_identity_constants}});
}

TEST_CASE("PyTorch ReLU6 as Relu, Clip, Min and Max is read") {
  for (const ClipForm form : {ClipForm::MaxMin, ClipForm::MinMax, ClipForm::ReluMin, ClipForm::ReluClip,
                              ClipForm::ClipRelu, ClipForm::Vectors, ClipForm::CastBounds}) {
    CAPTURE(static_cast<int>(form));
    check_row({13, PaddingStyle::Torch, {clips(form)}});
  }
  check_row({9, PaddingStyle::Torch, {clips(ClipForm::ReluClip)}});
  check_row({10, PaddingStyle::Torch, {clips(ClipForm::ClipRelu)}});
  check_row({12, PaddingStyle::Torch, {clips(ClipForm::ConstantFloats)}});
}

TEST_CASE("PyTorch dynamo, opset 18 and newer, is read") {
  for (const std::int64_t opset : {18, 20, 21}) {
    check_row({opset, PaddingStyle::Torch, {head(PoolForm::Dynamo, ClassifierForm::Gemm)}});
    check_external_data(opset, {head(PoolForm::Dynamo, ClassifierForm::Gemm)}, 0);
  }
  check_row({18, PaddingStyle::Torch, {head(PoolForm::Mean, ClassifierForm::Gemm)}, true});
  check_row({18, PaddingStyle::Torch, {head(PoolForm::MeanNegative, ClassifierForm::Gemm)}});
  check_row({18, PaddingStyle::Tf, {}});  // a Pad folded into the convolution leaves uneven pads
  check_external_data(18, {clips(ClipForm::ConstantNodes)}, 1024);
}

TEST_CASE("older torchvision: mean([2, 3]) and reshape(x.shape[0], -1) are read") {
  for (const std::int64_t opset : {9, 11, 13, 17}) {
    check_row({opset, PaddingStyle::Torch, {head(PoolForm::Mean, ClassifierForm::Gemm)}});
    check_row({opset, PaddingStyle::Torch, {dropout(DropoutForm::Node)}, false, 1e-5F, HeadStyle::Reshape});
    check_row({opset, PaddingStyle::Torch, {head(PoolForm::ReshapeSlice, ClassifierForm::MatMulTranspose)}});
  }
}

TEST_CASE("timm's dynamic SAME padding and its fixed form are read") {
  for (const std::int64_t opset : {11, 12, 13, 16, 17}) check_row({opset, PaddingStyle::Tf, {write_computed_pads}});
  check_row({16, PaddingStyle::Tf, {clips(ClipForm::ConstantNodes)}});
}

TEST_CASE("tf2onnx is read: NHWC entry, uneven pads, auto_pad, Pad nodes, MatMul and Add, Softmax") {
  const std::vector<Rewrite> with_softmax{softmax(SoftmaxAxis::One)};
  for (const std::int64_t opset : {11, 13, 15, 18}) {
    const auto row = [&](std::vector<Rewrite> rewrites) {
      rewrites.insert(rewrites.begin(), head(PoolForm::Mean, ClassifierForm::MatMul));
      rewrites.push_back(softmax(opset < 13 ? SoftmaxAxis::Default : SoftmaxAxis::MinusOne));
      check_row({opset, PaddingStyle::Tf, rewrites, false, 1e-5F, HeadStyle::Gemm, with_softmax});
    };
    row({});
    row({write_auto_pad});
    row({pad_nodes(true)});
    row({bias_adds(true)});
  }
  check_row({15, PaddingStyle::Tf, {head(PoolForm::Squeeze, ClassifierForm::GemmPlain)}});
  check_row({15, PaddingStyle::Tf, {head(PoolForm::MeanNhwc, ClassifierForm::MatMul)}});
}

TEST_CASE("tf2onnx's NHWC entry gives the logits of the same picture in NCHW") {
  for (const MobileNetV2Options& options : {small_network(), full_network()}) {
    const Model plain = build_mobilenet_v2(options);
    Model variant = plain;
    write_nhwc_entry(variant);
    const Graph graph = import(variant);
    CHECK(graph.input_desc().shape == Shape{1, options.height, options.picture_width, 3});
    CHECK(compare_logits(graph, import(plain)));
  }
}

TEST_CASE("Keras is read: epsilon 1e-3, ZeroPadding before valid convolutions, no biases, Softmax") {
  const std::vector<Rewrite> with_softmax{softmax(SoftmaxAxis::One)};
  for (const std::int64_t opset : {10, 11, 13, 17, 18}) {
    const std::vector<Rewrite> rewrites{pad_nodes(false), head(PoolForm::Mean, ClassifierForm::MatMul),
                                        softmax(SoftmaxAxis::One)};
    check_row({opset, PaddingStyle::Tf, rewrites, true, 1e-3F, HeadStyle::Gemm, with_softmax});
  }
  check_row({12, PaddingStyle::Tf, {write_batchnorm_as_mul_add}, true, 1e-3F});
  check_row({12, PaddingStyle::Tf, {bias_adds(false)}});
}

TEST_CASE("Paddle is read: BatchNormalization kept, auto_pad, Dropout as Identity or Mul") {
  for (const std::int64_t opset : {7, 9, 11, 14, 15, 16}) {
    for (const DropoutForm form : {DropoutForm::Node, DropoutForm::Identity, DropoutForm::Halve}) {
      CAPTURE(static_cast<int>(form));
      const std::vector<Rewrite> rewrites{write_auto_pad, write_batchnorm_defaults, dropout(form)};
      check_row({opset, PaddingStyle::Tf, rewrites, true});
    }
  }
  check_external_data(11, {dropout(DropoutForm::Identity)}, 64);
}

TEST_CASE("every way to pool and to classify is read") {
  for (const std::int64_t opset : {9, 11, 13, 17, 21}) {
    if (kThreadSanitized && opset != 13) continue;
    if (kSanitized && (opset == 11 || opset == 17)) continue;
    for (const PoolForm pool :
         {PoolForm::Global, PoolForm::Mean, PoolForm::MeanKept, PoolForm::MeanNegative, PoolForm::Window,
          PoolForm::Squeeze, PoolForm::ReshapeZero, PoolForm::ReshapeChannels, PoolForm::ReshapeSlice}) {
      for (const ClassifierForm classifier :
           {ClassifierForm::Gemm, ClassifierForm::GemmPlain, ClassifierForm::MatMul, ClassifierForm::MatMulTranspose}) {
        CAPTURE(opset, static_cast<int>(pool), static_cast<int>(classifier));
        MobileNetV2Options options = small_network();
        static const Model plain = build_mobilenet_v2(options);
        options.opset = opset;
        Model variant = build_mobilenet_v2(options);
        write_head(variant, pool, classifier);
        require_same(import(variant), plain);
      }
    }
  }
  check_row({14, PaddingStyle::Torch, {head(PoolForm::ReshapeAllowZero, ClassifierForm::Gemm)}});
  Row fixed{13, PaddingStyle::Torch, {head(PoolForm::ReshapeFixed, ClassifierForm::Gemm)}};
  fixed.batch = 1;
  check_row(fixed);
}

TEST_CASE("a convolution as classifier is read, with (N, classes) or (N, classes, 1, 1) as output") {
  for (const MobileNetV2Options& options : {small_network(), full_network()}) {
    const Model plain = build_mobilenet_v2(options);
    for (const ClassifierForm form : {ClassifierForm::Conv, ClassifierForm::ConvMap}) {
      Model variant = plain;
      write_head(variant, PoolForm::Global, form);
      const Graph graph = import(variant);
      CHECK(graph.output_desc().shape.rank() == (form == ClassifierForm::Conv ? 2 : 4));
      CHECK(compare_logits(graph, import(plain)));
    }
  }
}

TEST_CASE("half-precision weights are read exactly") {
  for (const HalfForm form :
       {HalfForm::WeightCasts, HalfForm::InnerCasts, HalfForm::Everything, HalfForm::Int32Payload}) {
    CAPTURE(static_cast<int>(form));
    Row row{13, PaddingStyle::Torch, {round_to_half, half(form)}};
    row.reference_rewrites = {round_to_half};
    check_row(row);
  }
}

TEST_CASE("initializers as inputs, typed payloads, anonymous nodes and spelt-out domains are read") {
  check_row({11, PaddingStyle::Torch, {write_initializers_as_inputs}});
  check_row({13, PaddingStyle::Torch, {write_typed_data}, false, 1e-5F, HeadStyle::Reshape});
  check_row({13, PaddingStyle::Torch, {write_constants_as_nodes}, true});
  check_row({17, PaddingStyle::Torch, {write_anonymous}, false, 1e-5F, HeadStyle::MatMul});
  check_row({17, PaddingStyle::Torch, {write_domains}});
  check_row({13, PaddingStyle::Torch, {dropout(DropoutForm::NoopCast)}});
}

TEST_CASE("fixed and dynamic batches give the same free batch") {
  for (const std::int64_t batch : {0, 1, 4}) {
    for (const HeadStyle style : {HeadStyle::Gemm, HeadStyle::MatMul, HeadStyle::Reshape}) {
      Row row{13, PaddingStyle::Torch, {}, false, 1e-5F, style};
      row.batch = batch;
      check_row(row);
    }
  }
}

TEST_CASE("a picture size that the file leaves open is taken from the options") {
  const MobileNetV2Options options = small_network();
  const Model plain = build_mobilenet_v2(options);
  Model variant = plain;
  write_dynamic_picture(variant);
  onnx_import::ImportOptions import_options;
  import_options.picture_shape = {3, options.height, options.picture_width};
  require_same(import(variant, import_options), plain);

  require_refused([&] { import(variant); }, ErrorCode::invalid_argument, {"input", "'height'", "picture_shape"});
}

TEST_CASE("a network exported without eval() is refused with that hint") {
  MobileNetV2Options options = small_network();
  options.fold_batchnorm = false;
  Model model = build_mobilenet_v2(options);
  write_training_mode(model);
  require_refused([&] { import(model); }, ErrorCode::unsupported, {"features.0.1", "BatchNormalization", "eval()"});
}

TEST_CASE("a network whose activations alone are quantised computes with real numbers") {
  Model model = build_mobilenet_v2(small_network());
  write_quantized_activations(model);
  const Graph optimized = optimize(import(model));
  for (const Node& node : optimized.nodes()) {
    CHECK_FALSE(std::holds_alternative<QuantizedConv2d>(node.op));
  }
}

TEST_CASE("the real quantised network becomes operations on integers from its input to its logits") {
  const std::filesystem::path path = test::shared_folder() / "models/mobilenetv2_imagenet_int8_qdq.onnx";
  if (!std::filesystem::exists(path)) MOBICUDA_SKIP("no " + path.string());
  const Graph graph = optimize(onnx_import::load(path));
  std::map<std::string_view, int> count;
  for (const Node& node : graph.nodes()) ++count[op_name(node.op)];
  CHECK(count == std::map<std::string_view, int>{{"LayoutTransform", 1},
                                                 {"Quantize", 1},
                                                 {"QuantizedConv2d", 52},
                                                 {"QuantizedAdd", 10},
                                                 {"QuantizedAveragePool", 1},
                                                 {"Reshape", 1},
                                                 {"QuantizedGemm", 1}});
}
