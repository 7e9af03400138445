#pragma once

namespace mobicuda::test {

/// The first two layers of an inverted residual block: pointwise expansion, 3x3 depthwise convolution.
struct ExpandLayer {
  const char* name;
  int size;  ///< input height and width
  int c_in;
  int c;
  int stride;
};

/// All of MobileNetV2 1.0 at 224 x 224.
inline constexpr ExpandLayer kMobileNetV2Expand[] = {
    {"B2", 112, 16, 96, 2},      {"B3", 56, 24, 144, 1},  {"B4", 56, 24, 144, 2},
    {"B5-B6", 28, 32, 192, 1},   {"B7", 28, 32, 192, 2},  {"B8-B11", 14, 64, 384, 1},
    {"B12-B13", 14, 96, 576, 1}, {"B14", 14, 96, 576, 2}, {"B15-B17", 7, 160, 960, 1},
};

}  // namespace mobicuda::test
