// How nodes become steps of a plan. Values are NHWC where they are images.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/int8_layer.h"
#include "kernels/common/quantization.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/gemm/gemm.h"
#include "kernels/int8_conv2d/int8_conv2d.h"
#include "kernels/streaming/extremum.h"
#include "kernels/streaming/layout_transform.h"
#include "kernels/streaming/multiply.h"
#include "lower/lowering.h"

namespace mobicuda {

/// Appends the steps of a node.
void lower(Lowering& to, const Node& node);

/// y = act(a + b); y may be a.
void add_addition(Lowering& to, LayerInfo info, Storage a, Storage b, Storage y, const Shape& picture,
                  const Activation& activation);

/// The convolution in conv2d, for a dense input in elem().
kernels::Conv2dParams conv2d_params(const Lowering& to, const Node& node, const Conv2d& op);
/// Whether the node is a convolution that can read the network's input in bytes.
bool reads_pictures(const Lowering& to, const Node& node);

bool is_pointwise(const Conv2d& op, const Shape& weight);
bool is_depthwise(const Conv2d& op, const Shape& weight);

/// A transposition with the axes that stay together joined, for one image; nothing where more than four are left.
std::optional<kernels::TransposeParams> transpose_params(const Shape& x, const Transpose& op);

/// A quantised value as the kernels have it, in int8.
struct ByteQuantization {
  float scale = 1.0F;
  int zero_point = 0;
};
ByteQuantization byte_quantization(const TensorDesc& desc);
kernels::ByteRange byte_range(const QuantizedResult& result);
/// Bytes of a pixel: 4 where a Quantize makes up to four channels for convolutions only, else a multiple of 16.
int byte_pitch_of(const Lowering& to, ValueId id);
/// Why no kernel runs this node, whose output or an input is quantised; nothing where one does.
std::optional<std::string> why_no_int8_kernel(const Graph& graph, const Node& node);

/// Of a node that is one.
inline const QuantizedConv2d& quantized_conv_of(const Node& node) { return std::get<QuantizedConv2d>(node.op); }

/// A QuantizedConv2d that int8_conv2d runs, or a QuantizedGemm.
kernels::Int8Conv2dParams int8_conv2d_params(const Lowering& to, const Node& node);
/// Whether int8_depthwise_conv runs it.
bool is_int8_depthwise(const Lowering& to, const Node& node);
/// Whether it is a QuantizedConv2d of single pixels with a result of integers.
bool is_int8_pointwise(const Lowering& to, const Node& node);
/// Weights, bias and multipliers of a QuantizedConv2d or QuantizedGemm, as int8_conv2d has them.
std::vector<Packed> pack_int8_conv2d(Lowering& to, const Node& node, const kernels::Int8Conv2dParams& params);
/// Three convolutions of a kernel of several layers, as `pack` makes `bytes` of them, which follow from `packing`,
/// their constants, and their inputs' and results' quantisations.
Packed pack_int8_layers(Lowering& to, const std::array<const Node*, 3>& convolutions, std::string packing,
                        std::size_t bytes,
                        const std::function<void(const std::array<kernels::Int8Layer, 3>&, std::byte*)>& pack);
/// A window over quantised values: Pool2d's largest, or QuantizedAveragePool's.
void lower_int8_pooling(Lowering& to, const Node& node, const Pool2d& window);
/// The factor of an input of a QuantizedAdd.
float sum_factor(const Lowering& to, ValueId input, const QuantizedResult& result);
/// Of nodes, the last of which makes the step's result: quantised values count with a byte an element.
LayerInfo describe_int8(const Lowering& to, const std::vector<const Node*>& nodes, std::string kernel,
                        std::string reason);

/// How the two operands of `node` lie, of which the second may repeat; for one image.
kernels::Broadcast broadcast_of(const Graph& graph, const Node& node);

}  // namespace mobicuda
