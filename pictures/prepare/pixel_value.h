// What a byte of a picture is to the network, for the CPU and the GPU.
#pragma once

#include "pictures/prepare/window.h"

namespace mobicuda::pictures {

/// (byte / divisor - mean) / deviation, in floats, each step rounded.
struct PixelScale {
  float divisor;
  float mean[3];
  float deviation[3];
};

inline constexpr PixelScale kTorchScale{255.0F, {0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
inline constexpr PixelScale kTfScale{127.5F, {1.0F, 1.0F, 1.0F}, {1.0F, 1.0F, 1.0F}};

MOBICUDA_ON_BOTH float pixel_value(std::uint8_t byte, const PixelScale& scale, int channel) {
  return (static_cast<float>(byte) / scale.divisor - scale.mean[channel]) / scale.deviation[channel];
}

}  // namespace mobicuda::pictures
