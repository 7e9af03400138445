// A gate whose only reader is a pointwise convolution, in half.
#include "kernels/gated_pointwise/gated_pointwise.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct GatedProjection {
  std::vector<const Node*> nodes;  // pool, reduce, expand, product, projection
  GateNodes gate;
  const Node* project = nullptr;
  kernels::GatedPointwiseParams params;
  kernels::GatedPointwiseVariant variant{};
  std::string reason;
};

class GatedPointwiseFusion final : public FusionOf<GatedProjection> {
  std::optional<GatedProjection> match(Lowering& to, const Node& mul) const override {
    const std::optional<GateNodes> gate = to.elem() == Elem::F16 ? gate_before(to, mul) : std::nullopt;
    if (!gate || !std::get<Mul>(mul.op).activation.is_none()) return std::nullopt;
    const Node* project = to.sole_reader(mul.output);
    const auto* op = project == nullptr ? nullptr : std::get_if<Conv2d>(&project->op);
    // The kernel writes the engine's own element type, not the caller's floats.
    if (op == nullptr || project->inputs[Conv2d::kInput] != mul.output ||
        project->inputs[Conv2d::kResidual] == mul.output || to.is_claimed(project) || to.is_final(project->output) ||
        !is_pointwise(*op, to.shape(project->inputs[Conv2d::kWeight]))) {
      return std::nullopt;
    }
    GatedProjection found;
    found.nodes = {gate->pool, gate->reduce, gate->expand, gate->mul, project};
    found.gate = *gate;
    found.project = project;
    const Shape& image = to.shape(gate->x);
    found.params.elem = to.elem();
    found.params.n = to.max_batch();
    found.params.pixels = as_int(image[2] * image[3]);
    found.params.c = as_int(image[1]);
    found.params.squeezed = as_int(to.shape(gate->reduce->output)[1]);
    found.params.out = as_int(to.shape(project->output)[1]);
    found.params.residual = project->inputs[Conv2d::kResidual] != kNoValue;
    found.params.squeeze_activation = as_kernel_activation(std::get<Conv2d>(gate->reduce->op).activation);
    found.params.gate_activation = as_kernel_activation(std::get<Conv2d>(gate->expand->op).activation);
    found.params.activation = as_kernel_activation(op->activation);
    return found;
  }

  bool choose(Lowering& to, GatedProjection& found) const override { return choose_all(to, *found.project, found); }

  void emit(Lowering& to, const GatedProjection& found) const override {
    const auto& [pool, reduce, expand, mul, x_id] = found.gate;
    const Node* project = found.project;
    const Storage x = to.read_input(x_id);
    const ValueId residual_id = project->inputs[Conv2d::kResidual];
    const Storage residual = residual_id == kNoValue ? Storage{} : to.read_input(residual_id);
    std::vector<ValueId> constants = Lowering::constants_of({reduce, expand});
    constants.push_back(project->inputs[Conv2d::kBias]);
    const auto bytes = static_cast<std::int64_t>(gated_pointwise_packed_bytes(found.variant, found.params));
    const Packed packed = to.pack_bytes(
        Lowering::packing_of(found.variant, found.params), constants, bytes,
        [&, reduce = reduce, expand = expand](std::byte* host) {
          gated_pointwise_pack(found.variant, found.params,
                               {to.constant_of(reduce, Conv2d::kWeight), to.constant_of(reduce, Conv2d::kBias),
                                to.constant_of(expand, Conv2d::kWeight), to.constant_of(expand, Conv2d::kBias),
                                to.constant_of(project, Conv2d::kBias)},
                               host);
        });
    const Packed projection = to.pack(
        "gated_pointwise projection", *project, project->inputs[Conv2d::kWeight],
        kernels::gated_pointwise_projection_bytes(found.params.out, found.params.c), [&](const float* w, void* host) {
          kernels::gated_pointwise_pack_projection(found.params.out, found.params.c, w, host);
        });
    const Storage y = to.make_output(*project, false);
    to.add_kernel({.info = to.describe(found.nodes, kernel_name(found.variant, found.params), found.reason),
                   .x = x,
                   .weights = {packed, projection},
                   .residual = residual,
                   .y = y},
                  found.variant, found.params);
  }
};

}  // namespace

std::unique_ptr<Fusion> make_gated_pointwise_fusion() { return std::make_unique<GatedPointwiseFusion>(); }

}  // namespace mobicuda
