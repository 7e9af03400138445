// How nodes become steps of a plan. Values are NHWC where they are images.
#pragma once

#include <optional>

#include "kernels/conv2d/conv2d.h"
#include "kernels/gemm/gemm.h"
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

/// How `node` multiplies, for one image.
kernels::MultiplyParams multiply_params(const Graph& graph, const Node& node, const Mul& op);

}  // namespace mobicuda
