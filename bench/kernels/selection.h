#pragma once

#include <vector>

#include "kernels/common/launch.h"
#include "layer_shapes.h"
#include "registry.h"

namespace mobicuda::bench {

/// What to register benchmarks for. Lives as long as they do.
struct Selection {
  std::vector<Layer> layers;
  std::vector<int> batches;
  std::vector<kernels::Elem> elems;
  Registry* registry = nullptr;  ///< takes them
};

// The benchmarks of one kernel, each in <kernel>_bench.cpp.
void register_concat(const Selection& selection);
void register_conv2d(const Selection& selection);
void register_depthwise_conv(const Selection& selection);
void register_elementwise(const Selection& selection);
void register_expand_depthwise(const Selection& selection);
void register_gemm(const Selection& selection);
void register_inverted_residual(const Selection& selection);
void register_layout_transform(const Selection& selection);
void register_local_response_norm(const Selection& selection);
void register_multiply(const Selection& selection);
void register_pointwise_pool(const Selection& selection);
void register_pooling(const Selection& selection);
void register_softmax(const Selection& selection);
void register_squeeze_excite(const Selection& selection);
void register_stem_block(const Selection& selection);
void register_unary(const Selection& selection);

/// Whether the build has cuDNN.
bool has_cudnn();
/// cuDNN and cuBLASLt on the same layers; nothing without cuDNN.
void register_cudnn(const Selection& selection);

}  // namespace mobicuda::bench
