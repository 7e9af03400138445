#pragma once

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
#include "runtime/cuda_engine.h"

namespace mobicuda::cudnn {

/// Lowers an optimised graph to library calls for max_batch pictures, all 4-D activations in one layout.
/// LayoutTransform nodes cost nothing here: the builder knows in which order each value lies and converts
/// where a step needs another.
class PlanBuilder {
 public:
  /// `graph` and `search` must outlive the builder.
  PlanBuilder(const Graph& graph, const EngineOptions& options, Layout layout, ConvSearch& search);

  /// The convolutions and matrix products that build() will look up in the search: for each layer all the
  /// problems that compute it.
  std::vector<ConvAlternatives> layers() const;

  /// Throws Error(unsupported) that names the layer which nothing runs. Call once.
  CudaPlan build();

 private:
  // A buffer from some byte on.
  struct Place {
    int buffer = -1;
    std::int64_t offset = 0;

    void* in(const CudaStepContext& context) const { return static_cast<std::byte*>(context.buffers[buffer]) + offset; }
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// What kernels and libraries are promised for every tensor, in bytes.
  static constexpr std::int64_t kAlignment = 16;
  // Where a value lies and how: several values may share one buffer.
  struct Stored {
    Place place;
    DType dtype = DType::F32;
    Layout layout = Layout::NCHW;
    Shape shape;             ///< for the whole batch, channels as stored
    std::int64_t pitch = 0;  ///< NHWC: elements from pixel to pixel of the wider tensor it is a part of; 0: packed

    friend bool operator==(const Stored&, const Stored&) = default;
  };
  struct Buffer {
    CudaBuffer::Place place = CudaBuffer::Place::Arena;
    std::int64_t bytes = 0;
    int first_step = 0;
    int last_step = 0;
  };
  using Enqueue = std::function<cudaError_t(const CudaStepContext&, const Handles&)>;

  // emit_conv.cpp, emit_ops.cpp, emit_movement.cpp: one function for each operation.
  void emit(const Node& node, const Conv2d& op);
  void emit(const Node& node, const Gemm& op);
  void emit(const Node& node, const ScaleShift& op);
  void emit(const Node& node, const Add& op);
  void emit(const Node& node, const Mul& op);
  void emit(const Node& node, const Unary& op);
  void emit(const Node& node, const LocalResponseNorm& op);
  void emit(const Node& node, const Concat& op);
  void emit(const Node& node, const Slice& op);
  void emit(const Node& node, const Clip& op);
  void emit(const Node& node, const Pool2d& op);
  void emit(const Node& node, const GlobalAveragePool& op);
  void emit(const Node& node, const Softmax& op);
  void emit(const Node& node, const Reshape& op);
  void emit(const Node& node, const Transpose& op);
  void emit(const Node& node, const Pad& op);
  void emit(const Node& node, const LayoutTransform& op);
  void emit(const Node& node, const Identity& op);

  void emit_conv_steps(const Node& node, const ConvChoice& choice, const Stored& x, const Stored* residual,
                       const Stored& y, const WeightStore::Address& w, const WeightStore::Address& bias);
  void emit_affine(const Node& node, const char* kernel, const Stored& x, const Stored* residual,
                   const WeightStore::Address& scale, const WeightStore::Address& shift, const Activation& activation);
  void emit_fastest(const Node& node, const Stored& x, const Stored& y, std::span<const Way> ways);
  const ConvChoice& choose(const Node& node, std::span<const ConvProblem> alternatives);
  ConvAlternatives conv_problems(const Node& node, const Conv2d& op) const;
  ConvProblem gemm_problem(const Node& node, const Gemm& op) const;
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

  // Buffers and formats.
  DType element() const {
    if (options_.precision == Precision::Fp64) return DType::F64;
    return options_.precision == Precision::Fp16 ? DType::F16 : DType::F32;
  }
  Layout layout_for(const Shape& shape) const { return shape.rank() == 4 ? layout_ : Layout::NCHW; }
  Shape with_batch(const Shape& picture) const;
  int add_buffer(std::int64_t bytes, CudaBuffer::Place place = CudaBuffer::Place::Arena);
  const Stored& stored(ValueId id) const;
  /// A place for a node's output: the engine's output buffer when the format is the one it wants.
  Stored new_output(const Node& node, DType dtype);
  void set_stored(const Node& node, const Stored& value);
  /// The last step has finished the node's output: it can be looked at there.
  void show(const Node& node);
  void normalize_pictures();
  Stored in_plan_format(const Stored& value, std::string_view name);
  /// As in_plan_format, but possibly a part of a wider tensor.
  Stored in_plan_pitch(const Stored& value, std::string_view name);
  Stored convert(const Stored& from, DType dtype, Layout layout, std::int64_t channels, std::string_view name);
  void add_conversion(const Stored& from, const Stored& to, std::string_view name);
  /// `bytes` of each row of an axis and all faster ones, from one tensor to the other.
  void add_row_copy(LayerInfo info, const RowCopy& copy, Place from, Place to);
  void add_step(LayerInfo info, std::initializer_list<int> buffers, Enqueue enqueue);
  LayerInfo layer_info(const Node& node, std::string kernel) const;
  CudaPlan finish();

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

}  // namespace mobicuda::cudnn
