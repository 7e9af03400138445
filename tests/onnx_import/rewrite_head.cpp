#include <stdexcept>

#include "graph_editor.h"
#include "model_rewrites.h"

namespace mobicuda::test {
namespace {

using onnx_schema::NodeProto;
using onnx_schema::TensorProto;
using zoo::set_attribute;

const std::string kWeight = "classifier.1.weight";
const std::string kBias = "classifier.1.bias";

/// Axes as attribute or input, by the opset in which the operator changed.
void give_axes(GraphEditor& editor, NodeProto& node, std::int64_t input_since, const std::vector<std::int64_t>& axes) {
  if (editor.opset() < input_since) {
    set_attribute(node, "axes", axes);
  } else {
    node.add_input(editor.ints(node.name() + ".axes", {static_cast<std::int64_t>(axes.size())}, axes));
  }
}

std::string emit_mean(GraphEditor& editor, const std::string& x, const std::vector<std::int64_t>& axes, bool kept) {
  constexpr std::int64_t kReduceMeanTakesAxesAsInput = 18;
  NodeProto& mean = editor.emit("ReduceMean", "mean", {x});
  give_axes(editor, mean, kReduceMeanTakesAxesAsInput, axes);
  set_attribute(mean, "keepdims", std::int64_t{kept});
  return "mean";
}

/// Extents of the map that the last convolution leaves: the network is a chain, and each stride rounds up.
std::vector<std::int64_t> final_map(GraphEditor& editor) {
  const auto& shape = editor.graph().input(0).type().tensor_type().shape();
  std::int64_t height = shape.dim(2).dim_value();
  std::int64_t width = shape.dim(3).dim_value();
  for (const NodeProto& node : editor.nodes()) {
    if (node.op_type() != "Conv") continue;
    const std::vector<std::int64_t> strides = ints_of(node, "strides");
    height = (height + strides[0] - 1) / strides[0];
    width = (width + strides[1] - 1) / strides[1];
  }
  return {height, width};
}

std::string emit_flatten(GraphEditor& editor, const std::string& x) {
  editor.emit("Flatten", "flat", {x});
  return "flat";
}

std::string emit_reshape(GraphEditor& editor, const std::string& x, const std::vector<std::int64_t>& shape,
                         bool allow_zero) {
  NodeProto& node = editor.emit("Reshape", "flat", {x, editor.ints("flat.shape", {2}, shape)});
  if (allow_zero) set_attribute(node, "allowzero", std::int64_t{1});
  return "flat";
}

/// Reshape to (batch, -1), the batch taken from the value's shape by Slice, through int32.
std::string emit_reshape_slice(GraphEditor& editor, const std::string& x) {
  const auto cast = [&](const std::string& name, const std::string& from, TensorProto::DataType type) {
    set_attribute(editor.emit("Cast", name, {from}), "to", std::int64_t{type});
    return name;
  };
  editor.emit("Shape", "shape", {x});
  const std::string narrow = cast("shape.int32", "shape", TensorProto::INT32);
  if (editor.opset() < 10) {
    NodeProto& slice = editor.emit("Slice", "shape.batch", {narrow});
    set_attribute(slice, "starts", std::vector<std::int64_t>{0});
    set_attribute(slice, "ends", std::vector<std::int64_t>{1});
    set_attribute(slice, "axes", std::vector<std::int64_t>{0});
  } else {
    editor.emit("Slice", "shape.batch",
                {narrow, editor.ints("slice.starts", {1}, {0}), editor.ints("slice.ends", {1}, {1}),
                 editor.ints("slice.axes", {1}, {0})});
  }
  const std::string wide = cast("shape.batch.int64", "shape.batch", TensorProto::INT64);
  NodeProto& concat = editor.emit("Concat", "flat.shape", {wide, editor.ints("minus_one", {1}, {-1})});
  set_attribute(concat, "axis", std::int64_t{0});
  editor.emit("Reshape", "flat", {x, "flat.shape"});
  return "flat";
}

/// From the map `x` to (N, C).
std::string emit_pool(GraphEditor& editor, const std::string& x, PoolForm form, std::int64_t channels) {
  const auto global = [&] { return editor.emit("GlobalAveragePool", "pool", {x}).output(0); };
  switch (form) {
    case PoolForm::Global:
      return emit_flatten(editor, global());
    case PoolForm::Mean:
      return emit_mean(editor, x, {2, 3}, false);
    case PoolForm::MeanKept:
      return emit_flatten(editor, emit_mean(editor, x, {2, 3}, true));
    case PoolForm::MeanNegative:
      return emit_mean(editor, x, {-1, -2}, false);
    case PoolForm::MeanNhwc:
      set_attribute(editor.emit("Transpose", "nhwc", {x}), "perm", std::vector<std::int64_t>{0, 2, 3, 1});
      return emit_mean(editor, "nhwc", {1, 2}, false);
    case PoolForm::Window: {
      NodeProto& pool = editor.emit("AveragePool", "pool", {x});
      set_attribute(pool, "kernel_shape", final_map(editor));
      return emit_flatten(editor, "pool");
    }
    case PoolForm::Squeeze: {
      constexpr std::int64_t kSqueezeTakesAxesAsInput = 13;
      NodeProto& squeeze = editor.emit("Squeeze", "flat", {global()});
      give_axes(editor, squeeze, kSqueezeTakesAxesAsInput, {2, 3});
      return "flat";
    }
    case PoolForm::ReshapeZero:
      return emit_reshape(editor, global(), {0, -1}, false);
    case PoolForm::ReshapeChannels:
      return emit_reshape(editor, global(), {-1, channels}, false);
    case PoolForm::ReshapeAllowZero:
      return emit_reshape(editor, global(), {-1, channels}, true);
    case PoolForm::Dynamo:
      return emit_reshape(editor, emit_mean(editor, x, {-1, -2}, true), {-1, channels}, true);
    case PoolForm::ReshapeFixed:
      return emit_reshape(editor, global(), {1, channels}, false);
    case PoolForm::ReshapeSlice:
      return emit_reshape_slice(editor, global());
  }
  throw std::logic_error("unknown PoolForm");
}

void transpose_weight(GraphEditor& editor) {
  TensorProto& weight = editor.initializer(kWeight);
  const std::vector<float> old = GraphEditor::float_values(weight);
  const auto rows = static_cast<std::size_t>(weight.dims(0));
  const auto columns = static_cast<std::size_t>(weight.dims(1));
  std::vector<float> turned(old.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) turned[c * rows + r] = old[r * columns + c];
  }
  weight = zoo::make_tensor(kWeight, std::vector<std::int64_t>{weight.dims(1), weight.dims(0)}, std::span(turned));
}

/// From (N, C), or (N, C, 1, 1) for ClassifierForm::Conv, to the graph's output.
void emit_classifier(GraphEditor& editor, const std::string& x, ClassifierForm form) {
  switch (form) {
    case ClassifierForm::Gemm:
      set_attribute(editor.emit("Gemm", "output", {x, kWeight, kBias}), "transB", std::int64_t{1});
      return;
    case ClassifierForm::GemmPlain: {
      transpose_weight(editor);
      NodeProto& gemm = editor.emit("Gemm", "output", {x, kWeight, kBias});
      for (const char* scale : {"alpha", "beta"}) set_attribute(gemm, scale, 1.0F);
      for (const char* transposed : {"transA", "transB"}) set_attribute(gemm, transposed, std::int64_t{0});
      return;
    }
    case ClassifierForm::MatMul:
      transpose_weight(editor);
      editor.emit("MatMul", "matmul", {x, kWeight});
      editor.emit("Add", "output", {"matmul", kBias});
      return;
    case ClassifierForm::MatMulTranspose:
      set_attribute(editor.emit("Transpose", "turned", {kWeight}), "perm", std::vector<std::int64_t>{1, 0});
      editor.emit("MatMul", "matmul", {x, "turned"});
      editor.emit("Add", "output", {kBias, "matmul"});
      return;
    case ClassifierForm::Conv:
    case ClassifierForm::ConvMap: {
      TensorProto& weight = editor.initializer(kWeight);
      weight.add_dims(1);
      weight.add_dims(1);
      if (form == ClassifierForm::Conv) {
        editor.emit("Conv", "conv", {x, kWeight, kBias});
        editor.emit("Flatten", "output", {"conv"});
        return;
      }
      editor.emit("Conv", "output", {x, kWeight, kBias});
      auto& output = *editor.graph().mutable_output(0);
      output = zoo::make_value_info("output", std::vector<std::int64_t>{0, weight.dims(0), 1, 1});
      return;
    }
  }
}

}  // namespace

void write_head(Model& model, PoolForm pool, ClassifierForm classifier) {
  GraphEditor editor(model);
  std::string map;
  for (const NodeProto& node : editor.nodes()) {
    if (node.name() == "pool") {
      map = node.input(0);
      break;
    }
    editor.keep(node);
  }
  const std::int64_t channels = editor.initializer(kWeight).dims(1);
  const bool keeps_map = classifier == ClassifierForm::Conv || classifier == ClassifierForm::ConvMap;
  const std::string features =
      keeps_map ? editor.emit("GlobalAveragePool", "pool", {map}).output(0) : emit_pool(editor, map, pool, channels);
  emit_classifier(editor, features, classifier);
  editor.drop_unused();
}

void write_dropout(Model& model, DropoutForm form) {
  GraphEditor editor(model);
  for (const NodeProto& node : editor.nodes()) {
    const bool classifier = node.op_type() == "Gemm" || node.op_type() == "MatMul";
    if (!classifier) {
      editor.keep(node);
      continue;
    }
    NodeProto moved = node;
    const std::string& x = node.input(0);
    if (form == DropoutForm::Node) {
      NodeProto& dropout = editor.emit("Dropout", "dropout", {x});
      dropout.add_output("dropout.mask");
      if (editor.opset() < 12) {
        set_attribute(dropout, "ratio", 0.2F);
      } else {
        dropout.add_input(editor.floats("dropout.ratio", {}, {0.2F}));
      }
    } else if (form == DropoutForm::Identity) {
      editor.emit("Identity", "dropout", {x});
    } else if (form == DropoutForm::NoopCast) {
      set_attribute(editor.emit("Cast", "dropout", {x}), "to", std::int64_t{TensorProto::FLOAT});
    } else {
      editor.emit("Mul", "dropout", {x, editor.floats("keep_probability", {1}, {0.5F})});
      std::vector<float> doubled = editor.values(node.input(1));
      for (float& weight : doubled) weight *= 2.0F;
      TensorProto& weight = editor.initializer(node.input(1));
      weight.set_raw_data(doubled.data(), doubled.size() * sizeof(float));
    }
    moved.set_input(0, "dropout");
    editor.keep(moved);
  }
}

void write_softmax(Model& model, SoftmaxAxis axis) {
  auto& nodes = *model.mutable_graph()->mutable_node();
  nodes[nodes.size() - 1].set_output(0, "logits");
  NodeProto& softmax = zoo::add_node(*model.mutable_graph(), "Softmax", "softmax", {"logits"});
  softmax.set_output(0, "output");
  if (axis != SoftmaxAxis::Default) set_attribute(softmax, "axis", std::int64_t{axis == SoftmaxAxis::One ? 1 : -1});
}

}  // namespace mobicuda::test
