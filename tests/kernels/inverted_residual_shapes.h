#pragma once

namespace mobicuda::test {

// The inverted residual blocks of MobileNetV2 1.0 at 224 x 224.

struct InvertedResidualLayer {
  const char* name;
  int size;  ///< input height and width
  int c_in, c_hidden, c_out;
  int stride;
};

inline constexpr InvertedResidualLayer kMobileNetV2Blocks[] = {
    {"B1", 112, 32, 32, 16, 1},     {"B2", 112, 16, 96, 24, 2},       {"B3", 56, 24, 144, 24, 1},
    {"B4", 56, 24, 144, 32, 2},     {"B5-B6", 28, 32, 192, 32, 1},    {"B7", 28, 32, 192, 64, 2},
    {"B8-B10", 14, 64, 384, 64, 1}, {"B11", 14, 64, 384, 96, 1},      {"B12-B13", 14, 96, 576, 96, 1},
    {"B14", 14, 96, 576, 160, 2},   {"B15-B16", 7, 160, 960, 160, 1}, {"B17", 7, 160, 960, 320, 1},
};

}  // namespace mobicuda::test
