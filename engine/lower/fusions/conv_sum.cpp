// Two pointwise convolutions whose outputs are added, in half: a bottleneck's last one and the projection beside it.
#include <cstring>

#include "kernels/conv2d/conv2d.h"
#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct SummedConvolutions {
  std::vector<const Node*> nodes;  // the one whose output is the other's residual, the other
  const Node* first = nullptr;     // of the two, one with a stride of 1
  const Node* second = nullptr;
  kernels::Conv2dParams params;
  kernels::Conv2dVariant variant{};
  std::string reason;
};

bool has_bias(const Node& node) { return node.inputs[Conv2d::kBias] != kNoValue; }

// 1x1 of one group without padding, of another value than the network's input, which may be bytes.
bool is_dense_product(const Lowering& to, const Node& node, const Conv2d& op) {
  const Shape& weight = to.shape(node.inputs[Conv2d::kWeight]);
  return weight[2] == 1 && weight[3] == 1 && op.groups == 1 && !op.pads.any() &&
         node.inputs[Conv2d::kInput] != to.graph().input();
}

kernels::Conv2dParams sum_params(const Lowering& to, const SummedConvolutions& sum) {
  const Node& last = *sum.nodes.back();
  kernels::Conv2dParams params = conv2d_params(to, *sum.first, std::get<Conv2d>(sum.first->op));
  const auto& second = std::get<Conv2d>(sum.second->op);
  const Shape& x2 = to.shape(sum.second->inputs[Conv2d::kInput]);
  params.second = {as_int(x2[1]), as_int(x2[2]), as_int(x2[3]), as_int(second.strides[0]), as_int(second.strides[1])};
  params.bias = has_bias(*sum.nodes[0]) || has_bias(last);
  params.residual = false;
  params.activation = as_kernel_activation(std::get<Conv2d>(last.op).activation);
  return params;
}

class ConvSumFusion final : public FusionOf<SummedConvolutions> {
  std::optional<SummedConvolutions> match(Lowering& to, const Node& last) const override {
    const auto* last_op = std::get_if<Conv2d>(&last.op);
    if (to.elem() != Elem::F16 || last_op == nullptr || to.is_claimed(&last) || to.is_final(last.output)) {
      return std::nullopt;
    }
    const ValueId residual = last.inputs[Conv2d::kResidual];
    const Node* added = residual == kNoValue ? nullptr : to.producer(residual);
    const auto* added_op = added == nullptr ? nullptr : std::get_if<Conv2d>(&added->op);
    if (added_op == nullptr || last.inputs[Conv2d::kInput] == residual || to.is_claimed(added) ||
        to.sole_reader(residual) != &last || added->inputs[Conv2d::kResidual] != kNoValue ||
        !added_op->activation.is_none() || !is_dense_product(to, *added, *added_op) ||
        !is_dense_product(to, last, *last_op)) {
      return std::nullopt;
    }
    const bool later = is_pointwise(*last_op, to.shape(last.inputs[Conv2d::kWeight]));
    if (!later && !is_pointwise(*added_op, to.shape(added->inputs[Conv2d::kWeight]))) return std::nullopt;
    SummedConvolutions found;
    found.nodes = {added, &last};
    found.first = later ? &last : added;
    found.second = later ? added : &last;
    found.params = sum_params(to, found);
    if (!to.rules().runs(found.params)) return std::nullopt;
    return found;
  }

  bool choose(Lowering& to, SummedConvolutions& found) const override {
    return choose_all(to, *found.nodes.back(), found);
  }

  void emit(Lowering& to, const SummedConvolutions& found) const override {
    const ValueId x_id = found.first->inputs[Conv2d::kInput];
    const ValueId x2_id = found.second->inputs[Conv2d::kInput];
    const Storage x = to.read_input(x_id);
    const Storage x2 = to.read_input(x2_id);
    const Packed weight = pack_weights(to, found);
    const Packed bias = pack_bias(to, found);
    const Node& last = *found.nodes.back();
    const Storage y = to.make_output(last, false);
    LayerInfo info = to.describe(found.nodes, kernel_name(found.variant, found.params), found.reason);
    const std::int64_t elements =
        to.shape(x_id).elements() + to.shape(x2_id).elements() + to.shape(last.output).elements();
    info.activation_bytes = elements * static_cast<std::int64_t>(size_of(to.elem()));
    to.add_kernel({.info = std::move(info), .x = x, .weights = {weight, bias}, .residual = x2, .y = y}, found.variant,
                  found.params);
  }

  static Packed pack_weights(Lowering& to, const SummedConvolutions& sum) {
    const auto bytes = static_cast<std::int64_t>(kernels::conv2d_packed_bytes(sum.params));
    const std::vector<ValueId> constants{sum.first->inputs[Conv2d::kWeight], sum.second->inputs[Conv2d::kWeight]};
    return to.pack_bytes("conv2d sum", constants, bytes, [&](std::byte* packed) {
      const kernels::Conv2dParams second = second_alone(sum.params);
      const std::size_t behind = kernels::conv2d_packed_bytes(sum.params) - kernels::conv2d_packed_bytes(second);
      kernels::conv2d_pack(sum.params, to.constant_of(sum.first, Conv2d::kWeight), packed);
      kernels::conv2d_pack(second, to.constant_of(sum.second, Conv2d::kWeight), packed + behind);
    });
  }

  static Packed pack_bias(Lowering& to, const SummedConvolutions& sum) {
    const ValueId a = sum.nodes[0]->inputs[Conv2d::kBias];
    const ValueId b = sum.nodes[1]->inputs[Conv2d::kBias];
    if (a == kNoValue || b == kNoValue) return to.pack_floats(a == kNoValue ? b : a);
    const std::int64_t bytes = to.shape(a).elements() * static_cast<std::int64_t>(sizeof(float));
    return to.pack_bytes("sum of floats", {a, b}, bytes, [&](std::byte* packed) {
      for (std::size_t i = 0; i < to.floats(a).size(); ++i, packed += sizeof(float)) {
        const float value = to.floats(a)[i] + to.floats(b)[i];
        std::memcpy(packed, &value, sizeof value);
      }
    });
  }
};

}  // namespace

std::unique_ptr<Fusion> make_conv_sum_fusion() { return std::make_unique<ConvSumFusion>(); }

}  // namespace mobicuda
