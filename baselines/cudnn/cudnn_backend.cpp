#include <mobicuda/cudnn_backend.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <mobicuda/graph.h>

#include "cudnn/plan_builder.h"
#include "graph/memory_errors.h"
#include "runtime/cuda_check.h"
#include "runtime/device_guard.h"

namespace mobicuda {
namespace {

using cudnn::ConvSearch;
using cudnn::Handles;
using cudnn::PlanBuilder;
using cudnn::Stopwatch;

class PlanRace {
 public:
  PlanRace(const Graph& graph, const EngineOptions& options)
      : graph_(graph),
        options_(options),
        handles_(std::make_shared<Handles>(stream_.get())),
        search_(handles_, options.device, options.log) {}

  // Half precision has its tensor-core kernels in NHWC only. For exact Fp32 and Fp64 cuDNN has kernels of both layouts,
  // and the faster whole network is kept.
  CudaNetwork run() {
    std::exception_ptr refusal;
    try {
      enter(Layout::NHWC);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      refusal = std::current_exception();
    }
    if (options_.precision == Precision::Fp32 || options_.precision == Precision::Fp64) {
      try {
        const auto layers = PlanBuilder(graph_, options_, Layout::NHWC, search_).layers();
        if (!best_ || search_.may_be_faster_in(Layout::NCHW, layers)) enter(Layout::NCHW);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;
      }
    }
    if (!best_) std::rethrow_exception(refusal);
    // Kernels keep the handle they were built with; the stream of this compilation ends here.
    cuda_check(handles_->bind(nullptr), "releasing the compilation's stream");
    return std::move(*best_);
  }

 private:
  void enter(Layout layout) {
    PlanBuilder builder(graph_, options_, layout, search_);
    search_.prepare(builder.layers());
    CudaNetwork network = builder.build();
    const double time = cudnn::network_milliseconds(network, options_.max_batch, handles_.get(), stream_.get());
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
    best_ = std::move(network);
    best_time_ = time;
  }

  const Graph& graph_;
  const EngineOptions& options_;
  Stream stream_;
  std::shared_ptr<Handles> handles_;
  ConvSearch search_;
  std::optional<CudaNetwork> best_;
  double best_time_ = Stopwatch::kRefused;
};

class CudnnBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "cudnn"; }

  std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                             const EngineOptions&) const override {
    const auto of_integers = [&](ValueId id) { return id != kNoValue && is_quantized(graph.value(id).desc.dtype); };
    if (of_integers(node.output) || std::ranges::any_of(node.inputs, of_integers)) {
      return "it is quantised, and int8 is not supported by this engine yet: run it on the CPU engine, or take the "
             "floating-point model";
    }
    return std::nullopt;
  }

  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const override {
    return with_memory_errors("compile", [&] {
      check_options(options);
      if (options.precision == Precision::Fp32Split) {
        throw Error(ErrorCode::unsupported, "precision",
                    "the cuDNN engine has fp32 (exact), tf32, fp16 and fp64, not fp32_split");
      }
      const Graph optimized = optimize(graph);
      require_supported(*this, optimized, options);
      const TensorDesc input = input_desc(optimized, options);
      const DeviceGuard guard(open_device(options.device));
      CudaNetwork network = PlanRace(optimized, options).run();
      return std::make_shared<CudaEngine>(name(), options, input, graph.output_desc(), std::move(network));
    });
  }
};

}  // namespace

std::unique_ptr<Backend> make_cudnn_backend() { return std::make_unique<CudnnBackend>(); }

}  // namespace mobicuda
