#include "kernels/squeeze_excite/squeeze_excite.h"
#include "plan/lowering.h"

namespace mobicuda {

// x * fc(fc(mean of x)), each fc a pointwise convolution of one pixel and each value but x with one reader.
std::optional<Lowering::SqueezeExcite> Lowering::squeeze_excite_before(const Node& mul) const {
  const auto producer_of = [&](ValueId id) -> const Node* {
    const auto producer = graph_.producer(id);
    return producer ? &graph_.nodes()[*producer] : nullptr;
  };
  const auto pointwise_before = [&](const Node& reader, std::size_t position) -> const Node* {
    const Node* node = producer_of(reader.inputs[position]);
    const auto* op = node == nullptr ? nullptr : std::get_if<Conv2d>(&node->op);
    const bool fits = op != nullptr && sole_reader(node->output) == &reader &&
                      is_pointwise(*op, shape(node->inputs[Conv2d::kWeight])) &&
                      node->inputs[Conv2d::kResidual] == kNoValue;
    return fits ? node : nullptr;
  };
  SqueezeExcite found;
  found.x = mul.inputs[Mul::kLeft];
  found.expand = pointwise_before(mul, Mul::kRight);
  found.reduce = found.expand == nullptr ? nullptr : pointwise_before(*found.expand, Conv2d::kInput);
  found.pool = found.reduce == nullptr ? nullptr : producer_of(found.reduce->inputs[Conv2d::kInput]);
  if (found.pool == nullptr || !std::holds_alternative<GlobalAveragePool>(found.pool->op) ||
      sole_reader(found.pool->output) != found.reduce || found.pool->inputs[0] != found.x ||
      graph_.value(found.x).desc.layout != Layout::NHWC) {
    return std::nullopt;
  }
  const Shape& picture = shape(found.x);
  kernels::SqueezeExciteParams& params = found.params;
  params.elem = elem_;
  params.n = as_int(options_.max_batch);
  params.pixels = as_int(picture[2] * picture[3]);
  params.c = as_int(picture[1]);
  params.squeezed = as_int(shape(found.reduce->output)[1]);
  params.squeeze_activation = as_kernel_activation(std::get<Conv2d>(found.reduce->op).activation);
  params.gate_activation = as_kernel_activation(std::get<Conv2d>(found.expand->op).activation);
  return found;
}

void Lowering::find_squeeze_excites() {
  for (const Node& mul : graph_.nodes()) {
    const auto* op = std::get_if<Mul>(&mul.op);
    if (op == nullptr) continue;
    std::optional<SqueezeExcite> found = squeeze_excite_before(mul);
    if (!found) continue;
    const auto chosen = chooser_.squeeze_excite(mul.origin.label(), found->params);
    const bool plain = op->activation.is_none() && !is_final(mul.output);
    if (!chosen.variant || !plain) {
      keep_apart({found->pool, found->reduce, found->expand, &mul},
                 plain ? chosen.reason : "the gated values are activated or are the network's output");
      continue;
    }
    found->variant = *chosen.variant;
    found->reason = chosen.reason;
    in_blocks_.insert({found->pool, found->reduce, found->expand, &mul});
    squeeze_excites_.emplace(&mul, *found);
  }
}

void Lowering::lower_squeeze_excite(const Node& mul, const SqueezeExcite& block) {
  const Storage x = read_input(block.x);
  const kernels::SqueezeExciteParams& params = block.params;
  const auto weights_of = [&](const Node* node, std::size_t position) -> const float* {
    if (node->inputs[position] == kNoValue) return nullptr;
    if (position == Conv2d::kWeight && elem_ == Elem::F16) require_half_range(*node, node->inputs[position]);
    return floats(node->inputs[position]).data();
  };
  const auto bytes = static_cast<std::int64_t>(squeeze_excite_packed_bytes(block.variant, params));
  const Packed packed = pack_bytes(bytes, [&](std::byte* host) {
    squeeze_excite_pack(block.variant, params,
                        {weights_of(block.reduce, Conv2d::kWeight), weights_of(block.reduce, Conv2d::kBias),
                         weights_of(block.expand, Conv2d::kWeight), weights_of(block.expand, Conv2d::kBias)},
                        host);
  });
  const Storage y = make_output(mul, false);
  LayerInfo info = describe_block({block.pool, block.reduce, block.expand, &mul},
                                  "squeeze_excite/" + std::string(kernels::name(block.variant)), block.reason);
  info.weight_bytes = bytes;
  add_step(std::move(info), {x.buffer, y.buffer},
           [params, variant = block.variant, x, y, w = pointer(packed)](const CudaStepContext& context) {
             auto p = params;
             p.n = as_int(context.n);
             return kernels::squeeze_excite(variant, p, context.buffers[x.buffer], w.get(), context.buffers[y.buffer],
                                            launch_of(context));
           });
}

}  // namespace mobicuda
