#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace mobicuda::passes {
namespace {

using Permutation = std::vector<std::int64_t>;

bool is_identity(const Permutation& permutation) { return std::is_sorted(permutation.begin(), permutation.end()); }

// The permutation of first `inner`, then `outer`.
Permutation compose(const Permutation& inner, const Permutation& outer) {
  Permutation result;
  for (const std::int64_t axis : outer) result.push_back(inner[static_cast<std::size_t>(axis)]);
  return result;
}

bool is_noop(const Graph& graph, const Node& node) {
  const TensorDesc& in = graph.value(node.inputs[0]).desc;
  const TensorDesc& out = graph.value(node.output).desc;
  if (std::holds_alternative<Identity>(node.op)) return true;
  if (const auto* clip = std::get_if<Clip>(&node.op)) return clip->activation.is_none();
  if (const auto* pad = std::get_if<Pad>(&node.op)) return !pad->pads.any();
  if (const auto* transpose = std::get_if<Transpose>(&node.op)) return is_identity(transpose->permutation);
  if (std::holds_alternative<Reshape>(node.op) || std::holds_alternative<LayoutTransform>(node.op) ||
      std::holds_alternative<Slice>(node.op)) {
    return in == out;
  }
  return false;
}

bool is_global(const Pool2d& pool, const Shape& in) {
  return pool.kind == PoolKind::Average && !pool.pads.any() && pool.kernel[0] == in[2] && pool.kernel[1] == in[3];
}

// A network written for NHWC input turns it round at once: (N, H, W, C) -> (N, C, H, W).
bool reads_nhwc(const Graph& graph) {
  const auto readers = graph.consumers(graph.input());
  return !readers.empty() && graph.input() != graph.output() &&
         std::all_of(readers.begin(), readers.end(), [&](std::size_t i) {
           const auto* transpose = std::get_if<Transpose>(&graph.nodes()[i].op);
           return transpose != nullptr && transpose->permutation == Permutation{0, 3, 1, 2};
         });
}

Graph absorb_input_transpose(const Graph& graph) {
  if (!reads_nhwc(graph)) return graph;
  const Shape& stored = graph.input_desc().shape;
  Rewriter rewriter(graph, {DType::F32, Shape{stored[0], stored[3], stored[1], stored[2]}, Layout::NHWC});
  for (const Node& node : graph.nodes()) {
    if (node.inputs[0] == graph.input()) {
      rewriter.map(node.output, rewriter.mapped(graph.input()));
    } else {
      rewriter.copy(node);
    }
  }
  // The caller still expects a 4-D output in the order that the file promised.
  const ValueId output = rewriter.mapped(graph.output());
  const Value& value = rewriter.builder().value(output);
  if (value.desc.shape.rank() == 4 && value.desc.layout != graph.output_desc().layout) {
    const std::string name = value.name;
    rewriter.map(graph.output(), rewriter.builder().add_node(LayoutTransform{graph.output_desc().layout}, {output},
                                                             Origin{{{-1, "output_layout", "LayoutTransform"}}}, name));
  }
  return rewriter.finish();
}

}  // namespace

Graph remove_noops(const Graph& original) {
  const Graph graph = absorb_input_transpose(original);
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    // The network's output keeps its node: an input must not be its own output.
    if (is_noop(graph, node) && !(node.output == graph.output() && node.inputs[0] == graph.input())) {
      rewriter.map(node.output, rewriter.mapped(node.inputs[0]));
      continue;
    }
    if (const auto* pool = std::get_if<Pool2d>(&node.op);
        pool != nullptr && is_global(*pool, graph.value(node.inputs[0]).desc.shape)) {
      rewriter.replace(node, GlobalAveragePool{}, rewriter.mapped_inputs(node), node.origin);
      continue;
    }
    if (const auto* outer = std::get_if<Transpose>(&node.op)) {
      if (const Node* inner = sole_producer<Transpose>(graph, node.inputs[0])) {
        Origin origin = inner->origin;
        origin.append(node.origin);
        const Permutation joined = compose(std::get<Transpose>(inner->op).permutation, outer->permutation);
        const ValueId source = rewriter.mapped(inner->inputs[0]);
        if (is_identity(joined)) {
          rewriter.map(node.output, source);
        } else {
          rewriter.replace(node, Transpose{joined}, {source}, std::move(origin));
        }
        continue;
      }
    }
    rewriter.copy(node);
  }
  return rewriter.finish();
}

}  // namespace mobicuda::passes
