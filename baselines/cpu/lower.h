#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/graph.h>
#include <mobicuda/saved_engine.h>

#include "baselines/cpu/cpu_plan.h"
#include "baselines/cpu/fusion.h"
#include "baselines/cpu/ops/fp32_kernels.h"
#include "baselines/cpu/ops/strides.h"
#include "graph/op_functions.h"

namespace mobicuda::cpu {

/// Packs the weights of an engine into one block, which huge pages are asked for, or hands out those of a saved one.
class WeightPacker {
 public:
  /// Counts what pack() is asked for, and fills nothing: what it returns has a size and no elements.
  WeightPacker() = default;
  /// Packs: `bytes` that another has counted.
  explicit WeightPacker(std::int64_t bytes);
  explicit WeightPacker(const SavedEngine& saved);

  /// `elements` floats, or others, that `fill` writes, zero before; or the saved ones.
  template <class T = float, class Fill>
  PackedWeights pack(std::int64_t elements, Fill&& fill) {
    std::byte* const piece = add(checked_multiply(elements, static_cast<std::int64_t>(sizeof(T))));
    if (piece != nullptr) fill(reinterpret_cast<T*>(piece));
    return packed_.back();
  }
  /// Everything that was packed; throws Error(invalid_model) where a saved engine has more.
  std::vector<PackedWeights> finish() &&;

 private:
  std::byte* add(std::int64_t bytes);

  const SavedEngine* saved_ = nullptr;
  std::optional<WeightReplay> replay_;
  std::optional<WeightBytes> block_;
  std::int64_t used_ = 0;
  std::vector<PackedWeights> packed_;
};

/// What runs a node, and what it needs beside activations.
struct LoweredNode {
  std::string kernel;  ///< LayerInfo::kernel
  std::function<void(const StepContext&)> run;
  std::int64_t weight_bytes = 0;
  std::int64_t workspace_bytes = 0;  ///< for each thread
};

struct NodeView;

template <class T>
struct CpuOp {
  /// Stands beside the operation's loops in a file of ops/.
  friend LoweredNode lower(const T& op, const NodeView& view);
};

/// Which convolutions take Winograd's filtering: of those that it is defined for, winograd.h.
enum class WinogradUse : std::uint8_t { Never, WhereFaster, WherePossible };

/// Whether a product leaves out what it multiplies by zeros of its input, which takes time where there are few.
enum class ZeroProducts : std::uint8_t { Computed, LeftOutWhereLikely, LeftOut };

/// A node with what its step needs to know.
struct NodeView : OpFunctions<CpuOp> {
  const Graph& graph;
  const Node& node;
  WeightPacker& weights;
  bool fp64 = false;                             ///< else fp32
  const Fp32Kernels* kernels = &fp32_kernels();  ///< of convolutions and Gemm in fp32
  std::vector<int> inputs;                       ///< buffers, kNoBuffer where absent, constant or within a step
  int output = kNoBuffer;
  /// Where the output lies in its buffer, in elements: among the channels of wider pixels. No stride: it is by itself.
  std::int64_t output_first = 0, output_stride = 0;
  WinogradUse winograd = WinogradUse::WhereFaster;        ///< in fp32
  ZeroProducts zeros = ZeroProducts::LeftOutWhereLikely;  ///< in fp32
  bool has_zeros = false;                                 ///< the first input, a good part of its elements

  const TensorDesc& desc(std::size_t input) const { return graph.value(node.inputs[input]).desc; }
  const TensorDesc& output_desc() const { return graph.value(node.output).desc; }
  /// A constant input's elements; empty where absent.
  template <class T = float>
  std::span<const T> constant(std::size_t input) const {
    const ValueId id = node.inputs[input];
    if (id == kNoValue) return {};
    return graph.value(id).constant->data<T>();
  }
  /// A constant input as it is.
  PackedWeights copy_of(std::size_t input) const;
};

/// Why no engine of that precision runs the node; empty when one does.
std::string why_not_lowered(const Graph& graph, const Node& node);

/// By the function of its operation.
LoweredNode lower(const NodeView& view);

/// Convolutions and matrix products have loops of their own in each precision. Single precision: packed weights and the
/// loops of fp32_kernels.h.
LoweredNode lower_fp32(const Conv2d& op, const NodeView& view);
LoweredNode lower_fp32(const Gemm& op, const NodeView& view);
/// The nodes of one of fused_steps(), two or three.
LoweredNode lower_fused(std::span<const NodeView> views, const FusionLimits& limits);
/// Double precision: the definitions of ops/*.h.
LoweredNode lower_fp64(const Conv2d& op, const NodeView& view);
LoweredNode lower_fp64(const Gemm& op, const NodeView& view);

// ---- operations with the same loops in both precisions, float or double

/// A node's activations in a run, by position.
template <class T>
struct Operands {
  const StepContext& context;
  std::span<const int> inputs;
  int output_buffer;

  const T* input(std::size_t position) const { return context.buffer<const T>(inputs[position]); }
  T* output() const { return context.buffer<T>(output_buffer); }
};

inline constexpr std::int64_t kElementGrain = 16384;  ///< enough work to be worth handing to a thread

/// Calls body(Operands<T>, Range) for the n * per_picture items of a run.
template <class T, class Body>
LoweredNode loop_of(const NodeView& view, const std::string& kernel, std::int64_t per_picture, std::int64_t grain,
                    Body body) {
  LoweredNode lowered;
  lowered.kernel = kernel;
  lowered.run = [per_picture, grain = std::max<std::int64_t>(grain, 1), inputs = view.inputs, output = view.output,
                 body = std::move(body)](const StepContext& context) {
    context.pool.for_ranges(context.n * per_picture, grain, [&](std::int64_t first, std::int64_t last, int) {
      body(Operands<T>{context, inputs, output}, Range{first, last});
    });
  };
  return lowered;
}

/// The same in the engine's precision, which `kernel` is without.
template <class Body>
LoweredNode loop(const NodeView& view, const std::string& kernel, std::int64_t per_picture, std::int64_t grain,
                 Body body) {
  return view.fp64 ? loop_of<double>(view, kernel + "/fp64", per_picture, grain, std::move(body))
                   : loop_of<float>(view, kernel + "/fp32", per_picture, grain, std::move(body));
}

/// The same for an operation that moves elements: Operands<std::int8_t> and <std::uint8_t> too.
template <class Body>
LoweredNode loop_of_any(const NodeView& view, const std::string& kernel, std::int64_t per_picture, std::int64_t grain,
                        Body body) {
  const DType dtype = view.output_desc().dtype;
  if (!is_quantized(dtype)) return loop(view, kernel, per_picture, grain, std::move(body));
  return dtype == DType::U8 ? loop_of<std::uint8_t>(view, kernel + "/int8", per_picture, grain, std::move(body))
                            : loop_of<std::int8_t>(view, kernel + "/int8", per_picture, grain, std::move(body));
}

/// loop_rows() for such an operation.
template <class Body>
LoweredNode move_rows(const NodeView& view, const std::string& kernel, std::int64_t rows, std::int64_t row_elements,
                      Body body) {
  return loop_of_any(view, kernel, rows, kElementGrain / std::max<std::int64_t>(row_elements, 1), std::move(body));
}

/// The same for rows of `row_elements` values, several together where they are short.
template <class Body>
LoweredNode loop_rows(const NodeView& view, const std::string& kernel, std::int64_t rows, std::int64_t row_elements,
                      Body body) {
  return loop(view, kernel, rows, kElementGrain / std::max<std::int64_t>(row_elements, 1), std::move(body));
}

}  // namespace mobicuda::cpu
