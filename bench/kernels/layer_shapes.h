#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/graph.h>

namespace mobicuda::bench {

enum class LayerActivation : std::uint8_t { None, Relu, Relu6, Clip, Sigmoid, Silu, HardSwish, Tanh, LeakyRelu, Elu };

struct Window {
  int size = 1, stride = 1, dilation = 1;
  int pad_before = 0, pad_after = 0;

  friend auto operator<=>(const Window&, const Window&) = default;
};

/// What a layer computes for one picture, without its place in a network: all that its time depends on.
struct LayerShape {
  std::string_view kind;  ///< LayerKind::name()
  int h = 1, w = 1, c_in = 1;
  int out_h = 1, out_w = 1, c_out = 1;
  Window vertical, horizontal;
  int groups = 1;
  int hidden = 0;  ///< channels between the first and the last, where it is several layers
  bool expand = false;
  bool bias = false;
  bool residual = false;
  bool first = false;                                  ///< reads the network's input
  bool last = false;                                   ///< writes the network's output
  LayerActivation activation = LayerActivation::None;  ///< of several layers, that of one: their finder says which

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

class Network;

/// What kinds of layers differ in.
struct LayerTraits {
  std::string_view name;  ///< with which the names of their benchmarks begin: "gemm", "multiply/gate"
  /// The layer that a node makes, with nodes around it, if it is one of the kind.
  std::optional<LayerShape> (*find)(const Network&, const Node&) = nullptr;
  bool products = false;                               ///< most of the arithmetic is that of matrix products
  bool window = false;                                 ///< their names tell it
  bool bias = false;                                   ///< their names tell where there is none
  std::string (*size)(const LayerShape&) = nullptr;    ///< as their names tell it; null: extents, then channels
  std::int64_t (*flops)(const LayerShape&) = nullptr;  ///< flops_of(); null: hardly any
};

/// The layers of networks that one kernel runs: an object in <kernel>_bench.cpp puts them on a list before main()
/// starts.
class LayerKind {
 public:
  explicit LayerKind(const LayerTraits& traits);

  std::string_view name() const { return traits_.name; }
  const LayerTraits& traits() const { return traits_; }
  std::optional<LayerShape> find(const Network& network, const Node& node) const;

  /// All kinds, by name.
  static std::vector<const LayerKind*> all();
  /// Throws std::logic_error where there is none of that name.
  static const LayerKind& named(std::string_view name);

 private:
  static std::vector<const LayerKind*>& list();

  LayerTraits traits_;
};

/// The layers of all kinds of a network as the file has them, after optimize(), in its order: fused ones beside the
/// layers that they are made of, these beside sums and activations as steps of their own.
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
