#include <array>
#include <cmath>
#include <limits>

#include "graph_editor.h"
#include "model_rewrites.h"

namespace mobicuda::test {
namespace {

using onnx_schema::NodeProto;
using onnx_schema::TensorProto;
using zoo::set_attribute;

constexpr float kLow = 0.0F;
constexpr float kHigh = 6.0F;

TensorProto scalar(const std::string& name, float value) { return zoo::make_tensor(name, {}, std::span(&value, 1)); }

/// The upper bound alone, as the opset writes it.
NodeProto& emit_upper_clip(GraphEditor& editor, NodeProto& clip) {
  if (editor.opset() < 11) {
    set_attribute(clip, "max", kHigh);
  } else {
    clip.add_input("");
    clip.add_input(editor.floats("six", {}, {kHigh}));
  }
  return clip;
}

void emit_clip_with_bounds(GraphEditor& editor, const NodeProto& old, ClipForm form) {
  const std::string& x = old.input(0);
  const std::string low = old.name() + ".min";
  const std::string high = old.name() + ".max";
  if (form == ClipForm::ConstantNodes) {
    editor.constant_node(scalar(low, kLow));
    editor.constant_node(scalar(high, kHigh));
  } else if (form == ClipForm::ConstantFloats) {
    set_attribute(editor.emit("Constant", low, {}), "value_float", kLow);
    set_attribute(editor.emit("Constant", high, {}), "value_float", kHigh);
  } else if (form == ClipForm::Vectors) {
    editor.floats(low, {1}, {kLow});
    editor.floats(high, {1}, {kHigh});
  } else {
    for (const auto& [name, value] : {std::pair(low, double{kLow}), std::pair(high, double{kHigh})}) {
      TensorProto bound;
      bound.set_name(name + ".double");
      bound.set_data_type(TensorProto::DOUBLE);
      bound.set_raw_data(&value, sizeof value);
      const std::string source = editor.constant_node(bound);
      set_attribute(editor.emit("Cast", name, {source}), "to", std::int64_t{TensorProto::FLOAT});
    }
  }
  editor.emit_as(old, "Clip", {x, low, high});
}

void emit_clip(GraphEditor& editor, const NodeProto& old, ClipForm form) {
  const std::string& x = old.input(0);
  const std::string inner = old.name() + ".inner";
  switch (form) {
    case ClipForm::MaxMin:
      editor.emit("Max", inner, {x, editor.floats("zero", {}, {kLow})});
      editor.emit_as(old, "Min", {inner, editor.floats("six", {}, {kHigh})});
      return;
    case ClipForm::MinMax:
      editor.emit("Min", inner, {editor.floats("six", {}, {kHigh}), x});
      editor.emit_as(old, "Max", {editor.floats("zero", {}, {kLow}), inner});
      return;
    case ClipForm::ReluMin:
      editor.emit("Relu", inner, {x});
      editor.emit_as(old, "Min", {inner, editor.floats("six", {}, {kHigh})});
      return;
    case ClipForm::ReluClip:
      editor.emit("Relu", inner, {x});
      emit_upper_clip(editor, editor.emit_as(old, "Clip", {inner}));
      return;
    case ClipForm::ClipRelu:
      emit_upper_clip(editor, editor.emit("Clip", inner, {x}));
      editor.emit_as(old, "Relu", {inner});
      return;
    default:
      emit_clip_with_bounds(editor, old, form);
  }
}

bool is_strided(const NodeProto& node) { return node.op_type() == "Conv" && ints_of(node, "strides")[0] > 1; }

/// The convolution without its own padding, reading `padded`.
void emit_unpadded(GraphEditor& editor, const NodeProto& conv, const std::string& padded) {
  NodeProto unpadded = conv;
  unpadded.set_input(0, padded);
  set_attribute(unpadded, "pads", std::vector<std::int64_t>{0, 0, 0, 0});
  editor.keep(unpadded);
}

/// Nodes that compute TensorFlow's padding of one axis: (before, after), each of shape (1).
std::array<std::string, 2> emit_same_padding(GraphEditor& editor, const std::string& prefix, const std::string& shape,
                                             std::int64_t axis, const NodeProto& conv) {
  const auto step = [&](const char* op, const char* suffix, std::initializer_list<std::string_view> inputs) {
    return editor.emit(op, prefix + suffix, inputs).output(0);
  };
  const auto cast = [&](const char* suffix, const std::string& x, TensorProto::DataType type) {
    NodeProto& node = editor.emit("Cast", prefix + suffix, {x});
    set_attribute(node, "to", std::int64_t{type});
    return node.output(0);
  };
  const auto unsqueeze = [&](const char* suffix, const std::string& x) {
    NodeProto& node = editor.emit("Unsqueeze", prefix + suffix, {x});
    if (editor.opset() < 13) {
      set_attribute(node, "axes", std::vector<std::int64_t>{0});
    } else {
      node.add_input(editor.ints("pad.unsqueeze", {1}, {0}));
    }
    return node.output(0);
  };
  const std::string stride = editor.floats("pad.stride", {}, {static_cast<float>(ints_of(conv, "strides")[0])});
  const std::string window = editor.floats("pad.window", {}, {static_cast<float>(ints_of(conv, "kernel_shape")[0])});
  const std::string one = editor.floats("pad.one", {}, {1.0F});
  const std::string index = editor.ints("pad.axis" + std::to_string(axis), {}, {axis});

  const std::string extent = cast(".float", step("Gather", ".extent", {shape, index}), TensorProto::FLOAT);
  const std::string outputs = step("Ceil", ".ceil", {step("Div", ".div", {extent, stride})});
  const std::string reach = step("Mul", ".mul", {step("Sub", ".sub", {outputs, one}), stride});
  const std::string needed = step("Sub", ".needed", {step("Add", ".add", {reach, window}), extent});
  const std::string clipped = step("Clip", ".clip", {needed, editor.floats("pad.zero", {}, {0.0F}), ""});
  const std::string total = cast(".int", clipped, TensorProto::INT64);
  const std::string before = step("Div", ".half", {total, editor.ints("pad.two", {}, {2})});
  const std::string after = step("Sub", ".rest", {total, before});
  return {unsqueeze(".before", before), unsqueeze(".after", after)};
}

/// (left, right, top, bottom) to ONNX's order for four axes, as PyTorch's exporter writes it.
std::string emit_pad_order(GraphEditor& editor, const std::string& prefix, const std::string& pads) {
  const auto step = [&](const char* op, const char* suffix, std::initializer_list<std::string_view> inputs) {
    return editor.emit(op, prefix + suffix, inputs).output(0);
  };
  const std::string four = editor.ints("pad.four", {1}, {4});
  NodeProto& zeros = editor.emit("ConstantOfShape", prefix + ".zeros", {four});
  auto& value = *zeros.add_attribute();
  value.set_name("value");
  value.set_type(onnx_schema::AttributeProto::TENSOR);
  const std::vector<std::int64_t> zero{0};
  *value.mutable_t() = zoo::make_tensor("", std::vector<std::int64_t>{1}, std::span(zero));
  NodeProto& all = editor.emit("Concat", prefix + ".all", {pads, prefix + ".zeros"});
  set_attribute(all, "axis", std::int64_t{0});
  const std::string pairs = step("Reshape", ".pairs", {prefix + ".all", editor.ints("pad.pairs", {2}, {-1, 2})});
  constexpr std::int64_t kToTheFront = std::numeric_limits<std::int64_t>::min() + 1;
  const std::string reversed =
      step("Slice", ".reversed",
           {pairs, editor.ints("pad.starts", {1}, {-1}), editor.ints("pad.ends", {1}, {kToTheFront}),
            editor.ints("pad.axes", {1}, {0}), editor.ints("pad.steps", {1}, {-1})});
  NodeProto& transposed = editor.emit("Transpose", prefix + ".transposed", {reversed});
  set_attribute(transposed, "perm", std::vector<std::int64_t>{1, 0});
  const std::string flat = step("Reshape", ".flat", {prefix + ".transposed", editor.ints("pad.flat", {1}, {-1})});
  set_attribute(editor.emit("Cast", prefix + ".pads", {flat}), "to", std::int64_t{TensorProto::INT64});
  return prefix + ".pads";
}

}  // namespace

void write_clips(Model& model, ClipForm form) {
  GraphEditor editor(model);
  for (const NodeProto& node : editor.nodes()) {
    if (node.op_type() == "Clip") {
      emit_clip(editor, node, form);
    } else {
      editor.keep(node);
    }
  }
  editor.drop_unused();
}

void write_auto_pad(Model& model) {
  GraphEditor editor(model);
  for (NodeProto node : editor.nodes()) {
    if (node.op_type() == "Conv") {
      const bool pointwise = ints_of(node, "kernel_shape")[0] == 1;
      set_attribute(node, "auto_pad", pointwise ? "VALID" : "SAME_UPPER");
      remove_attribute(node, "pads");
      remove_attribute(node, "kernel_shape");
      remove_attribute(node, "dilations");
    }
    editor.keep(node);
  }
}

void write_pad_nodes(Model& model, bool depthwise_only) {
  GraphEditor editor(model);
  for (const NodeProto& node : editor.nodes()) {
    if (!is_strided(node) || (depthwise_only && find_attribute(node, "group")->i() == 1)) {
      editor.keep(node);
      continue;
    }
    const std::string padded = node.name() + ".pad";
    const std::vector<std::int64_t> p = ints_of(node, "pads");
    NodeProto& pad = editor.emit("Pad", padded, {node.input(0)});
    set_attribute(pad, "mode", "constant");
    const std::vector<std::int64_t> all{0, 0, p[0], p[1], 0, 0, p[2], p[3]};
    if (editor.opset() < 11) {
      set_attribute(pad, "pads", all);
    } else if (editor.opset() < 18) {
      pad.add_input(editor.ints(padded + ".pads", {8}, all));
      pad.add_input(editor.floats("pad.value", {}, {0.0F}));
    } else {
      pad.add_input(editor.ints(padded + ".pads", {4}, p));
      pad.add_input("");
      pad.add_input(editor.ints("pad.axes", {2}, {2, -1}));
    }
    emit_unpadded(editor, node, padded);
  }
}

void write_computed_pads(Model& model) {
  GraphEditor editor(model);
  for (const NodeProto& node : editor.nodes()) {
    if (!is_strided(node)) {
      editor.keep(node);
      continue;
    }
    const std::string prefix = node.name() + ".pad";
    const std::string shape = editor.emit("Shape", prefix + ".shape", {node.input(0)}).output(0);
    const auto [top, bottom] = emit_same_padding(editor, prefix + ".h", shape, 2, node);
    const auto [left, right] = emit_same_padding(editor, prefix + ".w", shape, 3, node);
    NodeProto& pads = editor.emit("Concat", prefix + ".four", {left, right, top, bottom});
    set_attribute(pads, "axis", std::int64_t{0});
    const std::string ordered = emit_pad_order(editor, prefix, prefix + ".four");
    editor.emit("Pad", prefix, {node.input(0), ordered, editor.floats("pad.value", {}, {0.0F})});
    emit_unpadded(editor, node, prefix);
  }
}

void write_bias_adds(Model& model, bool rank4) {
  GraphEditor editor(model);
  for (const NodeProto& node : editor.nodes()) {
    if (node.op_type() != "Conv" || node.input_size() < 3) {
      editor.keep(node);
      continue;
    }
    TensorProto& bias = editor.initializer(node.input(2));
    const std::int64_t channels = bias.dims(0);
    bias.clear_dims();
    if (rank4) bias.add_dims(1);
    for (const std::int64_t extent : {channels, std::int64_t{1}, std::int64_t{1}}) bias.add_dims(extent);

    NodeProto conv = node;
    conv.mutable_input()->RemoveLast();
    conv.set_output(0, node.name() + ".unbiased");
    editor.keep(conv);
    NodeProto& add = editor.emit("Add", node.name() + ".bias_add", {conv.output(0), bias.name()});
    add.set_output(0, node.output(0));
  }
}

void write_batchnorm_as_mul_add(Model& model) {
  GraphEditor editor(model);
  for (const NodeProto& node : editor.nodes()) {
    if (node.op_type() != "BatchNormalization") {
      editor.keep(node);
      continue;
    }
    const std::vector<float> gamma = editor.values(node.input(1));
    const std::vector<float> beta = editor.values(node.input(2));
    const std::vector<float> mean = editor.values(node.input(3));
    const std::vector<float> variance = editor.values(node.input(4));
    const double epsilon = double{find_attribute(node, "epsilon")->f()};
    std::vector<float> scale(gamma.size());
    std::vector<float> shift(gamma.size());
    for (std::size_t c = 0; c < gamma.size(); ++c) {
      const double exact = double{gamma[c]} / std::sqrt(double{variance[c]} + epsilon);
      scale[c] = static_cast<float>(exact);
      shift[c] = static_cast<float>(double{beta[c]} - double{mean[c]} * exact);
    }
    const std::vector<std::int64_t> dims{1, static_cast<std::int64_t>(gamma.size()), 1, 1};
    const std::string scaled = node.name() + ".mul";
    editor.emit("Mul", scaled, {node.input(0), editor.floats(node.name() + ".scale", dims, scale)});
    editor.emit_as(node, "Add", {scaled, editor.floats(node.name() + ".shift", dims, shift)});
  }
  editor.drop_unused();
}

void write_batchnorm_defaults(Model& model) {
  GraphEditor editor(model);
  for (NodeProto node : editor.nodes()) {
    if (node.op_type() == "BatchNormalization") {
      if (editor.opset() < 9) set_attribute(node, "spatial", std::int64_t{1});
      if (editor.opset() >= 14) set_attribute(node, "training_mode", std::int64_t{0});
    }
    editor.keep(node);
  }
}

void write_training_mode(Model& model) {
  GraphEditor editor(model);
  for (NodeProto node : editor.nodes()) {
    if (node.op_type() == "BatchNormalization") {
      set_attribute(node, "training_mode", std::int64_t{1});
      node.add_output(node.name() + ".running_mean.new");
      node.add_output(node.name() + ".running_var.new");
    }
    editor.keep(node);
  }
}

void write_quantized_activations(Model& model) {
  GraphEditor editor(model);
  const std::string scale = editor.floats("scale", {}, {0.05F});
  TensorProto zero;
  zero.set_name("zero_point");
  zero.set_data_type(TensorProto::INT8);
  zero.set_raw_data(std::string(1, '\0'));
  *editor.graph().add_initializer() = zero;
  for (NodeProto node : editor.nodes()) {
    if (node.op_type() == "Conv") {
      const std::string name = node.name();
      editor.emit("QuantizeLinear", name + ".q", {node.input(0), scale, zero.name()});
      editor.emit("DequantizeLinear", name + ".dq", {name + ".q", scale, zero.name()});
      node.set_input(0, name + ".dq");
    }
    editor.keep(node);
  }
}

}  // namespace mobicuda::test
