#pragma once

#include <vector>

#include "cudnn/conv_search.h"
#include "layer_bench.h"

namespace mobicuda::bench {

/// Layers that run one after the other, each reading what the one before wrote.
using LayerChain = std::vector<cudnn::ConvAlternatives>;

/// The ways to give a layer, or the layers that a fused kernel stands for, to cuDNN: one for each memory order that the
/// cudnn baseline tries at that precision. Of convolutions and products, of blocks and of stems with a block.
std::vector<LayerChain> chains_of(const LayerCase& at);

/// Of a block that expands: all but its projection.
std::vector<LayerChain> expand_depthwise_chains(const LayerCase& at);

}  // namespace mobicuda::bench
