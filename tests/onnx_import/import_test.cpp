// The model as a whole: inputs, outputs, the batch, names, versions, logging.

#include <algorithm>
#include <filesystem>

#include "import_support.h"
#include "onnx_import/op_table.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::test;

namespace {

OnnxBuilder relu(std::int64_t opset = 13, const Dims& input = {kDynamic, 2, 4, 4}) {
  OnnxBuilder builder = network(opset, input);
  builder.node("Relu", {"x"}, {"y"}, "relu");
  return builder;
}

struct Log {
  std::vector<std::string> lines;
  onnx_import::ImportOptions options() {
    onnx_import::ImportOptions result;
    result.log = [this](LogLevel, std::string_view text) { lines.emplace_back(text); };
    return result;
  }
};

}  // namespace

TEST_CASE("any batch in the file becomes a free one") {
  for (const std::int64_t batch : {kDynamic, std::int64_t{1}, std::int64_t{8}}) {
    const Graph graph = import(relu(13, {batch, 2, 4, 4}));
    CHECK(graph.input_desc().shape == Shape{1, 2, 4, 4});
    CHECK(graph.output_desc().shape == Shape{1, 2, 4, 4});
  }
  CHECK(import(relu(13, {0, 2, 4, 4})).input_desc().shape == Shape{1, 2, 4, 4});
}

TEST_CASE("extents that the file leaves open are bound by picture_shape, and must fit it") {
  const OnnxBuilder open = relu(13, {kDynamic, 3, kDynamic, kDynamic});
  onnx_import::ImportOptions options;
  require_refused(open, ErrorCode::invalid_argument, {"input 'x'", "axis 2", "'N'", "picture_shape"});
  options.picture_shape = {3, 96, 160};
  CHECK(import(open, options).input_desc().shape == Shape{1, 3, 96, 160});
  CHECK(import(relu(13, {1, 3, 96, 160}), options).input_desc().shape == Shape{1, 3, 96, 160});
  require_refused(relu(), ErrorCode::invalid_argument,
                  {"picture_shape [3,96,160]", "[2,4,4]", "set ImportOptions::picture_shape"}, options);
  options.picture_shape = {3, 96};
  require_refused(open, ErrorCode::invalid_argument, {"must have 3 extents", "set ImportOptions::picture_shape"},
                  options);
  options.picture_shape = {3, -1, 96};
  require_refused(open, ErrorCode::invalid_argument, {"[3,-1,96]"}, options);
  OnnxBuilder shapeless = relu();
  shapeless.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  require_refused(shapeless, ErrorCode::unsupported, {"picture_shape"});
  options.picture_shape = {3, 5, 5};
  CHECK(import(shapeless, options).input_desc().shape == Shape{1, 3, 5, 5});
}

TEST_CASE("initializers may be listed as inputs") {
  OnnxBuilder builder(9, 3);
  builder.input("x", {kDynamic, 2, 4, 4}).output("y").floats("w", {1, 2, 1, 1}, {1, 2});
  builder.list_initializers_as_inputs();
  builder.node("Conv", {"x", "w"}, {"y"});
  CHECK(ops(import(builder)) == "Conv2d");
}

TEST_CASE("unnamed nodes are named by their position, and names with control characters are escaped") {
  OnnxBuilder builder = network(13);
  builder.node("Relu", {"x"}, {"a"});
  builder.node("Frobnicate\n", {"a"}, {"y"});
  require_refused(builder, ErrorCode::unsupported, {"test.onnx: node #1 (Frobnicate\\x0a)", "opset 13"});
  builder.graph().mutable_node(1)->set_name(std::string(500, 'n'));
  require_refused(builder, ErrorCode::unsupported, {"'" + std::string(128, 'n') + "...'"});
}

TEST_CASE("operators that pick the best classes are refused with what to export instead") {
  for (const std::string op : {"ArgMax", "TopK"}) {
    OnnxBuilder builder = network(13);
    builder.node(op, {"x"}, {"y"});
    require_refused(builder, ErrorCode::unsupported, {"(" + op + ")", "export the logits"});
  }
}

TEST_CASE("every supported opset is accepted, and others are refused by number") {
  for (std::int64_t opset = 6; opset <= 28; ++opset) CHECK(ops(import(relu(opset))) == "Clip");
  for (const std::int64_t opset : {1, 5, 29, 999}) {
    require_refused(relu(opset), ErrorCode::unsupported, {"opset_import", std::to_string(opset), "6 to 28"});
  }
  OnnxBuilder spelt_out = relu();
  spelt_out.model().mutable_opset_import(0)->set_domain("ai.onnx");
  spelt_out.graph().mutable_node(0)->set_domain("ai.onnx");
  CHECK(ops(import(spelt_out)) == "Clip");
}

TEST_CASE("oddities that do no harm are logged") {
  Log log;
  OnnxBuilder newer = relu();
  newer.model().set_ir_version(99);
  CHECK(ops(import(newer, log.options())) == "Clip");
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0].find("ir_version 99") != std::string::npos);

  Log shapes;
  OnnxBuilder declared = network(13);
  declared.graph().mutable_output()->Clear();
  declared.output("y", {kDynamic, 7}).node("Relu", {"x"}, {"y"});
  CHECK(import(declared, shapes.options()).output_desc().shape == Shape{1, 2, 4, 4});
  REQUIRE(shapes.lines.size() == 1);
  CHECK(shapes.lines[0].find("output 'y' has shape 1x2x4x4") != std::string::npos);

  Log types;
  OnnxBuilder half = relu();
  half.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx_schema::TensorProto::FLOAT16);
  CHECK(import(half, types.options()).input_desc().dtype == DType::F32);
  REQUIRE(types.lines.size() == 1);
  CHECK(types.lines[0].find("FLOAT16") != std::string::npos);
}

TEST_CASE("nodes that the output does not need are not looked at") {
  OnnxBuilder builder = relu();
  builder.node("NoSuchOperator", {"x"}, {"unused"});
  CHECK(ops(import(builder)) == "Clip");
}

TEST_CASE("operators that are known but not supported say why") {
  for (const auto& [op, word] :
       {std::pair{"DynamicQuantizeLinear", "quantise statically"}, std::pair{"ConvInteger", "scripts/quantize"},
        std::pair{"ArgMax", "logits"}, std::pair{"If", "control flow"}, std::pair{"LSTM", "docs/onnx.md"}}) {
    OnnxBuilder builder = network(13);
    builder.node(op, {"x"}, {"y"}, "n");
    require_refused(builder, ErrorCode::unsupported, {std::string("node #0 'n' (") + op + ")", word});
  }
}

TEST_CASE("a model file is read, and its name stands in front of every message") {
  const TemporaryFolder folder;
  folder.write("ok.onnx", relu().bytes());
  CHECK(ops(onnx_import::load(folder.path() / "ok.onnx")) == "Clip");
  const auto refused = [&](const std::string& name, ErrorCode code, const std::string& word) {
    const std::string path = (folder.path() / name).string();
    try {
      onnx_import::load(path);
      FAIL("accepted " << path);
    } catch (const Error& error) {
      INFO(error.what());
      CHECK(to_string(error.code()) == to_string(code));
      CHECK(error.where().starts_with(path));
      CHECK(std::string(error.what()).find(word) != std::string::npos);
    }
  };
  refused("absent.onnx", ErrorCode::io, "No such file");
  refused(".", ErrorCode::io, "folder");
  folder.write("empty.onnx", "");
  refused("empty.onnx", ErrorCode::invalid_model, "empty");
  folder.write("text.onnx", "this is no model");
  refused("text.onnx", ErrorCode::invalid_model, "not an ONNX model");
  folder.write("pointer.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  refused("pointer.onnx", ErrorCode::invalid_model, "git lfs pull");
  const std::pair<std::string, std::string> others[] = {{"PK\x03\x04 archive/data.pkl", "torch.onnx.export"},
                                                        {"\x80\x02}q", "torch.onnx.export"},
                                                        {std::string("\x1c\0\0\0TFL3", 8), "TensorFlow Lite"},
                                                        {"\x89HDF\r\n", "tf2onnx"},
                                                        {"\x1f\x8b\x08", "gzip"},
                                                        {"<!DOCTYPE html><html>", "web page"}};
  for (const auto& [bytes, remedy] : others) {
    folder.write("other.onnx", bytes);
    refused("other.onnx", ErrorCode::invalid_model, remedy);
  }
  folder.write("cut.onnx", relu().bytes().substr(0, relu().bytes().size() - 3));
  refused("cut.onnx", ErrorCode::invalid_model, "complete");
}

TEST_CASE("the list of operators is sorted and has no gaps") {
  const auto operators = onnx_import::supported_operators();
  CHECK(operators.size() > 30);
  CHECK(
      std::is_sorted(operators.begin(), operators.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  CHECK(std::any_of(operators.begin(), operators.end(),
                    [](const auto& op) { return op.name == "Clip" && op.first_opset == 6 && op.last_opset == 28; }));
}

TEST_CASE("the real MobileNetV2 is read") {
  const std::filesystem::path path = test::shared_folder() / "models/mobilenetv2_imagenet_fp32.onnx";
  if (!std::filesystem::exists(path)) MOBICUDA_SKIP("no " + path.string());
  const Graph graph = onnx_import::load(path);
  CHECK(graph.input_desc().shape == Shape{1, 3, 224, 224});
  CHECK(graph.output_desc().shape == Shape{1, 1000});
  const auto convolutions = std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                          [](const Node& node) { return std::holds_alternative<Conv2d>(node.op); });
  CHECK(convolutions == 52);
}

TEST_CASE("the forms of an operator, which may come from several files, follow each other without overlap") {
  const auto forms = onnx_import::operator_forms();
  for (std::size_t i = 0; i < forms.size(); ++i) {
    CAPTURE(forms[i].name, forms[i].first_opset);
    const bool of_runtime = forms[i].domain == onnx_import::kMicrosoftDomain;
    CHECK((of_runtime || forms[i].domain.empty()));
    CHECK(forms[i].first_opset >= (of_runtime ? 1 : onnx_import::kOldestOpset));
    CHECK(forms[i].last_opset >= forms[i].first_opset);
    CHECK((forms[i].import != nullptr || forms[i].fold != nullptr));
    const bool last = i + 1 == forms.size() || forms[i + 1].name != forms[i].name;
    const bool ended = forms[i].name == "Upsample";  // Resize took its place
    const std::int64_t newest = of_runtime ? 1 : ended ? 9 : onnx_import::kNewestOpset;
    CHECK(forms[i].last_opset == (last ? newest : forms[i + 1].first_opset - 1));
  }
}
