#include "report/layer_names.h"

#include <set>

#include "support/catch.h"

using namespace mobicuda::bench::report;

namespace {

// The same block under the names that exporters give it, fused as the importer does.
const std::string kTorchScript =
    "/features/features.2/conv/conv.0/conv.0.0/Conv+/features/features.2/conv/conv.0/conv.0.2/Clip+"
    "/features/features.2/conv/conv.1/conv.1.0/Conv+/features/features.2/conv/conv.1/conv.1.2/Clip+"
    "/features/features.2/conv/conv.2/Conv";
const std::string kTorchScriptWithAdd =
    "/features/features.3/conv/conv.0/conv.0.0/Conv+/features/features.3/conv/conv.0/conv.0.2/Clip+"
    "/features/features.3/conv/conv.2/Conv+/features/features.3/Add";

}  // namespace

TEST_CASE("names of PyTorch's TorchScript exporter tell their module once", "[names]") {
  const LayerNames names({kTorchScript, kTorchScriptWithAdd, "/features/features.4/conv/conv.2/Conv",
                          "/features/features.18/features.18.0/Conv+/GlobalAveragePool", "/classifier/Gemm"});
  CHECK(names.shortened(kTorchScript) == "features.2/conv: 0.0 Conv, 0.2 Clip, 1.0 Conv, 1.2 Clip, 2 Conv");
  CHECK(names.shortened(kTorchScriptWithAdd) == "features.3: conv.0.0 Conv, conv.0.2 Clip, conv.2 Conv, Add");
  CHECK(names.shortened("/features/features.4/conv/conv.2/Conv") == "features.4/conv.2 Conv");
  CHECK(names.shortened("/features/features.18/features.18.0/Conv+/GlobalAveragePool") ==
        "features.18.0 Conv+GlobalAveragePool");
}

TEST_CASE("names of PyTorch's dynamo exporter tell their beginning once", "[names]") {
  const std::string block = "node_conv2d_3+node_clip_2+node_conv2d_4+node_clip_3";
  const std::string project = "node_conv2d_5+node_add";
  const LayerNames names(std::vector<std::string>{block, project});
  CHECK(names.shortened(block) == "node: conv2d_3, clip_2, conv2d_4, clip_3");
  CHECK(names.shortened(project) == project);
}

TEST_CASE("names of Keras are without the network's", "[names]") {
  const std::string expand =
      "mobilenetv2_1.00_224/block_1_expand/Conv2D+mobilenetv2_1.00_224/block_1_expand_relu/Relu6";
  const std::string project = "mobilenetv2_1.00_224/block_1_project/Conv2D+Conv__12";
  const LayerNames names(
      {expand, "input of " + expand, project, "mobilenetv2_1.00_224/predictions/MatMul", "Transpose__3"});
  CHECK(names.shortened(expand) == "block_1: expand Conv2D, expand_relu Relu6");
  CHECK(names.shortened("input of " + expand) == "input of block_1: expand Conv2D, expand_relu Relu6");
  CHECK(names.shortened(project) == "block_1_project Conv2D+Conv__12");
  CHECK(names.shortened("mobilenetv2_1.00_224/predictions/MatMul") == "predictions MatMul");
}

TEST_CASE("names of few characters stay as they are", "[names]") {
  const std::string longest = "/features/features.0/module/Conv";
  REQUIRE(longest.size() == LayerNames::kLongestWhole);
  for (const std::string& name : {longest, std::string("conv1+conv1_relu6"), std::string("to_NHWC(a/a.b+a/a.c)")}) {
    CHECK(LayerNames({name, kTorchScript}).shortened(name) == name);
  }
  std::string umlauts = "/\xC3\xA4/\xC3\xA4.b/";
  for (std::size_t i = 7; i < LayerNames::kLongestWhole; ++i) umlauts += "\xC3\xB6";
  CHECK(LayerNames({umlauts, kTorchScript}).shortened(umlauts) == umlauts);
  CHECK(LayerNames({kTorchScript}).shortened("of another network/which/has/quite/long/names") ==
        "of another network/which/has/quite/long/names");
}

TEST_CASE("conversions and tensors have the names of their layers", "[names]") {
  const std::string converted =
      "to_NHWC(/features/features.0/features.0.0/Conv+/features/features.0/features.0.2/Clip)";
  CHECK(LayerNames({converted, kTorchScript}).shortened(converted) == "to_NHWC(features.0: 0 Conv, 2 Clip)");
  const std::string tensor = "/features/features.2/conv/conv.0/conv.0.2/Clip_output_0";
  CHECK(LayerNames({tensor, "/features/features.3/Add_output_0"}).shortened(tensor) == "features.2/conv.0.2 Clip");
}

TEST_CASE("different names stay different", "[names]") {
  const std::vector<std::string> all{"/features/features.2/conv/conv.2/Conv", "features.2/conv.2/Conv_of_thirty_bytes_",
                                     "/features.2/conv.2/Conv_of_thirty_bytes_", "features.2/conv.2 Conv",
                                     kTorchScriptWithAdd};
  const LayerNames names(all);
  std::set<std::string> brief;
  for (const std::string& name : all) brief.insert(names.shortened(name));
  CHECK(brief.size() == all.size());
  CHECK(names.shortened(all[0]) == all[0]);
  CHECK(names.shortened(all[1]) == all[1]);
}
