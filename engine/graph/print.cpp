#include <sstream>

#include <mobicuda/graph.h>

namespace mobicuda {
namespace {

std::string pads_text(const Padding& pads) {
  std::ostringstream text;
  text << pads.top << ',' << pads.left << ',' << pads.bottom << ',' << pads.right;
  return text.str();
}

std::string dilations_text(const std::array<std::int64_t, 2>& dilations) {
  if (dilations == std::array<std::int64_t, 2>{1, 1}) return "";
  return " dilation=" + std::to_string(dilations[0]) + ',' + std::to_string(dilations[1]);
}

std::string activation_text(const Activation& activation) {
  return activation.is_none() ? "" : " act=" + to_string(activation);
}

struct Attributes {
  std::string operator()(const Conv2d& op) const {
    std::ostringstream text;
    text << " stride=" << op.strides[0] << ',' << op.strides[1] << " pads=" << pads_text(op.pads);
    text << dilations_text(op.dilations);
    if (op.groups != 1) text << " groups=" << op.groups;
    text << activation_text(op.activation);
    return text.str();
  }
  std::string operator()(const Gemm& op) const { return activation_text(op.activation); }
  std::string operator()(const ScaleShift& op) const { return activation_text(op.activation); }
  std::string operator()(const Add& op) const { return activation_text(op.activation); }
  std::string operator()(const Mul& op) const { return activation_text(op.activation); }
  std::string operator()(const Unary& op) const {
    std::ostringstream text;
    if (op.kind == UnaryKind::LeakyRelu || op.kind == UnaryKind::Elu) text << " alpha=" << op.alpha;
    return text.str();
  }
  std::string operator()(const Clip& op) const { return activation_text(op.activation); }
  std::string operator()(const Pool2d& op) const {
    std::ostringstream text;
    text << (op.kind == PoolKind::Max ? " max " : " average ") << op.kernel[0] << 'x' << op.kernel[1]
         << " stride=" << op.strides[0] << ',' << op.strides[1] << " pads=" << pads_text(op.pads)
         << dilations_text(op.dilations) << (op.ceil_mode ? " ceil" : "")
         << (op.count_include_pad ? " include_pad" : "");
    return text.str();
  }
  std::string operator()(const GlobalAveragePool&) const { return ""; }
  std::string operator()(const LocalResponseNorm& op) const {
    std::ostringstream text;
    text << " size=" << op.size << " alpha=" << op.alpha << " beta=" << op.beta << " bias=" << op.bias;
    return text.str();
  }
  std::string operator()(const Concat& op) const { return " axis=" + std::to_string(op.axis); }
  std::string operator()(const Slice& op) const {
    return " axis=" + std::to_string(op.axis) + " " + std::to_string(op.first) + ".." +
           std::to_string(op.first + op.extent);
  }
  std::string operator()(const Softmax&) const { return ""; }
  std::string operator()(const Reshape&) const { return ""; }
  std::string operator()(const Transpose& op) const {
    std::string text = " perm=";
    for (std::size_t i = 0; i < op.permutation.size(); ++i) text += (i ? "," : "") + std::to_string(op.permutation[i]);
    return text;
  }
  std::string operator()(const Pad& op) const {
    std::ostringstream text;
    text << " pads=" << pads_text(op.pads);
    if (op.mode == PadMode::Constant) text << " value=" << op.value;
    if (op.mode != PadMode::Constant) text << (op.mode == PadMode::Edge ? " edge" : " reflect");
    return text.str();
  }
  std::string operator()(const LayoutTransform& op) const { return " to=" + std::string(to_string(op.to)); }
  std::string operator()(const Identity&) const { return ""; }
};

std::string value_text(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "-";
  const Value& value = graph.value(id);
  std::string text = "%" + std::to_string(id) + ":" + to_string(value.desc.shape);
  if (!value.constant && value.desc.shape.rank() == 4) text += " " + std::string(to_string(value.desc.layout));
  return text;
}

}  // namespace

std::string print(const Graph& graph) {
  std::ostringstream text;
  text << "graph '" << graph.name() << "' (" << value_text(graph, graph.input()) << ")\n";
  for (const Node& node : graph.nodes()) {
    text << "  " << value_text(graph, node.output) << " = " << op_name(node.op) << '(';
    for (std::size_t i = 0; i < node.inputs.size(); ++i) text << (i ? ", " : "") << value_text(graph, node.inputs[i]);
    text << ')' << std::visit(Attributes{}, node.op) << "  # " << node.origin.label() << '\n';
  }
  text << "  return %" << graph.output() << '\n';
  return text.str();
}

}  // namespace mobicuda
