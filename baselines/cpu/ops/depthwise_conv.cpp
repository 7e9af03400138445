#include "baselines/cpu/ops/depthwise_conv.h"

namespace mobicuda::cpu {

void depthwise_conv_pack(const Shape& weight_shape, const float* weight, float* packed) {
  const std::int64_t channels = weight_shape[0];
  const std::int64_t taps = weight_shape[2] * weight_shape[3];
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t c = 0; c < channels; ++c) packed[tap * channels + c] = weight[c * taps + tap];
  }
}

}  // namespace mobicuda::cpu
