// A quantised inverted residual block, and the QuantizedAdd of its input behind it: one kernel.
#include "kernels/int8_inverted_residual/int8_inverted_residual.h"

#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

struct Int8Block {
  std::vector<const Node*> nodes;  // expand depthwise project [sum]
  const Node* expand = nullptr;
  const Node* depthwise = nullptr;
  const Node* project = nullptr;
  kernels::Int8InvertedResidualParams params;
  kernels::Int8InvertedResidualVariant variant{};
  std::string reason;
};

bool is_block_pointwise(const Lowering& to, const Node* node) {
  return node != nullptr && !to.is_claimed(node) && is_int8_pointwise(to, *node);
}

bool is_block_depthwise(const Lowering& to, const Node& node) {
  if (to.is_claimed(&node) || !is_int8_depthwise(to, node)) return false;
  const QuantizedConv2d& op = quantized_conv_of(node);
  const Shape& weight = to.shape(node.inputs[QuantizedConv2d::kWeight]);
  return weight[2] == 3 && weight[3] == 3 && op.strides[0] == op.strides[1] && op.strides[0] <= 2 &&
         op.dilations == std::array<std::int64_t, 2>{1, 1};
}

class Int8BlockFusion final : public FusionOf<Int8Block> {
  std::optional<Int8Block> match(Lowering& to, const Node& depthwise) const override {
    if (!is_block_depthwise(to, depthwise)) return std::nullopt;
    Int8Block found;
    found.depthwise = &depthwise;
    found.project = to.sole_reader(depthwise.output);
    if (!is_block_pointwise(to, found.project)) return std::nullopt;
    const Node* before = to.producer(depthwise.inputs[QuantizedConv2d::kInput]);
    if (!is_block_pointwise(to, before) || to.sole_reader(before->output) != &depthwise) return std::nullopt;
    found.expand = before;
    found.nodes = {found.expand, found.depthwise, found.project};
    const ValueId x = found.nodes.front()->inputs[QuantizedConv2d::kInput];
    found.params = params_of(to, found, x);
    add_sum(to, found, x);
    return found;
  }

  static kernels::Int8InvertedResidualParams params_of(const Lowering& to, const Int8Block& block, ValueId x) {
    const Shape& in = to.shape(x);
    const Shape& out = to.shape(block.project->output);
    const QuantizedConv2d& depthwise = quantized_conv_of(*block.depthwise);
    kernels::Int8InvertedResidualParams p;
    p.n = to.max_batch();
    p.h = as_int(in[2]);
    p.w = as_int(in[3]);
    p.c_in = as_int(in[1]);
    p.c_hidden = as_int(to.shape(block.depthwise->output)[1]);
    p.c_out = as_int(out[1]);
    p.out_h = as_int(out[2]);
    p.out_w = as_int(out[3]);
    p.stride = as_int(depthwise.strides[0]);
    p.pad_top = as_int(depthwise.pads.top);
    p.pad_left = as_int(depthwise.pads.left);
    p.x_zero = byte_quantization(to.graph().value(x).desc).zero_point;
    p.expand_result = byte_range(quantized_conv_of(*block.expand).result);
    p.depthwise_result = byte_range(depthwise.result);
    p.result = byte_range(quantized_conv_of(*block.project).result);
    return p;
  }

  // The sum with the block's own input.
  static void add_sum(const Lowering& to, Int8Block& block, ValueId x) {
    const Node* sum = to.sole_reader(block.project->output);
    const auto* op = sum == nullptr || to.is_claimed(sum) ? nullptr : std::get_if<QuantizedAdd>(&sum->op);
    if (op == nullptr) return;
    const ValueId own = block.project->output;
    const bool is_first = sum->inputs[QuantizedAdd::kLeft] == own;
    if (sum->inputs[is_first ? QuantizedAdd::kRight : QuantizedAdd::kLeft] != x) return;
    block.nodes.push_back(sum);
    block.params.residual = true;
    block.params.sum = {sum_factor(to, own, op->result), sum_factor(to, x, op->result), block.params.result.zero_point,
                        block.params.x_zero, byte_range(op->result)};
  }

  bool choose(Lowering& to, Int8Block& found) const override {
    const bool dense = byte_pitch_of(to, found.nodes.front()->inputs[0]) % kernels::kChannelStep == 0;
    const auto chosen = to.chooser().choose_fused(found.depthwise->origin.label(), found.params, dense);
    if (!chosen.variant || !dense) {
      to.keep_apart(found.nodes, dense ? chosen.reason : "the network's first layer has pixels of four bytes");
      return false;
    }
    found.variant = *chosen.variant;
    found.reason = chosen.reason;
    return true;
  }

  void emit(Lowering& to, const Int8Block& found) const override {
    const Storage x = to.storage_of(found.nodes.front()->inputs[QuantizedConv2d::kInput]);
    const Packed packed = pack_int8_layers(
        to, {found.expand, found.depthwise, found.project}, Lowering::packing_of(found.variant, found.params),
        int8_inverted_residual_packed_bytes(found.variant, found.params),
        [&](const std::array<kernels::Int8Layer, 3>& layers, std::byte* host) {
          int8_inverted_residual_pack(found.variant, found.params, {layers[0], layers[1], layers[2]}, host);
        });
    const Storage y = to.make_bytes(*found.nodes.back());
    to.add_kernel({.info = describe_int8(to, found.nodes, kernel_name(found.variant, found.params), found.reason),
                   .x = x,
                   .weights = {packed},
                   .y = y},
                  found.variant, found.params);
  }
};

}  // namespace

std::unique_ptr<Fusion> make_int8_block_fusion() { return std::make_unique<Int8BlockFusion>(); }

}  // namespace mobicuda
