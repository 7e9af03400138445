// A quantised network's first convolution with the block without expansion behind it, and the Quantize of the network's
// input before it: one kernel.
#include "kernels/int8_stem_block/int8_stem_block.h"

#include "lower/fusions.h"
#include "lower/ops.h"

namespace mobicuda {
namespace {

using kernels::Int8StemBlockParams;
using kernels::Int8StemInput;
using Pair = std::array<std::int64_t, 2>;

struct Int8Stem {
  std::vector<const Node*> nodes;  // [quantize] stem depthwise project
  const Node* stem = nullptr;
  const Node* depthwise = nullptr;
  const Node* project = nullptr;
  Int8StemBlockParams params;
  kernels::Int8StemBlockVariant variant{};
  std::string reason;
};

bool has_window(const Lowering& to, const Node& node, std::int64_t stride) {
  const Shape& weight = to.shape(node.inputs[QuantizedConv2d::kWeight]);
  const QuantizedConv2d& op = quantized_conv_of(node);
  return weight[2] == 3 && weight[3] == 3 && op.strides == Pair{stride, stride} && op.dilations == Pair{1, 1};
}

bool is_stem(const Lowering& to, const Node* node) {
  const auto* op = node == nullptr ? nullptr : std::get_if<QuantizedConv2d>(&node->op);
  if (op == nullptr || to.is_claimed(node) || op->result.dtype == DType::F32 || op->groups != 1) return false;
  constexpr int kChannels = 3;
  return to.shape(node->inputs[QuantizedConv2d::kWeight])[1] == kChannels && has_window(to, *node, 2);
}

/// The Quantize of the caller's floats, NCHW, that nobody else reads; null where x is something else.
const Node* own_quantize(const Lowering& to, const Node& stem) {
  const ValueId x = stem.inputs[QuantizedConv2d::kInput];
  const Node* maker = to.producer(x);
  if (maker == nullptr || !std::holds_alternative<Quantize>(maker->op) || to.sole_reader(x) != &stem) return nullptr;
  ValueId source = maker->inputs[0];
  const Node* before = to.producer(source);
  if (before != nullptr && std::holds_alternative<LayoutTransform>(before->op)) source = before->inputs[0];
  return source == to.graph().input() && to.graph().input_desc().layout == Layout::NCHW ? maker : nullptr;
}

class Int8StemBlockFusion final : public FusionOf<Int8Stem> {
  std::optional<Int8Stem> match(Lowering& to, const Node& depthwise) const override {
    if (to.is_claimed(&depthwise) || !is_int8_depthwise(to, depthwise) || !has_window(to, depthwise, 1)) {
      return std::nullopt;
    }
    Int8Stem found;
    found.depthwise = &depthwise;
    found.stem = to.producer(depthwise.inputs[QuantizedConv2d::kInput]);
    found.project = to.sole_reader(depthwise.output);
    if (!is_stem(to, found.stem) || to.sole_reader(found.stem->output) != &depthwise) return std::nullopt;
    if (found.project == nullptr || to.is_claimed(found.project) || !is_int8_pointwise(to, *found.project)) {
      return std::nullopt;
    }
    found.nodes = {found.stem, found.depthwise, found.project};
    const Node* quantize = own_quantize(to, *found.stem);
    if (quantize != nullptr) {
      found.nodes.insert(found.nodes.begin(), quantize);
    } else if (byte_pitch_of(to, found.stem->inputs[QuantizedConv2d::kInput]) != kernels::kSmallBytePitch) {
      return std::nullopt;
    }
    found.params = params_of(to, found, quantize);
    return found;
  }

  static Int8StemBlockParams params_of(const Lowering& to, const Int8Stem& block, const Node* quantize) {
    const ValueId x = block.stem->inputs[QuantizedConv2d::kInput];
    const Shape& in = to.shape(x);
    const Shape& middle = to.shape(block.stem->output);
    const Shape& out = to.shape(block.project->output);
    const QuantizedConv2d& stem = quantized_conv_of(*block.stem);
    const QuantizedConv2d& depthwise = quantized_conv_of(*block.depthwise);
    const ByteQuantization quantization = byte_quantization(to.graph().value(x).desc);
    Int8StemBlockParams p;
    p.n = to.max_batch();
    p.h = as_int(in[2]);
    p.w = as_int(in[3]);
    p.c_stem = as_int(middle[1]);
    p.c_out = as_int(out[1]);
    p.stem_h = as_int(middle[2]);
    p.stem_w = as_int(middle[3]);
    p.out_h = as_int(out[2]);
    p.out_w = as_int(out[3]);
    p.stem_pad_top = as_int(stem.pads.top);
    p.stem_pad_left = as_int(stem.pads.left);
    p.depthwise_pad_top = as_int(depthwise.pads.top);
    p.depthwise_pad_left = as_int(depthwise.pads.left);
    p.x_scale = quantization.scale;
    p.x.zero_point = quantization.zero_point;
    p.input = Int8StemInput::Words;
    if (quantize != nullptr) {
      p.input = Int8StemInput::NchwFloat;
      p.x = byte_range(std::get<Quantize>(quantize->op).result);
    }
    p.stem_result = byte_range(stem.result);
    p.depthwise_result = byte_range(depthwise.result);
    p.result = byte_range(quantized_conv_of(*block.project).result);
    return p;
  }

  bool choose(Lowering& to, Int8Stem& found) const override {
    const auto chosen = to.chooser().choose_fused(found.stem->origin.label(), found.params);
    if (!chosen.variant) {
      to.keep_apart({found.stem, found.depthwise, found.project}, chosen.reason);
      return false;
    }
    found.variant = *chosen.variant;
    found.reason = chosen.reason;
    return true;
  }

  /// What constants are packed with besides what pack_int8_layers() sees.
  static std::string packing_of(const Int8Stem& found) {
    std::string packing = Lowering::packing_of(found.variant, found.params);
    for (const kernels::ByteRange& range :
         {found.params.x, found.params.stem_result, found.params.depthwise_result, found.params.result}) {
      packing += " range " + std::to_string(range.low) + " " + std::to_string(range.high);
    }
    return packing;
  }

  void emit(Lowering& to, const Int8Stem& found) const override {
    const Storage x = found.params.input == Int8StemInput::Words
                          ? to.storage_of(found.stem->inputs[QuantizedConv2d::kInput])
                          : to.input();
    const Packed packed =
        pack_int8_layers(to, {found.stem, found.depthwise, found.project}, packing_of(found),
                         int8_stem_block_packed_bytes(found.variant, found.params),
                         [&](const std::array<kernels::Int8Layer, 3>& layers, std::byte* host) {
                           int8_stem_block_pack(found.variant, found.params, {layers[0], layers[1], layers[2]}, host);
                         });
    const Storage y = to.make_bytes(*found.project);
    to.add_kernel({.info = describe_int8(to, found.nodes, kernel_name(found.variant, found.params), found.reason),
                   .x = x,
                   .weights = {packed},
                   .y = y},
                  found.variant, found.params);
  }
};

}  // namespace

std::unique_ptr<Fusion> make_int8_stem_block_fusion() { return std::make_unique<Int8StemBlockFusion>(); }

}  // namespace mobicuda
