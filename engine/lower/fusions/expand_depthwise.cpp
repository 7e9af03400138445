// An expansion and the depthwise convolution behind it that are in no block: what reads them is a gate, or several
// nodes.
#include "kernels/expand_depthwise/expand_depthwise.h"
#include "kernels/depthwise_conv/depthwise_conv.h"
#include "kernels/gemm/gemm.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct ExpandedDepthwise {
  std::vector<const Node*> nodes;  // expand, depthwise
  kernels::ExpandDepthwiseParams params;
  kernels::ExpandDepthwiseVariant variant{};
  std::string reason;
};

class ExpandDepthwiseFusion final : public FusionOf<ExpandedDepthwise> {
  std::optional<ExpandedDepthwise> match(Lowering& to, const Node& depthwise) const override {
    const auto* op = std::get_if<Conv2d>(&depthwise.op);
    if (to.elem() != Elem::F16 || op == nullptr || to.is_claimed(&depthwise) || to.is_final(depthwise.output)) {
      return std::nullopt;
    }
    const Shape& weight = to.shape(depthwise.inputs[Conv2d::kWeight]);
    for (const int kernel : {3, 5}) {
      if (!is_block_depthwise(*op, weight, kernel) || depthwise.inputs[Conv2d::kResidual] != kNoValue) continue;
      // What is a block has been decided with its last layer.
      if (block_around(to, depthwise, kernel)) return std::nullopt;
      const Node* expand = expansion_before(to, depthwise);
      if (expand == nullptr) return std::nullopt;
      return ExpandedDepthwise{{expand, &depthwise}, pair_params(to, *expand, depthwise), {}, {}};
    }
    return std::nullopt;
  }

  bool choose(Lowering& to, ExpandedDepthwise& found) const override {
    return choose_all(to, *found.nodes.back(), found);
  }

  void emit(Lowering& to, const ExpandedDepthwise& found) const override {
    emit_pair(to, *found.nodes.front(), *found.nodes.back(), found.params, found.variant, found.reason);
  }
};

}  // namespace

kernels::ExpandDepthwiseParams pair_params(const Lowering& to, const Node& expand, const Node& depthwise) {
  const auto& first = std::get<Conv2d>(expand.op);
  const auto& second = std::get<Conv2d>(depthwise.op);
  const Shape& in = to.shape(expand.inputs[Conv2d::kInput]);
  const Shape& out = to.shape(depthwise.output);
  kernels::ExpandDepthwiseParams params;
  params.elem = to.elem();
  params.n = to.max_batch();
  params.h = as_int(in[2]);
  params.w = as_int(in[3]);
  params.c_in = as_int(in[1]);
  params.c = as_int(out[1]);
  params.out_h = as_int(out[2]);
  params.out_w = as_int(out[3]);
  params.kernel = as_int(to.shape(depthwise.inputs[Conv2d::kWeight])[2]);
  params.stride = as_int(second.strides[0]);
  params.pad_top = as_int(second.pads.top);
  params.pad_left = as_int(second.pads.left);
  params.expand_bias = expand.inputs[Conv2d::kBias] != kNoValue;
  params.depthwise_bias = depthwise.inputs[Conv2d::kBias] != kNoValue;
  params.expand_activation = as_kernel_activation(first.activation);
  params.depthwise_activation = as_kernel_activation(second.activation);
  return params;
}

void emit_pair(Lowering& to, const Node& expand, const Node& depthwise, const kernels::ExpandDepthwiseParams& params,
               kernels::ExpandDepthwiseVariant variant, const std::string& reason) {
  const Elem elem = params.elem;
  const Storage x = to.read_input(expand.inputs[Conv2d::kInput]);
  const Packed expand_weight =
      to.pack("gemm", expand, expand.inputs[Conv2d::kWeight], kernels::gemm_packed_bytes(elem, params.c, params.c_in),
              [&](const float* w, void* packed) { kernels::gemm_pack(elem, params.c, params.c_in, w, packed); });
  const Packed depthwise_weight =
      to.pack("depthwise_conv", depthwise, depthwise.inputs[Conv2d::kWeight],
              kernels::depthwise_conv_packed_bytes(elem, params.c, params.kernel, params.kernel),
              [&](const float* w, void* packed) {
                kernels::depthwise_conv_pack(elem, params.c, params.kernel, params.kernel, w, packed);
              });
  const Packed expand_bias = to.pack_floats(expand.inputs[Conv2d::kBias]);
  const Packed depthwise_bias = to.pack_floats(depthwise.inputs[Conv2d::kBias]);
  const Storage y = to.make_output(depthwise, false);
  to.add_kernel({.info = to.describe({&expand, &depthwise}, kernel_name(variant, params), reason),
                 .x = x,
                 .weights = {expand_weight, expand_bias, depthwise_weight, depthwise_bias},
                 .y = y},
                variant, params);
  to.show(depthwise.output);
}

std::unique_ptr<Fusion> make_expand_depthwise_fusion() { return std::make_unique<ExpandDepthwiseFusion>(); }

}  // namespace mobicuda
