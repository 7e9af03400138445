#pragma once

#include <mobicuda/graph.h>

namespace mobicuda::passes {

/// Drops Identity, neutral Clip, Pad, Slice, Reshape, Transpose and LayoutTransform; joins Transpose pairs; a
/// Transpose of the network's NHWC input becomes the input's layout; an average pool over the whole map
/// becomes GlobalAveragePool.
Graph remove_noops(const Graph& original);
/// Zero Pad in front of Conv2d becomes the convolution's own padding.
Graph fold_pad(const Graph& graph);
/// ScaleShift (BatchNormalization) next to Conv2d or Gemm goes into weights and bias, in double precision.
Graph fold_scale_shift(const Graph& graph);
/// x * Sigmoid(x) becomes Silu, x * clip(x / 6 + 1/2, 0, 1) HardSwish.
Graph recognise_activation(const Graph& graph);
/// Clip or Unary goes into the op that feeds it.
Graph fuse_activation(const Graph& graph);
/// What lies between Dequantize and Quantize becomes an operation on integers: Conv2d, Gemm, Add and average pools by
/// their quantised forms, with a Clip as a clamp of integers, and what moves elements as it is. A Conv2d or Gemm
/// without Quantize behind gives real numbers. What cannot stays between the two.
Graph use_integers(const Graph& graph);
/// Add of a convolution's result and another value becomes the convolution's residual input.
Graph fuse_residual(const Graph& graph);
/// Makes every 4-D activation NHWC, with LayoutTransform where the order of elements matters outside.
Graph choose_layout(const Graph& graph);

}  // namespace mobicuda::passes
