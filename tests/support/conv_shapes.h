#pragma once

namespace mobicuda::test {

// The convolutions of MobileNetV2 1.0 at 224 x 224 that are neither pointwise nor fully connected.

struct DepthwiseLayer {
  const char* name;
  int size;  ///< input height and width
  int channels;
  int stride;
};

inline constexpr DepthwiseLayer kMobileNetV2Depthwise[] = {
    {"B1", 112, 32, 1}, {"B2", 112, 96, 2},     {"B3", 56, 144, 1},      {"B4", 56, 144, 2},  {"B5-B6", 28, 192, 1},
    {"B7", 28, 192, 2}, {"B8-B11", 14, 384, 1}, {"B12-B13", 14, 576, 1}, {"B14", 14, 576, 2}, {"B15-B17", 7, 960, 1},
};

struct StemLayer {
  int size = 224;
  int c_in = 3;
  int c_out = 32;
  int stride = 2;
};

inline constexpr StemLayer kMobileNetV2Stem{};

}  // namespace mobicuda::test
