// A quantised convolution and the QuantizedAdd that alone reads it: the kernel adds the other value to its own bytes.
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct Int8Sum {
  std::vector<const Node*> nodes;  // convolution, sum
  ValueId residual = kNoValue;
};

class Int8SumFusion final : public FusionOf<Int8Sum> {
  std::optional<Int8Sum> match(Lowering& to, const Node& sum) const override {
    if (!std::holds_alternative<QuantizedAdd>(sum.op)) return std::nullopt;
    for (const auto& [own, other] :
         {std::pair{QuantizedAdd::kLeft, QuantizedAdd::kRight}, std::pair{QuantizedAdd::kRight, QuantizedAdd::kLeft}}) {
      const Node* conv = to.producer(sum.inputs[own]);
      if (conv == nullptr || to.is_claimed(conv) || to.sole_reader(conv->output) != &sum) continue;
      if (!std::holds_alternative<QuantizedConv2d>(conv->op) || is_int8_depthwise(to, *conv)) continue;
      return Int8Sum{{conv, &sum}, sum.inputs[other]};
    }
    return std::nullopt;
  }

  bool choose(Lowering&, Int8Sum&) const override { return true; }

  void emit(Lowering& to, const Int8Sum& found) const override {
    const Node& conv = *found.nodes[0];
    const Node& sum = *found.nodes[1];
    const QuantizedResult& result = std::get<QuantizedAdd>(sum.op).result;
    kernels::Int8Conv2dParams params = int8_conv2d_params(to, conv);
    params.residual = true;
    params.sum = {sum_factor(to, conv.output, result), sum_factor(to, found.residual, result), params.result.zero_point,
                  byte_quantization(to.graph().value(found.residual).desc).zero_point, byte_range(result)};
    const Storage x = to.storage_of(conv.inputs[QuantizedConv2d::kInput]);
    const Storage residual = to.storage_of(found.residual);
    const auto weights = pack_int8_conv2d(to, conv, params);
    const Storage y = to.make_bytes(sum);
    params.y_pitch = y.byte_pitch;
    const auto chosen = to.choose(conv, params);
    to.add_kernel({.info = describe_int8(to, found.nodes, kernel_name(chosen.variant, params), chosen.reason),
                   .x = x,
                   .weights = weights,
                   .residual = residual,
                   .y = y},
                  chosen.variant, params);
  }
};

}  // namespace

std::unique_ptr<Fusion> make_int8_sum_fusion() { return std::make_unique<Int8SumFusion>(); }

}  // namespace mobicuda
