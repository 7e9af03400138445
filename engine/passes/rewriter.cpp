#include "passes/rewriter.h"

#include <utility>

namespace mobicuda {

Rewriter::Rewriter(const Graph& source) : Rewriter(source, source.input_desc()) {}

Rewriter::Rewriter(const Graph& source, TensorDesc input)
    : source_(source), builder_(source.name()), map_(source.values().size(), kNoValue) {
  map(source.input(), builder_.set_input(source.value(source.input()).name, input));
}

ValueId Rewriter::mapped(ValueId old) {
  if (old == kNoValue) return kNoValue;
  ValueId& entry = map_.at(static_cast<std::size_t>(old));
  if (entry == kNoValue) {
    const Value& value = source_.value(old);
    if (!value.constant)
      throw Error(ErrorCode::internal, "pass", "value '" + value.name + "' is read before it is made");
    entry = builder_.add_constant(value.name, value.constant, value.quantized);
  }
  return entry;
}

void Rewriter::map(ValueId old, ValueId replacement) { map_.at(static_cast<std::size_t>(old)) = replacement; }

std::vector<ValueId> Rewriter::mapped_inputs(const Node& node) {
  std::vector<ValueId> inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueId id : node.inputs) inputs.push_back(mapped(id));
  return inputs;
}

void Rewriter::copy(const Node& node) { replace(node, node.op, mapped_inputs(node), node.origin); }

ValueId Rewriter::replace(const Node& node, Op op, std::vector<ValueId> inputs, Origin origin) {
  const ValueId output =
      builder_.add_node(std::move(op), std::move(inputs), std::move(origin), source_.value(node.output).name);
  map(node.output, output);
  return output;
}

Graph Rewriter::finish() {
  ValueId output = mapped(source_.output());
  if (output == mapped(source_.input())) {
    const auto last = source_.producer(source_.output());
    output = builder_.add_node(Identity{}, {output}, last ? source_.nodes()[*last].origin : Origin{},
                               source_.value(source_.output()).name);
  }
  return std::move(builder_).build(output);
}

}  // namespace mobicuda
