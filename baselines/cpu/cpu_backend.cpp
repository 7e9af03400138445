#include <mobicuda/cpu_backend.h>

#include <utility>

#include "baselines/cpu/cpu_engine.h"
#include "baselines/cpu/lower.h"
#include "baselines/cpu/ops/fp32_kernels.h"
#include "baselines/cpu/ops/int8_kernels.h"
#include "baselines/cpu/plan_maker.h"
#include "graph/memory_errors.h"

namespace mobicuda {
namespace {

using cpu::Plan;

class CpuBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "cpu"; }

  std::optional<std::string> why_unsupported(const Graph& graph, const Node& node,
                                             const EngineOptions& options) const override {
    if (options.precision != Precision::Fp32 && options.precision != Precision::Fp64) {
      return "the CPU engine computes in fp32 or fp64";
    }
    std::string why = cpu::why_not_lowered(graph, node);
    if (why.empty()) return std::nullopt;
    return why;
  }

  std::shared_ptr<const Engine> compile(const Graph& graph, const EngineOptions& options) const override {
    return with_memory_errors("compile", [&] {
      check_options(options);
      const Graph optimized = optimize(graph);
      require_supported(*this, optimized, options);
      Plan plan = cpu::make_plan(optimized, options, nullptr);
      plan.recipe = std::make_shared<const SavedEngine>(SavedEngine{
          std::string(name()), processor(options), options, without_constants(optimized), {}, {}, WeightBytes()});
      return make_engine(options, std::move(plan));
    });
  }

  std::shared_ptr<const Engine> restore(const SavedEngine& saved, const EngineOptions& options) const override {
    return with_memory_errors("restore", [&] {
      require_origin(saved, name(), processor(saved.options));
      const EngineOptions restored = restored_options(saved, options);
      require_supported(*this, saved.graph, restored);
      Plan plan = cpu::make_plan(saved.graph, restored, &saved);
      auto recipe = std::make_shared<SavedEngine>(saved);
      recipe->weights = {};
      plan.recipe = std::move(recipe);
      return make_engine(restored, std::move(plan));
    });
  }

 private:
  // Weights are packed for the panels of an instruction set; in double precision they are left as they are.
  static std::string processor(const EngineOptions& options) {
    if (options.precision == Precision::Fp64) return "any CPU";
    const std::string of_reals = cpu::fp32_kernels().name;
    const std::string of_integers = cpu::int8_kernels(true).name;
    return "a CPU with " + of_reals + (of_integers == of_reals ? "" : " and " + of_integers);
  }

  static std::shared_ptr<const Engine> make_engine(const EngineOptions& options, Plan plan) {
    const TensorDesc input = input_desc(plan.recipe->graph, options);
    const TensorDesc output = plan.recipe->graph.output_desc();
    if (options.precision == Precision::Fp64) {
      return std::make_shared<cpu::CpuEngine<double>>(options, input, output, std::move(plan));
    }
    return std::make_shared<cpu::CpuEngine<float>>(options, input, output, std::move(plan));
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace mobicuda
