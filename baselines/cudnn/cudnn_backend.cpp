#include <mobicuda/cudnn_backend.h>

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include <mobicuda/graph.h>

#include "cudnn/plan_builder.h"
#include "runtime/cuda_check.h"

namespace mobicuda {
namespace {

using cudnn::ConvSearch;
using cudnn::Handles;
using cudnn::PlanBuilder;
using cudnn::Stopwatch;

// One value for each channel: (N, C) or (N, C, 1, 1).
bool is_vector(const Shape& shape) { return (shape.rank() == 2 || shape.rank() == 4) && shape.elements() == shape[1]; }

std::optional<std::string> why_unsupported_pool(const Graph& graph, const Node& node, const Pool2d& op) {
  if (op.pads.top != op.pads.bottom || op.pads.left != op.pads.right) {
    return "cuDNN pools with symmetric pads only, got pads " + std::to_string(op.pads.top) + "," +
           std::to_string(op.pads.left) + "," + std::to_string(op.pads.bottom) + "," + std::to_string(op.pads.right);
  }
  if (op.dilations != std::array<std::int64_t, 2>{1, 1}) {
    return "no kernel for Pool2d with dilations yet; choose --impl cpu";
  }
  const Shape& x = graph.value(node.inputs[Pool2d::kInput]).desc.shape;
  const Shape& y = graph.value(node.output).desc.shape;
  const std::int64_t h = (x[2] + 2 * op.pads.top - op.kernel[0]) / op.strides[0] + 1;
  const std::int64_t w = (x[3] + 2 * op.pads.left - op.kernel[1]) / op.strides[1] + 1;
  if (y[2] != h || y[3] != w) return "cuDNN rounds the pooled extent down, ceil_mode asks for " + to_string(y);
  return std::nullopt;
}

class PlanRace {
 public:
  PlanRace(const Graph& graph, const EngineOptions& options)
      : graph_(graph),
        options_(options),
        handles_(std::make_shared<Handles>(stream_.get())),
        search_(handles_, options.device, options.log) {}

  // Half precision has its tensor-core kernels in NHWC only. For exact Fp32 cuDNN has kernels of both layouts,
  // and the faster whole network is kept.
  CudaPlan run() {
    std::optional<Error> refusal;
    try {
      enter(Layout::NHWC);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      refusal = error;
    }
    if (options_.precision == Precision::Fp32) {
      try {
        const auto layers = PlanBuilder(graph_, options_, Layout::NHWC, search_).layers();
        if (!best_ || search_.may_be_faster_in(Layout::NCHW, layers)) enter(Layout::NCHW);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;
      }
    }
    if (!best_) throw *refusal;
    // Kernels keep the handle they were built with; the stream of this compilation ends here.
    cuda_check(handles_->bind(nullptr), "releasing the compilation's stream");
    return std::move(*best_);
  }

 private:
  void enter(Layout layout) {
    PlanBuilder builder(graph_, options_, layout, search_);
    search_.prepare(builder.layers());
    CudaPlan plan = builder.build();
    const double time = cudnn::plan_milliseconds(plan, options_.max_batch, handles_.get(), stream_.get());
    if (options_.log) {
      char text[64];
      std::snprintf(text, sizeof(text), ": %.4f ms for the whole network", time);
      options_.log(LogLevel::Info, "cudnn: " + std::string(to_string(layout)) + text);
    }
    if (time == Stopwatch::kRefused) {
      throw Error(ErrorCode::internal, "graph '" + graph_.name() + "'",
                  "the compiled plan failed in its trial run in " + std::string(to_string(layout)));
    }
    if (time >= best_time_) return;
    best_ = std::move(plan);
    best_time_ = time;
  }

  const Graph& graph_;
  const EngineOptions& options_;
  Stream stream_;
  std::shared_ptr<Handles> handles_;
  ConvSearch search_;
  std::optional<CudaPlan> best_;
  double best_time_ = Stopwatch::kRefused;
};

class CudnnBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "cudnn"; }

  std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                             const EngineOptions& options) const override {
    if (options.precision == Precision::Fp64) return "no kernels for fp64; choose fp32, tf32 or fp16";
    if (const auto* pool = std::get_if<Pool2d>(&node.op)) return why_unsupported_pool(graph, node, *pool);
    const Shape& y = graph.value(node.output).desc.shape;
    if (std::holds_alternative<Softmax>(node.op) && !is_vector(y)) {
      return "no kernel for Softmax over the channels of each pixel yet; choose --impl cpu";
    }
    if (const auto* pad = std::get_if<Pad>(&node.op); pad != nullptr && pad->mode != PadMode::Constant) {
      return "no kernel for Pad with pixels of the picture yet; choose --impl cpu";
    }
    const bool clips = std::visit(
        [](const auto& op) {
          if constexpr (requires { op.activation; }) return op.activation.is_clip();
          return true;
        },
        node.op);
    if (!clips) return "no kernel for a fused activation that is not a clip yet; choose --impl cpu";
    if (std::holds_alternative<Concat>(node.op) || std::holds_alternative<Slice>(node.op) ||
        std::holds_alternative<Mul>(node.op) || std::holds_alternative<Unary>(node.op) ||
        std::holds_alternative<LocalResponseNorm>(node.op)) {
      return "no kernel for " + std::string(op_name(node.op)) + " yet; choose --impl cpu";
    }
    return std::nullopt;
  }

  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const override {
    check_options(options);
    const Graph optimized = optimize(graph);
    require_supported(*this, optimized, options);
    const TensorDesc input = input_desc(optimized, options);
    select_device(options.device);
    CudaPlan plan = PlanRace(optimized, options).run();
    return std::make_shared<CudaEngine>(name(), options, input, graph.output_desc(), std::move(plan));
  }
};

}  // namespace

std::unique_ptr<Backend> make_cudnn_backend() { return std::make_unique<CudnnBackend>(); }

}  // namespace mobicuda
