#include "baselines/cpu/lower.h"

#include <algorithm>
#include <utility>

#include "baselines/cpu/ops/concat.h"
#include "baselines/cpu/ops/elementwise.h"
#include "baselines/cpu/ops/layout_transform.h"
#include "baselines/cpu/ops/local_response_norm.h"
#include "baselines/cpu/ops/pooling.h"
#include "baselines/cpu/ops/softmax.h"

namespace mobicuda::cpu {
namespace {

constexpr std::int64_t kElementGrain = 16384;  // enough work to be worth handing to a thread

template <class T>
constexpr const char* precision_suffix() {
  return sizeof(T) == sizeof(double) ? "/fp64" : "/fp32";
}

// Runs body(range) over n * per_picture items.
template <class Body>
auto loop(std::int64_t per_picture, std::int64_t grain, Body body) {
  return [=](const StepContext& context) {
    context.pool.for_ranges(context.n * per_picture, std::max<std::int64_t>(grain, 1),
                            [&](std::int64_t first, std::int64_t last, int) {
                              body(context, Range{first, last});
                            });
  };
}

// Rows of `row_elements` values, several together where they are short.
template <class Body>
auto loop_rows(std::int64_t rows, std::int64_t row_elements, Body body) {
  return loop(rows, kElementGrain / std::max<std::int64_t>(row_elements, 1), std::move(body));
}

template <class T>
struct SimpleLowering {
  const NodeView& view;
  int x = view.inputs.front();
  int y = view.output;
  TensorDesc x_desc = view.desc(0);
  TensorDesc y_desc = view.output_desc();

  std::function<void(const StepContext&)> operator()(const Add& op) const {
    return loop(y_desc.shape.elements(), kElementGrain,
                [op, a = x, b = view.inputs[Add::kRight], y = y](const StepContext& context, Range range) {
                  add(op, context.buffer<const T>(a), context.buffer<const T>(b), context.buffer<T>(y), range);
                });
  }

  std::function<void(const StepContext&)> operator()(const Mul& op) const {
    MulPlan plan = plan_mul(x_desc, view.desc(Mul::kRight));
    // Before the plan moves away.
    const std::int64_t rows = plan.rows();
    const std::int64_t row = plan.last.extent;
    return loop_rows(rows, row,
                     [op, a = x, b = view.inputs[Mul::kRight], y = y, plan = std::move(plan)](
                         const StepContext& context, Range range) {
                       mul(op, plan, context.buffer<const T>(a), context.buffer<const T>(b), context.buffer<T>(y),
                           range);
                     });
  }

  std::function<void(const StepContext&)> operator()(const Unary& op) const {
    return loop(y_desc.shape.elements(), kElementGrain, [op, x = x, y = y](const StepContext& context, Range range) {
      unary(op, context.buffer<const T>(x), context.buffer<T>(y), range);
    });
  }

  std::function<void(const StepContext&)> operator()(const Concat& op) const {
    std::vector<TensorDesc> descs;
    for (std::size_t input = 0; input < view.inputs.size(); ++input) descs.push_back(view.desc(input));
    ConcatPlan plan = plan_concat(op, y_desc, descs);
    const std::int64_t rows = plan.rows;
    const std::int64_t row = plan.y_row;
    return loop_rows(rows, row,
                     [inputs = view.inputs, y = y, plan = std::move(plan)](const StepContext& context, Range range) {
                       for (std::size_t i = 0; i < inputs.size(); ++i) {
                         concat(plan, i, context.buffer<const T>(inputs[i]), context.buffer<T>(y), range);
                       }
                     });
  }

  std::function<void(const StepContext&)> operator()(const Slice& op) const {
    const SlicePlan plan = plan_slice(op, x_desc);
    return loop_rows(plan.rows, plan.chunk, [x = x, y = y, plan](const StepContext& context, Range range) {
      slice(plan, context.buffer<const T>(x), context.buffer<T>(y), range);
    });
  }

  std::function<void(const StepContext&)> operator()(const LocalResponseNorm& op) const {
    return loop_rows(x_desc.shape[2], x_desc.shape[3] * x_desc.shape[1] * std::min(op.size, x_desc.shape[1]),
                     [op, x = x, y = y, desc = x_desc](const StepContext& context, Range rows) {
                       local_response_norm(op, desc, context.buffer<const T>(x), context.buffer<T>(y), rows);
                     });
  }

  std::function<void(const StepContext&)> operator()(const Clip& op) const {
    return loop(y_desc.shape.elements(), kElementGrain, [op, x = x, y = y](const StepContext& context, Range range) {
      clip(op, context.buffer<const T>(x), context.buffer<T>(y), range);
    });
  }

  std::function<void(const StepContext&)> operator()(const ScaleShift& op) const {
    const std::int64_t channels = x_desc.shape[1];
    const bool channels_last = x_desc.shape.rank() == 4 && x_desc.layout == Layout::NHWC;
    const std::int64_t inner = channels_last ? 1 : x_desc.shape.elements() / channels;
    return loop_rows(x_desc.shape.elements() / (channels * inner), channels * inner,
                     [op, x = x, y = y, channels, inner, scale = view.copy_of(ScaleShift::kScale),
                      shift = view.copy_of(ScaleShift::kShift)](const StepContext& context, Range rows) {
                       scale_shift(op, channels, inner, context.buffer<const T>(x), scale.data(), shift.data(),
                                   context.buffer<T>(y), rows);
                     });
  }

  std::function<void(const StepContext&)> operator()(const Pool2d& op) const {
    return loop_rows(y_desc.shape[2], y_desc.shape[3] * y_desc.shape[1] * op.kernel[0] * op.kernel[1],
                     [op, x = x, y = y, x_desc = x_desc, y_desc = y_desc](const StepContext& context, Range rows) {
                       pool2d(op, x_desc, y_desc, context.buffer<const T>(x), context.buffer<T>(y), rows);
                     });
  }

  std::function<void(const StepContext&)> operator()(const GlobalAveragePool&) const {
    constexpr std::int64_t kChannels = 64;  // whole cache lines of each pixel
    return loop(x_desc.shape[1], kChannels, [x = x, y = y, x_desc = x_desc](const StepContext& context, Range range) {
      global_average_pool(x_desc, context.buffer<const T>(x), context.buffer<T>(y), range);
    });
  }

  std::function<void(const StepContext&)> operator()(const Softmax&) const {
    const std::int64_t columns = x_desc.shape[1];
    const std::int64_t stride = strides_of(x_desc)[1];
    return loop_rows(x_desc.shape.elements() / columns, columns,
                     [x = x, y = y, columns, stride](const StepContext& context, Range rows) {
                       softmax(columns, stride, context.buffer<const T>(x), context.buffer<T>(y), rows);
                     });
  }

  std::function<void(const StepContext&)> operator()(const Reshape&) const { return copy_in_logical_order(); }
  std::function<void(const StepContext&)> operator()(const Identity&) const { return copy_in_logical_order(); }

  std::function<void(const StepContext&)> operator()(const Transpose& op) const {
    return copy_by(plan_transpose(op, x_desc, y_desc));
  }

  std::function<void(const StepContext&)> operator()(const LayoutTransform&) const {
    return copy_by(plan_layout_transform(x_desc, y_desc));
  }

  std::function<void(const StepContext&)> operator()(const Pad& op) const {
    return loop_rows(y_desc.shape[2], y_desc.shape[3] * y_desc.shape[1],
                     [op, x = x, y = y, x_desc = x_desc, y_desc = y_desc](const StepContext& context, Range rows) {
                       pad(op, x_desc, y_desc, context.buffer<const T>(x), context.buffer<T>(y), rows);
                     });
  }

  // Their loops are lower_fp32()'s and lower_fp64()'s own.
  std::function<void(const StepContext&)> operator()(const Conv2d&) const { return {}; }
  std::function<void(const StepContext&)> operator()(const Gemm&) const { return {}; }

 private:
  std::function<void(const StepContext&)> copy_in_logical_order() const {
    return loop_rows(1, x_desc.shape.elements(),
                     [x = x, y = y, x_desc = x_desc, y_desc = y_desc](const StepContext& context, Range pictures) {
                       reshape(x_desc, y_desc, context.buffer<const T>(x), context.buffer<T>(y), pictures);
                     });
  }

  std::function<void(const StepContext&)> copy_by(CopyPlan plan) const {
    const std::int64_t rows = plan.axes[1].extent;
    return loop_rows(rows, y_desc.shape.elements() / rows,
                     [x = x, y = y, plan = std::move(plan)](const StepContext& context, Range range) {
                       copy_permuted(plan, context.buffer<const T>(x), context.buffer<T>(y), range);
                     });
  }
};

std::string kernel_stem(const Op& op) {
  if (std::holds_alternative<Pool2d>(op) || std::holds_alternative<GlobalAveragePool>(op)) return "pooling";
  if (std::holds_alternative<Softmax>(op)) return "softmax";
  if (std::holds_alternative<Concat>(op) || std::holds_alternative<Slice>(op)) return "concat";
  if (std::holds_alternative<LocalResponseNorm>(op)) return "local_response_norm";
  if (std::holds_alternative<Add>(op) || std::holds_alternative<Mul>(op) || std::holds_alternative<Unary>(op) ||
      std::holds_alternative<Clip>(op) || std::holds_alternative<ScaleShift>(op)) {
    return "elementwise";
  }
  return "layout_transform";
}

}  // namespace

WeightPacker::WeightPacker(const SavedEngine* saved) : saved_(saved) {
  if (saved != nullptr) replay_.emplace(*saved);
}

float* WeightPacker::add(std::int64_t elements) {
  const std::int64_t bytes = checked_multiply(elements, sizeof(float));
  WeightBytes memory(bytes);
  std::ranges::fill(memory.span(), std::byte{0});
  packed_.emplace_back(memory.at(0), bytes);
  return reinterpret_cast<float*>(memory.span().data());
}

PackedWeights WeightPacker::replayed(std::int64_t elements) {
  const std::int64_t bytes = checked_multiply(elements, sizeof(float));
  return packed_.emplace_back(saved_->weights.at(replay_->next(bytes)), bytes);
}

std::vector<PackedWeights> WeightPacker::finish() && {
  if (replay_) replay_->finish();
  return std::move(packed_);
}

std::span<const float> NodeView::constant(std::size_t input) const {
  const ValueId id = node.inputs[input];
  if (id == kNoValue) return {};
  return graph.value(id).constant->data<float>();
}

PackedWeights NodeView::copy_of(std::size_t input) const {
  const ValueId id = node.inputs[input];
  const std::int64_t elements = id == kNoValue ? 0 : graph.value(id).desc.shape.elements();
  return weights.pack(elements, [&](float* to) { std::ranges::copy(constant(input), to); });
}

std::string why_not_lowered(const Graph& graph, const Node& node) {
  const TensorDesc& x = graph.value(node.inputs.front()).desc;
  const TensorDesc& y = graph.value(node.output).desc;
  if (std::holds_alternative<Conv2d>(node.op)) {
    if (x.layout != Layout::NHWC) return "the input must be NHWC: run optimize() on the graph";
    const ValueId residual = node.inputs[Conv2d::kResidual];
    if (residual != kNoValue && graph.value(residual).desc.layout != y.layout) return "the residual must be NHWC";
  }
  if (std::holds_alternative<Concat>(node.op)) {
    for (const ValueId id : node.inputs) {
      const TensorDesc& part = graph.value(id).desc;
      const bool same_order = part.layout == y.layout || (in_logical_order(part) && in_logical_order(y));
      if (!same_order) return "all inputs must have one layout: run optimize() on the graph";
    }
  }
  return {};
}

template <class T>
LoweredNode lower_simple(const NodeView& view) {
  LoweredNode lowered;
  lowered.kernel = kernel_stem(view.node.op) + precision_suffix<T>();
  lowered.run = std::visit(SimpleLowering<T>{view}, view.node.op);
  if (std::holds_alternative<ScaleShift>(view.node.op)) {
    lowered.weight_bytes = 2 * view.desc(0).shape[1] * size_of(DType::F32);
  }
  return lowered;
}

template LoweredNode lower_simple<float>(const NodeView& view);
template LoweredNode lower_simple<double>(const NodeView& view);

}  // namespace mobicuda::cpu
