// Layers of networks, at 224 x 224, on which kernels are tested: each shape once. That the networks have them is seen
// to by tests/kernel_bench/layer_shapes_test.cpp.
#pragma once

#include <algorithm>
#include <vector>

namespace mobicuda::test {

/// Pointwise, depthwise 3x3, pointwise; without the first one where that would not add channels.
struct InvertedResidualLayer {
  const char* name;
  int size;  ///< input height and width
  int c_in, c_hidden, c_out;
  int stride;

  bool expands() const { return c_hidden != c_in; }
  bool has_residual() const { return stride == 1 && c_in == c_out; }
  int out_size() const { return size / stride; }
};

inline constexpr InvertedResidualLayer kMobileNetV2Blocks[] = {
    {"B1", 112, 32, 32, 16, 1},     {"B2", 112, 16, 96, 24, 2},       {"B3", 56, 24, 144, 24, 1},
    {"B4", 56, 24, 144, 32, 2},     {"B5-B6", 28, 32, 192, 32, 1},    {"B7", 28, 32, 192, 64, 2},
    {"B8-B10", 14, 64, 384, 64, 1}, {"B11", 14, 64, 384, 96, 1},      {"B12-B13", 14, 96, 576, 96, 1},
    {"B14", 14, 96, 576, 160, 2},   {"B15-B16", 7, 160, 960, 160, 1}, {"B17", 7, 160, 960, 320, 1},
};

/// Those of MobileNetV3-Large that have a fused variant of their own.
inline constexpr InvertedResidualLayer kMobileNetV3Blocks[] = {
    {"V3-1", 112, 16, 16, 16, 1}, {"V3-2", 112, 16, 64, 24, 2}, {"V3-3", 56, 24, 72, 24, 1}};

struct StemLayer {
  int size = 224;
  int c_in = 3;
  int c_out = 32;
  int stride = 2;
};
inline constexpr StemLayer kMobileNetV2Stem{};

/// A pointwise or fully connected (side 1) layer.
struct PointwiseLayer {
  int side;  ///< of the square picture
  int k;     ///< input channels
  int n;     ///< output channels
  bool residual = false;
  bool relu6 = false;

  friend bool operator==(const PointwiseLayer&, const PointwiseLayer&) = default;
};
inline constexpr PointwiseLayer kMobileNetV2Head{7, 320, 1280, false, true};
inline constexpr PointwiseLayer kMobileNetV2Classifier{1, 1280, 1000};

struct DepthwiseLayer {
  int size;  ///< input height and width
  int channels;
  int stride;
  int window = 3;

  friend bool operator==(const DepthwiseLayer&, const DepthwiseLayer&) = default;
};

/// The 5x5 windows of MobileNetV3-Large and EfficientNet-B0.
inline constexpr DepthwiseLayer kDepthwise5x5[] = {
    {56, 72, 2, 5},  {28, 120, 1, 5}, {14, 672, 2, 5}, {7, 960, 1, 5},  {56, 144, 2, 5},
    {28, 240, 1, 5}, {14, 480, 1, 5}, {14, 672, 1, 5}, {7, 1152, 1, 5},
};

/// The squeeze-and-excite blocks of MobileNetV3-Large and EfficientNet-B0.
struct GateLayer {
  int pixels, channels, squeezed;
};
inline constexpr GateLayer kGates[] = {
    {784, 72, 24},  {784, 120, 32}, {196, 480, 120}, {196, 672, 168}, {49, 672, 168}, {49, 960, 240},
    {12544, 32, 8}, {3136, 96, 4},  {3136, 144, 6},  {784, 144, 6},   {784, 240, 10}, {196, 240, 10},
    {196, 480, 20}, {196, 672, 28}, {49, 672, 28},   {49, 1152, 48},
};
/// Of MobileNetV3-Small.
inline constexpr GateLayer kMobileNetV3SmallGates[] = {
    {3136, 16, 8}, {196, 96, 24}, {196, 240, 64}, {196, 120, 32}, {196, 144, 40}, {49, 288, 72}, {49, 576, 144},
};

/// Such a block and the pointwise convolution behind it, its projection. Of MobileNetV3-Large and EfficientNet-B0.
struct GatedLayer {
  int pixels, channels, squeezed, out;
};
inline constexpr GatedLayer kGatedProjections[] = {
    {784, 72, 24, 40},   {784, 120, 32, 40},  {196, 480, 120, 112}, {196, 672, 168, 112}, {49, 672, 168, 160},
    {49, 960, 240, 160}, {12544, 32, 8, 16},  {3136, 96, 4, 24},    {3136, 144, 6, 24},   {784, 144, 6, 40},
    {784, 240, 10, 40},  {196, 240, 10, 80},  {196, 480, 20, 80},   {196, 480, 20, 112},  {196, 672, 28, 112},
    {49, 672, 28, 192},  {49, 1152, 48, 192}, {49, 1152, 48, 320},
};
/// Of MobileNetV3-Small.
inline constexpr GatedLayer kMobileNetV3SmallGatedProjections[] = {
    {3136, 16, 8, 16},  {196, 96, 24, 40}, {196, 240, 64, 40}, {196, 120, 32, 48},
    {196, 144, 40, 48}, {49, 288, 72, 96}, {49, 576, 144, 96},
};

/// The first two layers of a block that expands.
struct ExpandLayer {
  int size;  ///< input height and width
  int c_in;
  int c;
  int stride;

  friend bool operator==(const ExpandLayer&, const ExpandLayer&) = default;
};

template <class Layer>
void add_once(std::vector<Layer>& layers, const Layer& layer) {
  if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
}

inline std::vector<PointwiseLayer> mobilenet_v2_pointwise() {
  std::vector<PointwiseLayer> layers;
  for (const InvertedResidualLayer& block : kMobileNetV2Blocks) {
    if (block.expands()) add_once(layers, {block.size, block.c_in, block.c_hidden, false, true});
    add_once(layers, {block.out_size(), block.c_hidden, block.c_out, block.has_residual(), false});
  }
  layers.insert(layers.end(), {kMobileNetV2Head, kMobileNetV2Classifier});
  return layers;
}

inline std::vector<DepthwiseLayer> mobilenet_v2_depthwise() {
  std::vector<DepthwiseLayer> layers;
  for (const InvertedResidualLayer& block : kMobileNetV2Blocks) {
    add_once(layers, {block.size, block.c_hidden, block.stride});
  }
  return layers;
}

inline std::vector<ExpandLayer> mobilenet_v2_expand() {
  std::vector<ExpandLayer> layers;
  for (const InvertedResidualLayer& block : kMobileNetV2Blocks) {
    if (block.expands()) add_once(layers, {block.size, block.c_in, block.c_hidden, block.stride});
  }
  return layers;
}

}  // namespace mobicuda::test
