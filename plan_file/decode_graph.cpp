#include <utility>

#include "graph/ops.h"
#include "structure.h"

namespace mobicuda::plan_file {
namespace {

Shape checked_shape(std::span<const std::int64_t> dims, const Limits& limits) {
  require_range(static_cast<std::int64_t>(dims.size()), 0, static_cast<std::int64_t>(Shape::kMaxRank), "rank");
  const Shape shape(dims);
  require_range(shape.elements(), 0, limits.elements_per_tensor, "elements of a tensor");
  return shape;
}

// Reads an operation's members from a node in order, each within its limits.
class MemberReader final : public Members {
 public:
  MemberReader(const plan_schema::Node& node, const Limits& limits) : node_(node), limits_(limits) {}

  void size(std::int64_t& value) override { number(value, limits_.window); }
  void fraction(float& value) override {
    require_range(float_, 0, node_.floats_size() - 1, "fractions of an operation");
    value = node_.floats(float_++);
  }
  void shape(Shape& value) override {
    std::vector<std::int64_t> dims;
    list(dims);
    value = checked_shape(dims, limits_);
  }
  void list(std::vector<std::int64_t>& values) override {
    std::int64_t count = 0;
    number(count, static_cast<std::int64_t>(Shape::kMaxRank));
    values.resize(static_cast<std::size_t>(count));
    for (std::int64_t& value : values) whole(value);
  }
  void finish() const {
    require_range(node_.numbers_size(), number_, number_, "numbers of an operation");
    require_range(node_.floats_size(), float_, float_, "fractions of an operation");
  }

 private:
  void number(std::int64_t& value, std::int64_t highest) override {
    require_range(number_, 0, node_.numbers_size() - 1, "numbers of an operation");
    value = node_.numbers(number_++);
    require_range(value, 0, highest, "number of an operation");
  }

  const plan_schema::Node& node_;
  const Limits& limits_;
  int number_ = 0;
  int float_ = 0;
};

// The operation that stands at `position` of the variant, with its default members.
template <std::size_t... positions>
Op make_op(std::size_t position, std::index_sequence<positions...>) {
  Op op;
  static_cast<void>(((position == positions && (op.emplace<positions>(), true)) || ...));
  return op;
}

Op decode_op(const plan_schema::Node& node, const Limits& limits) {
  constexpr std::size_t kOps = std::variant_size_v<Op>;
  require_range(node.op(), 0, static_cast<std::int64_t>(kOps) - 1, "operation");
  Op op = make_op(node.op(), std::make_index_sequence<kOps>());
  MemberReader reader(node, limits);
  std::visit([&](auto& one) { members(one, reader); }, op);
  reader.finish();
  return op;
}

Origin decode_origin(const plan_schema::Node& node, const Limits& limits) {
  Origin origin;
  require_range(node.sources_size(), 0, limits.nodes, "source nodes");
  for (const plan_schema::Source& source : node.sources()) {
    origin.nodes.push_back(
        {source.index(), checked_text(source.name(), limits), checked_text(source.op_type(), limits)});
  }
  return origin;
}

class GraphDecoder {
 public:
  GraphDecoder(const plan_schema::Graph& graph, const Limits& limits)
      : from_(graph), limits_(limits), builder_(checked_text(graph.name(), limits)) {}

  Graph decode() && {
    require_range(from_.values_size(), 1, limits_.values, "values");
    require_range(from_.nodes_size(), 1, limits_.nodes, "nodes");
    for (const plan_schema::Value& value : from_.values()) add(value);
    require_range(node_, from_.nodes_size(), from_.nodes_size(), "values that nodes make");
    require_range(from_.output(), 0, from_.values_size() - 1, "output");
    Graph graph = std::move(builder_).build(from_.output());
    // Lowering goes by numbers of values: none may have been dropped.
    require_range(static_cast<std::int64_t>(graph.values().size()), from_.values_size(), from_.values_size(),
                  "values that the output needs");
    return graph;
  }

 private:
  void add(const plan_schema::Value& value) {
    const std::string name = checked_text(value.name(), limits_);
    switch (value.kind()) {
      case plan_schema::Value::NODE:
        return add_node(name);
      case plan_schema::Value::INPUT: {
        require_range(value.layout(), 0, static_cast<std::int64_t>(Layout::NHWC), "layout");
        builder_.set_input(name, {DType::F32, shape_of(value), static_cast<Layout>(value.layout())});
        break;
      }
      case plan_schema::Value::CONSTANT:
        builder_.add_constant(name, HostTensor::shape_only(dtype_of_constant(value), shape_of(value)));
        break;
      default:
        require_range(value.kind(), 0, plan_schema::Value::CONSTANT, "kind of a value");
    }
    ++values_;
  }

  void add_node(const std::string& name) {
    require_range(node_, 0, from_.nodes_size() - 1, "values that nodes make");
    const plan_schema::Node& node = from_.nodes(node_++);
    require_range(node.inputs_size(), 1, limits_.values, "inputs of a node");
    std::vector<ValueId> inputs;
    for (const std::int32_t id : node.inputs()) {
      require_range(id, kNoValue, values_ - 1, "input of a node");
      inputs.push_back(id);
    }
    const ValueId made =
        builder_.add_node(decode_op(node, limits_), std::move(inputs), decode_origin(node, limits_), name);
    require_range(builder_.value(made).desc.shape.elements(), 0, limits_.elements_per_tensor, "elements of a tensor");
    ++values_;
  }

  static DType dtype_of_constant(const plan_schema::Value& value) {
    require_range(value.dtype(), 0, static_cast<std::int64_t>(DType::Bool), "type of a constant");
    return static_cast<DType>(value.dtype());
  }

  Shape shape_of(const plan_schema::Value& value) const {
    return checked_shape({value.dims().data(), static_cast<std::size_t>(value.dims_size())}, limits_);
  }

  const plan_schema::Graph& from_;
  const Limits& limits_;
  GraphBuilder builder_;
  int node_ = 0;
  int values_ = 0;
};

}  // namespace

Graph decode_graph(const plan_schema::Graph& graph, const Limits& limits) {
  return GraphDecoder(graph, limits).decode();
}

}  // namespace mobicuda::plan_file
