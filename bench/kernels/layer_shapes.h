#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda::bench {

enum class LayerKind : std::uint8_t {
  Gemm,           ///< pointwise convolution or fully connected layer
  DepthwiseConv,  ///< groups of one channel
  Conv2d,         ///< any other convolution
  Block,          ///< [pointwise,] depthwise 3x3, pointwise
  Stem,           ///< first convolution, depthwise 3x3, pointwise
  Head,           ///< pointwise convolution, global average pool
  SqueezeExcite,  ///< mean, two products, gate
  MaxPool,
  AveragePool,
  GlobalAveragePool,
  Add,
  Multiply,  ///< of equal values
  Gate,      ///< a factor for each channel of a picture
  ScaleShift,
  Unary,
  LocalResponseNorm,
  Softmax,
};

enum class LayerActivation : std::uint8_t { None, Relu, Relu6, Clip, Sigmoid, Silu, HardSwish, Tanh, LeakyRelu, Elu };

struct Window {
  int size = 1, stride = 1, dilation = 1;
  int pad_before = 0, pad_after = 0;

  friend auto operator<=>(const Window&, const Window&) = default;
};

/// What a layer computes for one picture, without its place in a network: all that its time depends on.
struct LayerShape {
  LayerKind kind = LayerKind::Gemm;
  int h = 1, w = 1, c_in = 1;
  int out_h = 1, out_w = 1, c_out = 1;
  Window vertical, horizontal;
  int groups = 1;
  int hidden = 0;  ///< channels between the first and the last layer of Block, Stem and SqueezeExcite
  bool expand = false;
  bool bias = false;
  bool residual = false;
  bool first = false;  ///< reads the network's input
  bool last = false;   ///< writes the network's output
  LayerActivation activation =
      LayerActivation::None;  ///< the last layer's of Block and Stem, the first's of SqueezeExcite

  friend auto operator<=>(const LayerShape&, const LayerShape&) = default;
};

struct LayerUse {
  std::string network;
  int count = 0;
};

/// A shape, and how often it occurs in which networks.
struct Layer {
  LayerShape shape;
  std::vector<LayerUse> uses;
};

/// What kinds of layers differ in.
struct LayerTraits {
  const char* kernel;                                  ///< what runs them: "gemm", "multiply/gate"
  bool products = false;                               ///< most of the arithmetic is that of matrix products
  bool window = false;                                 ///< their names tell it
  bool bias = false;                                   ///< their names tell where there is none
  std::int64_t (*flops)(const LayerShape&) = nullptr;  ///< flops_of(); null: hardly any
};
LayerTraits traits_of(LayerKind kind);

/// All layers of a network as the file has them, after optimize(), in its order: fused ones beside the layers that they
/// are made of, these beside sums and activations as steps of their own.
std::vector<LayerShape> layers_of(const Graph& graph);

/// Adds `count` uses of a shape by a network.
void add_use(std::vector<Layer>& layers, const LayerShape& shape, const std::string& network, int count);

/// "56x56x24"
std::string extents(int h, int w, int c);

/// Unlike for unlike shapes of a kind: "m49_n320_k960", "56x56x64_to64_k3_s1_p1_relu".
std::string to_string(const LayerShape& shape);

/// "mobilenet_v1*5 resnet50*2"
std::string to_string(const std::vector<LayerUse>& uses);

/// Multiply-adds of one picture, counted as two; 0 where there are hardly any.
std::int64_t flops_of(const LayerShape& shape);

}  // namespace mobicuda::bench
