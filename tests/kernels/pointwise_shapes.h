#pragma once

namespace mobicuda::test {

/// A pointwise convolution of MobileNetV2 1.0 at 224x224, or its classifier (side 1).
struct PointwiseLayer {
  int side;  ///< of the square picture
  int k;     ///< input channels
  int n;     ///< output channels
  bool residual;
  bool relu6;
};

/// Each shape once.
inline constexpr PointwiseLayer kPointwiseLayers[] = {
    {112, 32, 16, false, false}, {112, 16, 96, false, true},    {56, 96, 24, false, false},
    {56, 24, 144, false, true},  {56, 144, 24, true, false},    {28, 144, 32, false, false},
    {28, 32, 192, false, true},  {28, 192, 32, true, false},    {14, 192, 64, false, false},
    {14, 64, 384, false, true},  {14, 384, 64, true, false},    {14, 384, 96, false, false},
    {14, 96, 576, false, true},  {14, 576, 96, true, false},    {7, 576, 160, false, false},
    {7, 160, 960, false, true},  {7, 960, 160, true, false},    {7, 960, 320, false, false},
    {7, 320, 1280, false, true}, {1, 1280, 1000, false, false},
};

}  // namespace mobicuda::test
