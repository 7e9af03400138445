#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/graph.h>
#include <mobicuda/saved_engine.h>

#include "baselines/cpu/cpu_plan.h"

namespace mobicuda::cpu {

/// Packs the weights of an engine, or hands out those of a saved one.
class WeightPacker {
 public:
  /// Packs where `saved` is null.
  explicit WeightPacker(const SavedEngine* saved);

  /// `elements` floats that `fill` writes, zero before; or the saved ones.
  template <class Fill>
  PackedWeights pack(std::int64_t elements, Fill&& fill) {
    if (replay_) return replayed(elements);
    float* data = add(elements);
    fill(data);
    return packed_.back();
  }
  /// Everything that was packed; throws Error(invalid_model) where a saved engine has more.
  std::vector<PackedWeights> finish() &&;

 private:
  float* add(std::int64_t elements);
  PackedWeights replayed(std::int64_t elements);

  const SavedEngine* saved_;
  std::optional<WeightReplay> replay_;
  std::vector<PackedWeights> packed_;
};

/// A node with what its step needs to know: made by lower(), read by the functions below.
struct NodeView {
  const Graph& graph;
  const Node& node;
  WeightPacker& weights;
  std::vector<int> inputs;  ///< buffers, kNoBuffer where absent or constant
  int output = kNoBuffer;

  const TensorDesc& desc(std::size_t input) const { return graph.value(node.inputs[input]).desc; }
  const TensorDesc& output_desc() const { return graph.value(node.output).desc; }
  /// A constant input's elements; empty where absent.
  std::span<const float> constant(std::size_t input) const;
  /// A constant input as it is.
  PackedWeights copy_of(std::size_t input) const;
};

/// What runs a node, and what it needs beside activations.
struct LoweredNode {
  std::string kernel;  ///< LayerInfo::kernel
  std::function<void(const StepContext&)> run;
  std::int64_t weight_bytes = 0;
  std::int64_t workspace_bytes = 0;  ///< for each thread
};

/// Why no engine of that precision runs the node; empty when one does.
std::string why_not_lowered(const Graph& graph, const Node& node);

/// Single precision: packed weights and the loops of fp32_kernels.h.
LoweredNode lower_fp32(const NodeView& view);
/// Double precision: the definitions of ops/*.h.
LoweredNode lower_fp64(const NodeView& view);

/// The operations that have no weights to pack; T is float or double.
template <class T>
LoweredNode lower_simple(const NodeView& view);

}  // namespace mobicuda::cpu
