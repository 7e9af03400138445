#include "models/network_summary.h"

#include <functional>
#include <numeric>
#include <stdexcept>

#include <mobicuda_onnx.pb.h>

namespace mobicuda::test {
namespace {

using onnx_schema::ModelProto;
using onnx_schema::NodeProto;
using Shape = std::vector<std::int64_t>;

std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

const onnx_schema::AttributeProto* attribute(const NodeProto& node, const std::string& name) {
  for (const auto& candidate : node.attribute()) {
    if (candidate.name() == name) return &candidate;
  }
  return nullptr;
}

class Summarizer {
 public:
  explicit Summarizer(const ModelProto& model) : model_(model) {
    for (const auto& tensor : model.graph().initializer()) {
      shapes_[tensor.name()] = {tensor.dims().begin(), tensor.dims().end()};
    }
    Shape& input = shapes_[model.graph().input(0).name()];
    for (const auto& dim : model.graph().input(0).type().tensor_type().shape().dim()) input.push_back(dim.dim_value());
    input.at(0) = 1;
  }

  NetworkSummary run() {
    for (const NodeProto& node : model_.graph().node()) {
      ++summary_.operators[node.op_type()];
      if (!shapes_.emplace(node.output(0), infer(node)).second) fail(node, "its output exists already");
    }
    summary_.output = shapes_.at(model_.graph().output(0).name());
    return std::move(summary_);
  }

 private:
  [[noreturn]] static void fail(const NodeProto& node, const std::string& why) {
    throw std::runtime_error(node.op_type() + " '" + node.name() + "': " + why);
  }

  const Shape& input(const NodeProto& node, int position) {
    const auto found = shapes_.find(node.input(position));
    if (found == shapes_.end()) fail(node, "reads '" + node.input(position) + "', which nothing wrote");
    return found->second;
  }

  /// Counts the inputs from `first` to `last` as parameters.
  void count(const NodeProto& node, int first, int last) {
    for (int i = first; i <= last && i < node.input_size(); ++i) summary_.parameters += elements(input(node, i));
  }

  Shape infer(const NodeProto& node) {
    const std::string& op = node.op_type();
    const Shape& x = input(node, 0);
    if (op == "Conv") return conv(node, x);
    if (op == "MaxPool" || op == "AveragePool") return windows(node, x, x.at(1));
    if (op == "GlobalAveragePool") return {x.at(0), x.at(1), 1, 1};
    if (op == "Flatten") return {x.at(0), elements(x) / x.at(0)};
    if (op == "Gemm") return gemm(node, x);
    if (op == "Concat") return concat(node, x);
    if (op == "BatchNormalization") {
      if (input(node, 1) != Shape{x.at(1)}) fail(node, "its scales do not fit");
      count(node, 1, 2);
    }
    if (op == "Add" && input(node, 1) != x) fail(node, "its operands differ in shape");
    if (op == "Mul" && input(node, 1) != x && input(node, 1) != Shape{x.at(0), x.at(1), 1, 1}) {
      fail(node, "the second operand is neither alike nor one value for each channel");
    }
    return x;
  }

  Shape conv(const NodeProto& node, const Shape& x) {
    const Shape& w = input(node, 1);
    const std::int64_t groups = attribute(node, "group")->i();
    if (w.at(1) * groups != x.at(1) || w.at(0) % groups != 0) fail(node, "its weights do not fit the channels");
    count(node, 1, 2);
    Shape y = windows(node, x, w.at(0));
    summary_.multiply_adds += elements(y) * elements(w) / w.at(0);
    return y;
  }

  Shape gemm(const NodeProto& node, const Shape& x) {
    const Shape& w = input(node, 1);
    if (x.size() != 2 || w.at(1) != x.at(1)) fail(node, "its weights do not fit the features");
    count(node, 1, 2);
    summary_.multiply_adds += elements(w);
    return {x.at(0), w.at(0)};
  }

  Shape concat(const NodeProto& node, const Shape& x) {
    Shape y = x;
    for (int i = 1; i < node.input_size(); ++i) {
      Shape other = input(node, i);
      y.at(1) += other.at(1);
      other.at(1) = x.at(1);
      if (other != x) fail(node, "its operands differ in extent");
    }
    return y;
  }

  static Shape windows(const NodeProto& node, const Shape& x, std::int64_t channels) {
    const auto& kernel = attribute(node, "kernel_shape")->ints();
    const auto& pads = attribute(node, "pads")->ints();
    const auto& strides = attribute(node, "strides")->ints();
    const auto* ceil_mode = attribute(node, "ceil_mode");
    Shape y{x.at(0), channels};
    for (int axis = 0; axis < 2; ++axis) {
      const std::int64_t extent = x.at(static_cast<std::size_t>(axis) + 2);
      const std::int64_t room = extent + pads[axis] + pads[axis + 2] - kernel[axis];
      if (room < 0) fail(node, "the window is larger than the map");
      std::int64_t count = room / strides[axis] + 1;
      const bool hangs_over = count * strides[axis] < extent + pads[axis] && (count - 1) * strides[axis] < room;
      if (ceil_mode != nullptr && ceil_mode->i() != 0 && hangs_over) ++count;
      y.push_back(count);
    }
    return y;
  }

  const ModelProto& model_;
  std::map<std::string, Shape> shapes_;
  NetworkSummary summary_;
};

}  // namespace

NetworkSummary summarize(const ModelProto& model) { return Summarizer(model).run(); }

}  // namespace mobicuda::test
