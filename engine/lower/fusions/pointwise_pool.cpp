// A pointwise convolution whose only reader is a GlobalAveragePool.
#include "kernels/pointwise_pool/pointwise_pool.h"
#include "kernels/gemm/gemm.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct Head {
  std::vector<const Node*> nodes;  // convolution, pool
  kernels::PointwisePoolParams params;
  kernels::PointwisePoolVariant variant{};
  std::string reason;
};

class PointwisePoolFusion final : public FusionOf<Head> {
  std::optional<Head> match(Lowering& to, const Node& pool) const override {
    if (!std::holds_alternative<GlobalAveragePool>(pool.op)) return std::nullopt;
    const Node* conv = to.producer(pool.inputs[0]);
    const auto* op = conv == nullptr ? nullptr : std::get_if<Conv2d>(&conv->op);
    if (op == nullptr || to.is_claimed(conv) || to.sole_reader(conv->output) != &pool ||
        !is_pointwise(*op, to.shape(conv->inputs[Conv2d::kWeight])) || conv->inputs[Conv2d::kResidual] != kNoValue) {
      return std::nullopt;
    }
    const kernels::Activation activation = as_kernel_activation(op->activation);
    if (!(to.elem() == Elem::F16 && is_swish(activation)) && !to.only_clips({conv})) return std::nullopt;
    const Shape& in = to.shape(conv->inputs[Conv2d::kInput]);
    Head found;
    found.nodes = {conv, &pool};
    found.params.elem = to.elem();
    found.params.n = to.max_batch();
    found.params.pixels = as_int(in[2] * in[3]);
    found.params.c_in = as_int(in[1]);
    found.params.c = as_int(to.shape(conv->output)[1]);
    found.params.bias = conv->inputs[Conv2d::kBias] != kNoValue;
    found.params.activation = activation;
    return found;
  }

  bool choose(Lowering& to, Head& found) const override { return choose_all(to, *found.nodes.front(), found); }

  void emit(Lowering& to, const Head& found) const override {
    const Node& conv = *found.nodes.front();
    const kernels::PointwisePoolParams& params = found.params;
    const Storage x = to.read_input(conv.inputs[Conv2d::kInput]);
    const Packed weight = to.pack(
        "gemm", conv, conv.inputs[Conv2d::kWeight], kernels::gemm_packed_bytes(params.elem, params.c, params.c_in),
        [&](const float* w, void* packed) { kernels::gemm_pack(params.elem, params.c, params.c_in, w, packed); });
    const Packed bias = to.pack_floats(conv.inputs[Conv2d::kBias]);
    const Storage y = to.make_output(*found.nodes.back(), false);
    to.add_kernel({.info = to.describe(found.nodes, kernel_name(found.variant, params), found.reason),
                   .x = x,
                   .weights = {weight, bias},
                   .y = y},
                  found.variant, params);
  }
};

}  // namespace

std::unique_ptr<Fusion> make_pointwise_pool_fusion() { return std::make_unique<PointwisePoolFusion>(); }

}  // namespace mobicuda
