// x * fc(fc(mean of x)), each fc a pointwise convolution of one pixel and each value but x with one reader.
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
    if (!std::holds_alternative<Mul>(mul.op)) return std::nullopt;
    const auto pointwise_before = [&](const Node& reader, std::size_t position) -> const Node* {
      const Node* node = to.producer(reader.inputs[position]);
      const auto* op = node == nullptr ? nullptr : std::get_if<Conv2d>(&node->op);
      const bool fits = op != nullptr && to.sole_reader(node->output) == &reader &&
                        is_pointwise(*op, to.shape(node->inputs[Conv2d::kWeight])) &&
                        node->inputs[Conv2d::kResidual] == kNoValue;
      return fits ? node : nullptr;
    };
    Gate found;
    found.x = mul.inputs[Mul::kLeft];
    const Node* expand = pointwise_before(mul, Mul::kRight);
    const Node* reduce = expand == nullptr ? nullptr : pointwise_before(*expand, Conv2d::kInput);
    const Node* pool = reduce == nullptr ? nullptr : to.producer(reduce->inputs[Conv2d::kInput]);
    if (pool == nullptr || !std::holds_alternative<GlobalAveragePool>(pool->op) ||
        to.sole_reader(pool->output) != reduce || pool->inputs[0] != found.x ||
        to.graph().value(found.x).desc.layout != Layout::NHWC) {
      return std::nullopt;
    }
    found.nodes = {pool, reduce, expand, &mul};
    const Shape& image = to.shape(found.x);
    found.params.elem = to.elem();
    found.params.n = to.max_batch();
    found.params.pixels = as_int(image[2] * image[3]);
    found.params.c = as_int(image[1]);
    found.params.squeezed = as_int(to.shape(reduce->output)[1]);
    found.params.squeeze_activation = as_kernel_activation(std::get<Conv2d>(reduce->op).activation);
    found.params.gate_activation = as_kernel_activation(std::get<Conv2d>(expand->op).activation);
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

std::unique_ptr<Fusion> make_squeeze_excite_fusion() { return std::make_unique<SqueezeExciteFusion>(); }

}  // namespace mobicuda
