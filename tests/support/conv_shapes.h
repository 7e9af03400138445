#pragma once

namespace mobicuda::test {

// The convolutions of MobileNetV2 1.0 at 224 x 224 that are neither pointwise nor fully connected.

struct DepthwiseLayer {
  const char* name;
  int size;  ///< input height and width
  int channels;
  int stride;
  int window = 3;
};

inline constexpr DepthwiseLayer kMobileNetV2Depthwise[] = {
    {"B1", 112, 32, 1}, {"B2", 112, 96, 2},     {"B3", 56, 144, 1},      {"B4", 56, 144, 2},  {"B5-B6", 28, 192, 1},
    {"B7", 28, 192, 2}, {"B8-B11", 14, 384, 1}, {"B12-B13", 14, 576, 1}, {"B14", 14, 576, 2}, {"B15-B17", 7, 960, 1},
};

/// The 5x5 windows of MobileNetV3-Large and EfficientNet-B0.
inline constexpr DepthwiseLayer kDepthwise5x5[] = {
    {"V3 4", 56, 72, 2, 5},     {"V3 5-6", 28, 120, 1, 5},  {"V3 13, E 12", 14, 672, 2, 5},
    {"V3 14-15", 7, 960, 1, 5}, {"E 4", 56, 144, 2, 5},     {"E 5", 28, 240, 1, 5},
    {"E 9", 14, 480, 1, 5},     {"E 10-11", 14, 672, 1, 5}, {"E 13-15", 7, 1152, 1, 5},
};

struct StemLayer {
  int size = 224;
  int c_in = 3;
  int c_out = 32;
  int stride = 2;
};

inline constexpr StemLayer kMobileNetV2Stem{};

}  // namespace mobicuda::test
