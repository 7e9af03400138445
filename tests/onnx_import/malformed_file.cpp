// The file as a whole: bytes, header, topology, tensors.

#include "malformed.h"

namespace mobicuda::test {
namespace {

using Tensor = onnx_schema::TensorProto;
constexpr ErrorCode kInvalid = ErrorCode::invalid_model;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

std::string sound_model() {
  OnnxBuilder builder(13);
  builder.input("x", {kDynamic, 2, 4, 4}).output("y").floats("w", {1, 2, 1, 1}, {1, 2});
  builder.node("Conv", {"x", "w"}, {"y"}, "conv").ints("strides", {1, 1});
  return builder.bytes();
}

// Protobuf field: length-delimited, with a length that need not be true.
std::string field(int number, std::uint64_t length, const std::string& content) {
  std::string text(1, static_cast<char>((number << 3) | 2));
  do {
    text += static_cast<char>((length & 0x7FU) | (length > 0x7FU ? 0x80U : 0U));
    length >>= 7U;
  } while (length > 0);
  return text + content;
}

constexpr int kGraphField = 7;

// `depth` GraphProtos, each in an attribute of a node of the one around it.
std::string nested_graphs(int depth) {
  std::string content;
  for (int i = 0; i < depth; ++i) {
    const std::string attribute = field(6, content.size(), content);  // AttributeProto.g
    const std::string node = field(5, attribute.size(), attribute);   // NodeProto.attribute
    content = field(1, node.size(), node);                            // GraphProto.node
  }
  return field(kGraphField, content.size(), content);
}

}  // namespace

std::vector<Malformed> malformed_bytes() {
  const std::string sound = sound_model();
  std::vector<Malformed> cases;
  const auto add = [&](const std::string& name, const std::string& bytes, const std::string& word) {
    cases.push_back({name, kInvalid, {word}, bytes});
  };
  add("empty", "", "empty");
  add("zeros", std::string(64, '\0'), "do not parse");
  add("text", "hello, world", "do not parse");
  add("LFS pointer", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull");
  add("endless varint", std::string(20, '\xff'), "do not parse");
  add("length past the end", field(kGraphField, 1000, "abc"), "do not parse");
  add("length of 2 GiB", field(kGraphField, 0x7FFFFFFFU, "abc"), "do not parse");
  add("length of 2^63", field(kGraphField, std::uint64_t{1} << 63U, "abc"), "do not parse");
  add("group that is not closed", std::string("\x0b", 1), "do not parse");
  add("group closed that was not opened", std::string("\x0c", 1), "do not parse");
  add("wire type 7", std::string("\x0f\x01", 2), "do not parse");
  add("graphs nested 60 deep", nested_graphs(60), "do not parse");
  for (const std::size_t cut : {1UL, 2UL, sound.size() / 3, sound.size() / 2, sound.size() - 1}) {
    add("cut after " + std::to_string(cut), sound.substr(0, cut), cut == 2 ? "missing" : "do not parse");
  }
  return cases;
}

std::vector<Malformed> malformed_headers() {
  MalformedList list(13, {kDynamic, 2, 4, 4});
  const auto relu = [](OnnxBuilder& builder) { builder.node("Relu", {"x"}, {"y"}); };
  const auto add = [&](const std::string& name, ErrorCode code, const std::vector<std::string>& words,
                       const MalformedList::Spoil& spoil) {
    list.add(name, code, words, [&](OnnxBuilder& builder) {
      relu(builder);
      spoil(builder);
    });
  };
  add("no graph", kInvalid, {"graph", "missing"}, [](auto& b) { b.model().clear_graph(); });
  add("no IR version", kInvalid, {"ir_version", "got 0"}, [](auto& b) { b.model().clear_ir_version(); });
  add("IR version -1", kInvalid, {"ir_version", "got -1"}, [](auto& b) { b.model().set_ir_version(-1); });
  add("IR version 2", kUnsupported, {"ir_version", "got 2"}, [](auto& b) { b.model().set_ir_version(2); });
  add("no opset", kInvalid, {"opset_import", "missing"}, [](auto& b) { b.model().clear_opset_import(); });
  add("opset 0", kInvalid, {"opset_import", "got 0"},
      [](auto& b) { b.model().mutable_opset_import(0)->set_version(0); });
  add("opset -7", kInvalid, {"opset_import", "got -7"},
      [](auto& b) { b.model().mutable_opset_import(0)->set_version(-7); });
  add("opset 999", kUnsupported, {"opset_import", "got 999"},
      [](auto& b) { b.model().mutable_opset_import(0)->set_version(999); });
  add("opset twice", kInvalid, {"opset_import", "twice"},
      [](auto& b) { b.model().add_opset_import()->set_version(13); });
  add("only another domain's opset", kInvalid, {"opset_import", "missing"},
      [](auto& b) { b.model().mutable_opset_import(0)->set_domain("com.example"); });
  add("only another domain's operators", kUnsupported, {"node #0", "(Relu)", "'com.example'"}, [](auto& b) {
    b.model().mutable_opset_import(0)->set_domain("com.example");
    b.graph().mutable_node(0)->set_domain("com.example");
  });
  add("unknown domain", kUnsupported, {"node #0", "(Relu)", "'com.example'"},
      [](auto& b) { b.graph().mutable_node(0)->set_domain("com.example"); });
  add("ONNX Runtime's own operators", kUnsupported, {"node #0", "(Relu)", "'com.microsoft'", "ORT_ENABLE_BASIC"},
      [](auto& b) { b.graph().mutable_node(0)->set_domain("com.microsoft"); });
  add("ONNX Runtime's own operators in ONNX's domain", kUnsupported, {"node #0", "(FusedConv)", "opset 13"},
      [](auto& b) { b.graph().mutable_node(0)->set_op_type("FusedConv"); });
  add("ONNX Runtime's own layout", kUnsupported, {"'com.microsoft.nchwc'", "ORT_ENABLE_BASIC"},
      [](auto& b) { b.graph().mutable_node(0)->set_domain("com.microsoft.nchwc"); });
  add("ONNX Runtime's int8 operators by tables", kUnsupported, {"(QLinearMul)", "QDQ"}, [](auto& b) {
    b.graph().mutable_node(0)->set_domain("com.microsoft");
    b.graph().mutable_node(0)->set_op_type("QLinearMul");
  });
  add("ONNX Runtime's domain twice", kInvalid, {"opset_import", "'com.microsoft'", "twice"}, [](auto& b) {
    for (int i = 0; i < 2; ++i) {
      auto& import = *b.model().add_opset_import();
      import.set_domain("com.microsoft");
      import.set_version(1);
    }
  });
  add("function of the model", kUnsupported, {"node #0", "function", "'local'"}, [](auto& b) {
    b.graph().mutable_node(0)->set_domain("local");
    auto& function = *b.model().add_functions();
    function.set_name("Relu");
    function.set_domain("local");
  });
  add("no input", kUnsupported, {"graph", "no input"}, [](auto& b) { b.graph().clear_input(); });
  add("input without a name", kInvalid, {"input", "no name"},
      [](auto& b) { b.graph().mutable_input(0)->clear_name(); });
  add("input twice", kInvalid, {"input 'x'", "twice"}, [](auto& b) { b.input("x", {1, 2}); });
  add("two inputs", kUnsupported, {"'x' and 'z'"}, [](auto& b) { b.input("z", {1, 2}); });
  add("input of bytes", kUnsupported, {"input 'x'", "UINT8", "picture_input"},
      [](auto& b) { b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(Tensor::UINT8); });
  add("input of integers", kUnsupported, {"input 'x'", "INT64"},
      [](auto& b) { b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7); });
  add("input without a type", kUnsupported, {"input 'x'", "tensor"},
      [](auto& b) { b.graph().mutable_input(0)->clear_type(); });
  add("input that is a sequence", kUnsupported, {"input 'x'", "sequences"},
      [](auto& b) { b.graph().mutable_input(0)->mutable_type()->mutable_sequence_type(); });
  add("input of rank 1", kUnsupported, {"input 'x'", "rank 1"}, [](auto& b) {
    b.graph().clear_input();
    b.input("x", {kDynamic});
  });
  add("input of rank 9", kUnsupported, {"input 'x'", "rank", "got 9"}, [](auto& b) {
    b.graph().clear_input();
    b.input("x", {1, 1, 1, 1, 1, 1, 1, 1, 1});
  });
  add("input of 2^62 elements", kUnsupported, {"input 'x'", "too large"}, [](auto& b) {
    b.graph().clear_input();
    b.input("x", {1, std::int64_t{1} << 31, std::int64_t{1} << 31});
  });
  add("input whose elements overflow", kUnsupported, {"input 'x'", "too large"}, [](auto& b) {
    b.graph().clear_input();
    b.input("x", {1, std::int64_t{1} << 62, std::int64_t{1} << 62});
  });
  add("no output", kInvalid, {"no output"}, [](auto& b) { b.graph().clear_output(); });
  add("two outputs", kUnsupported, {"one output", "'y', 'x'"}, [](auto& b) { b.output("x"); });
  add("output without a name", kInvalid, {"output", "no name"},
      [](auto& b) { b.graph().mutable_output(0)->clear_name(); });
  return list.take();
}

std::vector<Malformed> malformed_topologies() {
  MalformedList list(13, {kDynamic, 2, 4, 4});
  list.add("no nodes", kInvalid, {"output 'y'", "no node"}, [](auto&) {});
  list.add("output that nobody makes", kInvalid, {"output 'y'"}, [](auto& b) { b.node("Relu", {"x"}, {"z"}); });
  list.add("output that is the input", kInvalid, {"output 'x'"}, [](auto& b) {
    b.node("Relu", {"x"}, {"y"});
    b.graph().clear_output();
    b.output("x");
  });
  list.add("output that is a constant", kUnsupported, {"output 'y'", "constant"},
           [](auto& b) { b.node("Constant", {}, {"y"}).attr("value_float", 1.0F); });
  list.add("undefined input", kInvalid, {"node #0 'r' (Relu)", "input #0 'nowhere'"},
           [](auto& b) { b.node("Relu", {"nowhere"}, {"y"}, "r"); });
  list.add("self-loop", kInvalid, {"node #0 'r' (Relu)", "input #0 'y'", "node #0", "cycles"},
           [](auto& b) { b.node("Relu", {"y"}, {"y"}, "r"); });
  list.add("cycle of two", kInvalid, {"node #0", "input #1 'b'", "node #1"}, [](auto& b) {
    b.node("Add", {"x", "b"}, {"y"});
    b.node("Relu", {"y"}, {"b"});
  });
  list.add("not in topological order", kInvalid, {"node #0", "input #0 'a'", "topological order"}, [](auto& b) {
    b.node("Relu", {"a"}, {"y"});
    b.node("Relu", {"x"}, {"a"});
  });
  list.add("output made twice", kInvalid, {"node #1", "'y' exists already"}, [](auto& b) {
    b.node("Relu", {"x"}, {"y"});
    b.node("Relu", {"x"}, {"y"});
  });
  list.add("node that makes the input", kInvalid, {"node #0", "'x' exists already"}, [](auto& b) {
    b.node("Relu", {"x"}, {"x"});
    b.node("Relu", {"x"}, {"y"});
  });
  list.add("node that makes an initializer", kInvalid, {"node #0", "'w' exists already"}, [](auto& b) {
    b.floats("w", {1}, {1}).node("Relu", {"x"}, {"w"});
    b.node("Relu", {"x"}, {"y"});
  });
  list.add("node with one output twice", kInvalid, {"node #0", "'y' exists already"}, [](auto& b) {
    b.node("MaxPool", {"x"}, {"y", "y"}).ints("kernel_shape", {2, 2});
  });
  list.add("node without outputs", kInvalid, {"node #0 (Relu)", "output"}, [](auto& b) {
    b.node("Relu", {"x"}, {});
    b.node("Relu", {"x"}, {"y"});
  });
  list.add("node whose first output is empty", kInvalid, {"node #0", "output"}, [](auto& b) {
    b.node("Dropout", {"x"}, {"", "y"});
  });
  list.add("unknown operator whose first output is empty", kUnsupported, {"node #0 (GRU)", "not supported"},
           [](auto& b) {
             b.node("GRU", {"x", "x", "x"}, {"", "y"});
           });
  list.add("second output used", kUnsupported, {"node #0 (MaxPool)", "output #1 'indices'"}, [](auto& b) {
    b.node("MaxPool", {"x"}, {"z", "indices"}).ints("kernel_shape", {2, 2});
    b.node("Add", {"z", "indices"}, {"y"});
  });
  list.add("mask used", kUnsupported, {"node #0 (Dropout)", "output #1 'mask'"}, [](auto& b) {
    b.node("Dropout", {"x"}, {"z", "mask"});
    b.node("Add", {"z", "mask"}, {"y"});
  });
  list.add("no operator", kUnsupported, {"node #0", "not supported"}, [](auto& b) { b.node("", {"x"}, {"y"}); });
  list.add("operator of a later opset", kInvalid, {"node #0 (Range)", "opset 9"}, 9, [](auto& b) {
    b.ints("i", {}, {1}).node("Range", {"i", "i", "i"}, {"r"});
    b.node("Reshape", {"x", "r"}, {"y"});
  });
  list.add("sparse initializer", kUnsupported, {"sparse_initializer 's'"}, [](auto& b) {
    b.graph().add_sparse_initializer()->mutable_values()->set_name("s");
    b.node("Relu", {"x"}, {"y"});
  });
  list.add("attribute twice", kInvalid, {"attribute 'axis'", "twice"},
           [](auto& b) { b.node("Flatten", {"x"}, {"y"}).attr("axis", 1).attr("axis", 1); });
  list.add("unknown attribute", kInvalid, {"attribute 'alpha'", "opset 13"},
           [](auto& b) { b.node("Relu", {"x"}, {"y"}).attr("alpha", 1.0F); });
  list.add("attribute of another type", kInvalid, {"attribute 'axis'", "INT", "FLOAT"},
           [](auto& b) { b.node("Flatten", {"x"}, {"y"}).attr("axis", 1.0F); });
  list.add("attribute without a type", kInvalid, {"attribute 'axis'", "UNDEFINED"},
           [](auto& b) { b.node("Flatten", {"x"}, {"y"}).attr("axis", 1).proto().mutable_attribute(0)->clear_type(); });
  list.add("attribute that refers to a function", kInvalid, {"attribute 'axis'", "function"}, [](auto& b) {
    b.node("Flatten", {"x"}, {"y"}).attr("axis", 1).proto().mutable_attribute(0)->set_ref_attr_name("a");
  });
  return list.take();
}

std::vector<Malformed> malformed_tensors() {
  MalformedList list(13, {kDynamic, 2, 4, 4});
  const auto add = [&](const std::string& name, ErrorCode code, const std::string& word,
                       const std::function<void(Tensor&)>& spoil) {
    list.add(name, code, {"initializer 'w'", word}, [&](OnnxBuilder& builder) {
      builder.floats("w", {2}, {1, 2}).node("Relu", {"x"}, {"y"});
      spoil(*builder.graph().mutable_initializer(0));
    });
  };
  add("negative extent", kInvalid, "got -2", [](auto& t) { t.set_dims(0, -2); });
  add("more extents than data", kInvalid, "needs 12", [](auto& t) { t.set_dims(0, 3); });
  add("fewer extents than data", kInvalid, "needs 4", [](auto& t) { t.set_dims(0, 1); });
  add("no elements, but data", kInvalid, "needs 0", [](auto& t) { t.set_dims(0, 0); });
  add("2^31 elements", kUnsupported, "2147483648", [](auto& t) { t.set_dims(0, std::int64_t{1} << 31); });
  add("extents that overflow", kInvalid, "overflows", [](auto& t) {
    t.set_dims(0, std::int64_t{1} << 40);
    t.add_dims(std::int64_t{1} << 40);
  });
  add("extents that overflow to a small number", kInvalid, "overflows", [](auto& t) {
    t.set_dims(0, (std::int64_t{1} << 32) + 1);
    t.add_dims(std::int64_t{1} << 32);
  });
  add("rank 9", kUnsupported, "got 9", [](auto& t) {
    for (int i = 0; i < 8; ++i) t.add_dims(1);
  });
  add("raw data one byte short", kInvalid, "7 bytes", [](auto& t) { t.set_raw_data(std::string(7, '\0')); });
  add("raw data one byte long", kInvalid, "9 bytes", [](auto& t) { t.set_raw_data(std::string(9, '\0')); });
  add("no data", kInvalid, "0 elements", [](auto& t) { t.clear_raw_data(); });
  add("raw and typed data", kInvalid, "both", [](auto& t) {
    t.add_float_data(1);
    t.add_float_data(2);
  });
  add("typed data one element short", kInvalid, "1 elements", [](auto& t) {
    t.clear_raw_data();
    t.add_float_data(1);
  });
  add("typed data in the field of another type", kInvalid, "another type", [](auto& t) {
    t.clear_raw_data();
    t.add_int64_data(1);
    t.add_int64_data(2);
  });
  add("two typed fields", kInvalid, "another type", [](auto& t) {
    t.clear_raw_data();
    t.add_float_data(1);
    t.add_float_data(2);
    t.add_double_data(1);
  });
  add("type missing", kInvalid, "data_type 0", [](auto& t) { t.clear_data_type(); });
  add("type -1", kInvalid, "data_type -1", [](auto& t) { t.set_data_type(-1); });
  add("type 77", kInvalid, "data_type 77", [](auto& t) { t.set_data_type(77); });
  add("strings", kUnsupported, "STRING", [](auto& t) { t.set_data_type(Tensor::STRING); });
  add("complex numbers", kUnsupported, "COMPLEX64", [](auto& t) { t.set_data_type(Tensor::COMPLEX64); });
  add("float8", kUnsupported, "FLOAT8E4M3FN", [](auto& t) { t.set_data_type(17); });
  add("int4", kUnsupported, "INT4", [](auto& t) { t.set_data_type(22); });
  add("half-precision data of float's size", kInvalid, "needs 4", [](auto& t) { t.set_data_type(Tensor::FLOAT16); });
  add("double data of float's size", kInvalid, "needs 16", [](auto& t) { t.set_data_type(Tensor::DOUBLE); });
  add("segment", kUnsupported, "segments", [](auto& t) { t.mutable_segment()->set_begin(0); });
  add("external_data without the location EXTERNAL", kInvalid, "EXTERNAL",
      [](auto& t) { t.add_external_data()->set_key("location"); });
  add("external and raw data", kInvalid, "both", [](auto& t) { t.set_data_location(Tensor::EXTERNAL); });
  const auto spoil_names = [](const std::string& name) {
    return [name](OnnxBuilder& builder) {
      builder.floats("w", {1}, {1}).floats(name, {1}, {1}).node("Relu", {"x"}, {"y"});
    };
  };
  list.add("two initializers of one name", kInvalid, {"initializer 'w'", "twice"}, spoil_names("w"));
  list.add("initializer without a name", kInvalid, {"initializer ''", "no name"}, spoil_names(""));
  const auto add_attribute = [&](const std::string& name, ErrorCode code, const std::string& word,
                                 const Tensor& value) {
    list.add(name, code, {"node #0 'c' (Constant)", "attribute 'value'", word}, [&](OnnxBuilder& builder) {
      builder.node("Constant", {}, {"k"}, "c").attr("value", value);
      builder.node("Add", {"x", "k"}, {"y"});
    });
  };
  Tensor constant = tensor("", {2}, std::vector<float>{1});
  add_attribute("Constant with too little data", kInvalid, "needs 8", constant);
  constant.set_data_type(Tensor::STRING);
  add_attribute("Constant of strings", kUnsupported, "STRING", constant);
  list.add("Constant without a value", kInvalid, {"node #0 (Constant)", "has 0"}, [](auto& b) {
    b.node("Constant", {}, {"k"});
    b.node("Add", {"x", "k"}, {"y"});
  });
  list.add("Constant with two values", kInvalid, {"node #0 (Constant)", "has 2"}, [](auto& b) {
    b.node("Constant", {}, {"k"}).attr("value_int", 1).attr("value_float", 1.0F);
    b.node("Add", {"x", "k"}, {"y"});
  });
  list.add("Constant that is a string", kUnsupported, {"attribute 'value_string'"}, [](auto& b) {
    b.node("Constant", {}, {"k"}).attr("value_string", "text");
    b.node("Add", {"x", "k"}, {"y"});
  });
  list.add("Constant whose value is no tensor", kInvalid, {"attribute 'value'", "tensor"}, [](auto& b) {
    b.node("Constant", {}, {"k"}).attr("value", 1);
    b.node("Add", {"x", "k"}, {"y"});
  });
  return list.take();
}

}  // namespace mobicuda::test
