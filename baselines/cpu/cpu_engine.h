#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <mobicuda/engine.h>

#include "baselines/cpu/cpu_plan.h"

namespace mobicuda::cpu {

/// A plan in element type float (Precision::Fp32) or double (Precision::Fp64).
template <class T>
class CpuEngine final : public Engine {
 public:
  CpuEngine(EngineOptions options, TensorDesc input, TensorDesc output, Plan plan);

  std::string_view backend() const noexcept override { return "cpu"; }
  MemoryReport memory() const noexcept override;
  SavedEngine saved() const override;
  const Plan& plan() const noexcept { return plan_; }

 private:
  std::span<const LayerInfo> do_layers(std::int64_t /*n*/) const noexcept override { return layers_; }
  std::unique_ptr<Session> do_create_session() const override;

  Plan plan_;
  std::vector<LayerInfo> layers_;
};

}  // namespace mobicuda::cpu
