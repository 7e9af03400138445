#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/engine.h>

#include "cudnn/branch_ops.h"
#include "cudnn/conv_search.h"
#include "cudnn/pack_weights.h"
#include "graph/op_functions.h"
#include "runtime/cuda_engine.h"

namespace mobicuda::cudnn {

/// A buffer from some byte on.
struct Place {
  int buffer = -1;
  std::int64_t offset = 0;

  void* in(const CudaStepContext& context) const { return static_cast<std::byte*>(context.buffers[buffer]) + offset; }
  friend bool operator==(const Place&, const Place&) = default;
};

/// Where a value lies and how: several values may share one buffer.
struct Stored {
  Place place;
  DType dtype = DType::F32;
  Layout layout = Layout::NCHW;
  Shape shape;             ///< for the whole batch, channels as stored
  std::int64_t pitch = 0;  ///< NHWC: elements from pixel to pixel of the wider tensor it is a part of; 0: packed

  friend bool operator==(const Stored&, const Stored&) = default;
};

class PlanBuilder;

template <class T>
struct CudnnOp {
  /// Stands in a file emit_*.
  friend void emit(PlanBuilder& plan, const Node& node, const T& op);
};

/// Lowers an optimised graph to library calls for max_batch images, all 4-D activations in one layout.
/// LayoutTransform nodes cost nothing here: the builder knows in which order each value lies and converts
/// where a step needs another.
class PlanBuilder : OpFunctions<CudnnOp> {
 public:
  /// `graph` and `search` must outlive the builder.
  PlanBuilder(const Graph& graph, const EngineOptions& options, Layout layout, ConvSearch& search);

  /// The convolutions and matrix products that build() will look up in the search: for each layer all the
  /// problems that compute it.
  std::vector<ConvAlternatives> layers() const;

  /// Throws Error(unsupported) that names the layer which nothing runs. Call once.
  CudaNetwork build();

  // ---- for emit()
  /// What kernels and libraries are promised for every tensor, in bytes.
  static constexpr std::int64_t kAlignment = 16;
  using Enqueue = std::function<cudaError_t(const CudaStepContext&, const Handles&)>;

  const Graph& graph() const { return graph_; }
  const EngineOptions& options() const { return options_; }
  Layout layout() const { return layout_; }
  ConvSearch& search() { return search_; }
  WeightStore& weights() { return weights_; }
  /// What activations are computed in.
  DType element() const {
    if (options_.precision == Precision::Fp64) return DType::F64;
    return options_.precision == Precision::Fp16 ? DType::F16 : DType::F32;
  }
  Shape with_batch(const Shape& picture) const;
  int add_buffer(std::int64_t bytes, CudaBuffer::Place place = CudaBuffer::Place::Arena);
  void need_workspace(std::int64_t bytes) { workspace_bytes_ = std::max(workspace_bytes_, bytes); }
  const Stored& stored(ValueId id) const;
  /// A place for a node's output: the engine's output buffer when the format is the one it wants.
  Stored new_output(const Node& node, DType dtype);
  void set_stored(const Node& node, const Stored& value);
  Stored in_plan_format(const Stored& value, std::string_view name);
  /// As in_plan_format, but possibly a part of a wider tensor.
  Stored in_plan_pitch(const Stored& value, std::string_view name);
  Stored convert(const Stored& from, DType dtype, Layout layout, std::int64_t channels, std::string_view name);
  void add_conversion(const Stored& from, const Stored& to, std::string_view name);
  /// `bytes` of each row of an axis and all faster ones, from one tensor to the other.
  void add_row_copy(LayerInfo info, const RowCopy& copy, Place from, Place to);
  void add_step(LayerInfo info, std::initializer_list<int> buffers, Enqueue enqueue);
  LayerInfo layer_info(const Node& node, std::string kernel) const;
  ConvAlternatives conv_problems(const Node& node, const Conv2d& op) const;
  ConvProblem gemm_problem(const Node& node, const Gemm& op) const;

 private:
  struct Buffer {
    CudaBuffer::Place place = CudaBuffer::Place::Arena;
    std::int64_t bytes = 0;
    int first_step = 0;
    int last_step = 0;
  };

  bool converts_input(ValueId id) const;
  bool wants_float(ValueId id) const;

  // place_concat.cpp: the parts of a joined tensor are computed where they belong.
  struct Part {
    int whole = 0;            ///< the widest tensor, an index of wholes_
    std::int64_t offset = 0;  ///< in channels
    std::int64_t pitch = 0;   ///< channels of the whole
  };
  void place_concats();
  void place_inputs(const Node& node);
  bool can_be_part(ValueId id) const;
  std::optional<Part> continued(const Node& node) const;
  const std::optional<Part>& part(ValueId id) const { return parts_[static_cast<std::size_t>(id)]; }
  /// The pitch of a part; 0 for what is packed.
  std::int64_t pitch_of(ValueId id) const;

  Layout layout_for(const Shape& shape) const { return shape.rank() == 4 ? layout_ : Layout::NCHW; }
  /// The last step has finished the node's output: it can be looked at there.
  void show(const Node& node);
  void normalize_pictures();
  CudaNetwork finish();

  const Graph& graph_;
  const EngineOptions& options_;
  Layout layout_;
  ConvSearch& search_;
  WeightStore weights_;
  std::vector<std::optional<Stored>> values_;
  std::vector<std::pair<Stored, Stored>> converted_;
  std::vector<std::optional<Part>> parts_;
  std::vector<int> wholes_;  // buffers, -1 until the first part is written
  std::vector<Buffer> buffers_;
  std::vector<CudaStep> steps_;
  std::int64_t workspace_bytes_ = 0;
  int output_buffer_ = -1;
};

/// Of a Unary that is no activation: emit_unary.cu.
void emit_function(PlanBuilder& plan, const Node& node, UnaryKind kind);

}  // namespace mobicuda::cudnn
