#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/graph.h>

#include "baselines/cpu/aligned_buffer.h"
#include "baselines/cpu/cpu_plan.h"

namespace mobicuda::cpu {

/// Weights of a step in the order its loops read them.
class PackedWeights {
 public:
  PackedWeights() = default;
  /// Zero-filled.
  explicit PackedWeights(std::int64_t elements);

  float* data() noexcept { return reinterpret_cast<float*>(storage_->data()); }
  const float* data() const noexcept { return reinterpret_cast<const float*>(storage_->data()); }
  std::int64_t bytes() const noexcept { return storage_->bytes(); }

 private:
  std::shared_ptr<AlignedBuffer> storage_;  // shared, because a step's function is copyable
};

/// A node with what its step needs to know: made by lower(), read by the functions below.
struct NodeView {
  const Graph& graph;
  const Node& node;
  std::vector<int> inputs;  ///< buffers, kNoBuffer where absent or constant
  int output = kNoBuffer;

  const TensorDesc& desc(std::size_t input) const { return graph.value(node.inputs[input]).desc; }
  const TensorDesc& output_desc() const { return graph.value(node.output).desc; }
  /// A constant input's elements; empty where absent.
  std::span<const float> constant(std::size_t input) const;
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
