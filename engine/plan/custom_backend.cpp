#include <mobicuda/custom_backend.h>

#include "plan/lower.h"
#include "runtime/cuda_check.h"

namespace mobicuda {
namespace {

class CustomBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "custom"; }

  std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                             const EngineOptions& options) const override {
    return why_not_lowered(graph, node, options);
  }

  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const override {
    check_options(options);
    if (options.precision == Precision::Tf32) {
      throw Error(ErrorCode::unsupported, "precision", "the custom engine has fp32 (exact), fp16 and fp64, not tf32");
    }
    const Graph optimized = optimize(graph);
    require_supported(*this, optimized, options);
    const TensorDesc input = input_desc(optimized, options);
    select_device(options.device);
    CudaPlan plan = lower(optimized, options, {compute_capability(options.device), multiprocessors(options.device)});
    return std::make_shared<CudaEngine>("custom", options, input, optimized.output_desc(), std::move(plan));
  }
};

}  // namespace

std::unique_ptr<Backend> make_custom_backend() { return std::make_unique<CustomBackend>(); }

}  // namespace mobicuda
