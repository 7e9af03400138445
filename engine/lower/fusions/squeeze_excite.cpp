// A gate by itself: GateNodes.
#include "kernels/squeeze_excite/squeeze_excite.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct Gate {
  std::vector<const Node*> nodes;  // pool, reduce, expand, product
  ValueId x = kNoValue;
  kernels::SqueezeExciteParams params;
  kernels::SqueezeExciteVariant variant{};
  std::string reason;
};

class SqueezeExciteFusion final : public FusionOf<Gate> {
  std::optional<Gate> match(Lowering& to, const Node& mul) const override {
    const std::optional<GateNodes> gate = gate_before(to, mul);
    if (!gate) return std::nullopt;
    Gate found;
    found.x = gate->x;
    found.nodes = {gate->pool, gate->reduce, gate->expand, gate->mul};
    const Shape& image = to.shape(found.x);
    found.params.elem = to.elem();
    found.params.n = to.max_batch();
    found.params.pixels = as_int(image[2] * image[3]);
    found.params.c = as_int(image[1]);
    found.params.squeezed = as_int(to.shape(gate->reduce->output)[1]);
    found.params.squeeze_activation = as_kernel_activation(std::get<Conv2d>(gate->reduce->op).activation);
    found.params.gate_activation = as_kernel_activation(std::get<Conv2d>(gate->expand->op).activation);
    return found;
  }

  bool choose(Lowering& to, Gate& found) const override {
    const Node& mul = *found.nodes.back();
    const bool plain = std::get<Mul>(mul.op).activation.is_none() && !to.is_final(mul.output);
    const auto chosen = to.chooser().choose_fused(mul.origin.label(), found.params, plain);
    if (!chosen.variant || !plain) {
      to.keep_apart(found.nodes, plain ? chosen.reason : "the gated values are activated or are the network's output");
      return false;
    }
    found.variant = *chosen.variant;
    found.reason = chosen.reason;
    return true;
  }

  void emit(Lowering& to, const Gate& found) const override {
    const Node* reduce = found.nodes[1];
    const Node* expand = found.nodes[2];
    const Storage x = to.read_input(found.x);
    const auto bytes = static_cast<std::int64_t>(squeeze_excite_packed_bytes(found.variant, found.params));
    const Packed packed = to.pack_bytes(
        Lowering::packing_of(found.variant, found.params), Lowering::constants_of({reduce, expand}), bytes,
        [&](std::byte* host) {
          squeeze_excite_pack(found.variant, found.params,
                              {to.constant_of(reduce, Conv2d::kWeight), to.constant_of(reduce, Conv2d::kBias),
                               to.constant_of(expand, Conv2d::kWeight), to.constant_of(expand, Conv2d::kBias)},
                              host);
        });
    const Storage y = to.make_output(*found.nodes.back(), false);
    to.add_kernel({.info = to.describe(found.nodes, kernel_name(found.variant, found.params), found.reason),
                   .x = x,
                   .weights = {packed},
                   .y = y},
                  found.variant, found.params);
  }
};

}  // namespace

std::optional<GateNodes> gate_before(const Lowering& to, const Node& mul) {
  if (!std::holds_alternative<Mul>(mul.op) || to.is_claimed(&mul)) return std::nullopt;
  const auto pointwise_before = [&](const Node& reader, std::size_t position) -> const Node* {
    const Node* node = to.producer(reader.inputs[position]);
    const auto* op = node == nullptr ? nullptr : std::get_if<Conv2d>(&node->op);
    const bool fits = op != nullptr && to.sole_reader(node->output) == &reader &&
                      is_pointwise(*op, to.shape(node->inputs[Conv2d::kWeight])) &&
                      node->inputs[Conv2d::kResidual] == kNoValue;
    return fits ? node : nullptr;
  };
  GateNodes found;
  found.mul = &mul;
  found.x = mul.inputs[Mul::kLeft];
  found.expand = pointwise_before(mul, Mul::kRight);
  found.reduce = found.expand == nullptr ? nullptr : pointwise_before(*found.expand, Conv2d::kInput);
  found.pool = found.reduce == nullptr ? nullptr : to.producer(found.reduce->inputs[Conv2d::kInput]);
  if (found.pool == nullptr || !std::holds_alternative<GlobalAveragePool>(found.pool->op) ||
      to.sole_reader(found.pool->output) != found.reduce || found.pool->inputs[0] != found.x ||
      to.graph().value(found.x).desc.layout != Layout::NHWC) {
    return std::nullopt;
  }
  return found;
}

std::unique_ptr<Fusion> make_squeeze_excite_fusion() { return std::make_unique<SqueezeExciteFusion>(); }

}  // namespace mobicuda
