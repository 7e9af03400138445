// A quantised product and the Dequantize that alone reads it, as at the end of a classifier: the kernel writes the real
// numbers that its bytes stand for.
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct Int8Dequantize {
  std::vector<const Node*> nodes;  // product, dequantize
};

class Int8DequantizeFusion final : public FusionOf<Int8Dequantize> {
  std::optional<Int8Dequantize> match(Lowering& to, const Node& dequantize) const override {
    if (!std::holds_alternative<Dequantize>(dequantize.op)) return std::nullopt;
    const Node* product = to.producer(dequantize.inputs[0]);
    if (product == nullptr || to.is_claimed(product) || to.sole_reader(product->output) != &dequantize) {
      return std::nullopt;
    }
    if (!std::holds_alternative<QuantizedGemm>(product->op)) return std::nullopt;
    return Int8Dequantize{{product, &dequantize}};
  }

  bool choose(Lowering&, Int8Dequantize&) const override { return true; }

  void emit(Lowering& to, const Int8Dequantize& found) const override {
    const Node& product = *found.nodes[0];
    kernels::Int8Conv2dParams params = int8_conv2d_params(to, product);
    params.output = kernels::Int8Conv2dParams::Output::Dequantized;
    params.y_scale = to.graph().value(product.output).desc.quantization.scale;
    const Storage x = to.storage_of(product.inputs[QuantizedGemm::kInput]);
    const auto weights = pack_int8_conv2d(to, product, params);
    const Storage y = to.make_floats(*found.nodes[1]);
    const auto chosen = to.choose(product, params);
    to.add_kernel({.info = describe_int8(to, found.nodes, kernel_name(chosen.variant, params), chosen.reason),
                   .x = x,
                   .weights = weights,
                   .y = y},
                  chosen.variant, params);
  }
};

}  // namespace

std::unique_ptr<Fusion> make_int8_dequantize_fusion() { return std::make_unique<Int8DequantizeFusion>(); }

}  // namespace mobicuda
