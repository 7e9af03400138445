#include "plan/lower.h"

#include "plan/lowering.h"

namespace mobicuda {

namespace {

// One value for each channel: (N, C) or (N, C, 1, 1).
bool is_vector(const Shape& shape) { return (shape.rank() == 2 || shape.rank() == 4) && shape.elements() == shape[1]; }

// Whether the kernels of this operation compute in double.
bool has_fp64(const Op& op) {
  return std::holds_alternative<Conv2d>(op) || std::holds_alternative<Gemm>(op) ||
         std::holds_alternative<LayoutTransform>(op) || std::holds_alternative<Add>(op) ||
         std::holds_alternative<Clip>(op) || std::holds_alternative<ScaleShift>(op) ||
         std::holds_alternative<Pool2d>(op) || std::holds_alternative<GlobalAveragePool>(op) ||
         std::holds_alternative<Softmax>(op) || std::holds_alternative<Reshape>(op) ||
         std::holds_alternative<Transpose>(op) || std::holds_alternative<Pad>(op) ||
         std::holds_alternative<Identity>(op);
}

}  // namespace

std::optional<std::string> why_not_lowered(const Graph& graph, const Node& node, const EngineOptions& options) {
  const auto fits_int = [&](ValueId id) {
    constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
    const Shape& shape = graph.value(id).desc.shape;
    if (graph.value(id).constant || shape.rank() < 4) return true;
    return shape[2] * shape[3] <= kMaxInt / options.max_batch && shape.elements() <= kMaxInt;
  };
  for (const ValueId id : node.inputs) {
    if (id != kNoValue && !fits_int(id))
      return "the input is too large for a batch of " + std::to_string(options.max_batch);
  }
  if (!fits_int(node.output)) return "the output is too large for a batch of " + std::to_string(options.max_batch);
  if (std::holds_alternative<Transpose>(node.op) && graph.value(node.output).desc.shape.rank() > 4) {
    return "Transpose of more than 4 axes has no kernel";
  }
  if (std::holds_alternative<Concat>(node.op) || std::holds_alternative<Slice>(node.op) ||
      std::holds_alternative<Mul>(node.op) || std::holds_alternative<Unary>(node.op) ||
      std::holds_alternative<LocalResponseNorm>(node.op)) {
    return "no kernel for " + std::string(op_name(node.op)) + " yet; choose --impl cpu";
  }
  if (options.precision == Precision::Fp64 && !has_fp64(node.op)) {
    return "no fp64 kernel for " + std::string(op_name(node.op));
  }
  const Shape& y = graph.value(node.output).desc.shape;
  if (std::holds_alternative<Softmax>(node.op) && !is_vector(y)) {
    return "no kernel for Softmax over the channels of each pixel yet; choose --impl cpu";
  }
  if (const auto* pad = std::get_if<Pad>(&node.op); pad != nullptr && pad->mode != PadMode::Constant) {
    return "no kernel for Pad with pixels of the picture yet; choose --impl cpu";
  }
  const auto* pool = std::get_if<Pool2d>(&node.op);
  if (pool != nullptr && pool->dilations != std::array<std::int64_t, 2>{1, 1}) {
    return "no kernel for Pool2d with dilations yet; choose --impl cpu";
  }
  return std::nullopt;
}

CudaPlan lower(const Graph& graph, const EngineOptions& options, GpuTraits gpu) {
  return Lowering(graph, options, gpu).run();
}

}  // namespace mobicuda
