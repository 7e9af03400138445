#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <mobicuda/export.h>
#include <mobicuda/tensor.h>
#include <mobicuda/types.h>

namespace mobicuda {

/// Index of a value in its Graph.
using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;  ///< an absent optional input

// ---- operations -------------------------------------------------------------------------------
// Shapes are logical (N, C, H, W) and *per image*: N is 1 in a graph, and every operation treats
// the images of a batch independently, so that an engine may run any batch. Inputs are positional;
// each struct names its positions, and in kConstants those that must be constants, so that engines can pack them. An
// input that may be kNoValue is marked optional. Activations and constants are F32 unless it says otherwise; what only
// moves elements, or picks some of them (kMovesElements), takes activations of type I8 and U8 too, whose quantisation
// the result has.

/// y = act(conv(x, w) + bias + residual). Weight (O, I / groups, kh, kw), bias (O), residual like y.
/// kh and kw are at most kMaxWindow. Depthwise is groups == I == O; pointwise is a 1x1 kernel with stride 1 and no
/// padding.
struct Conv2d {
  static constexpr std::string_view kName = "Conv2d";
  enum : std::size_t { kInput, kWeight, kBias /*optional*/, kResidual /*optional*/, kInputs };
  static constexpr std::size_t kConstants[] = {kWeight, kBias};
  std::array<std::int64_t, 2> strides{1, 1};    ///< (vertical, horizontal), 1 to kMaxWindow
  std::array<std::int64_t, 2> dilations{1, 1};  ///< (vertical, horizontal), 1 to kMaxWindow
  Padding pads;                                 ///< zeros, each 0 to kMaxWindow
  std::int64_t groups = 1;                      ///< > 0, divides I and O
  Activation activation;
};

/// y = act(x * w^T + bias). x (N, I), weight (O, I), bias (O).
struct Gemm {
  static constexpr std::string_view kName = "Gemm";
  enum : std::size_t { kInput, kWeight, kBias /*optional*/, kInputs };
  static constexpr std::size_t kConstants[] = {kWeight, kBias};
  Activation activation;
};

/// y = act(scale[c] * x + shift[c]); BatchNormalization at inference, or Mul / Add by a constant.
/// x of rank >= 2 with C on axis 1; scale and shift (C).
struct ScaleShift {
  static constexpr std::string_view kName = "ScaleShift";
  enum : std::size_t { kInput, kScale, kShift, kInputs };
  static constexpr std::size_t kConstants[] = {kScale, kShift};
  Activation activation;
};

/// y = act(a + b), equal shapes.
struct Add {
  static constexpr std::string_view kName = "Add";
  enum : std::size_t { kLeft, kRight, kInputs };
  Activation activation;
};

/// y = act(a * b). Equal ranks; along each axis b has a's extent or 1, in which case it repeats.
struct Mul {
  static constexpr std::string_view kName = "Mul";
  enum : std::size_t { kLeft, kRight, kInputs };
  Activation activation;
};

enum class ExtremumKind : std::uint8_t { Max, Min };

/// y = act(max(a, b)) or act(min(a, b)). Shapes as in Mul. A NaN in either is the result; of zeros of both signs it is
/// b's.
struct Extremum {
  static constexpr std::string_view kName = "Extremum";
  enum : std::size_t { kLeft, kRight, kInputs };
  ExtremumKind kind = ExtremumKind::Max;
  Activation activation;
};

enum class UnaryKind : std::uint8_t {
  Sigmoid,
  HardSwish,
  Tanh,
  LeakyRelu,
  Elu,
  Silu,
  Erf,
  Gelu,
  GeluTanh,
  Softplus,
  Sqrt,
  Reciprocal,
  Exp
};

/// The Activation of the same name, or one of those that no other operation applies to its result: Erf;
/// Gelu: x / 2 * (1 + erf(x / sqrt 2)); GeluTanh, near to it: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)));
/// Softplus: log(1 + exp(x)); Sqrt; Reciprocal: 1 / x; Exp. NaN propagates.
struct Unary {
  static constexpr std::string_view kName = "Unary";
  enum : std::size_t { kInput, kInputs };
  UnaryKind kind = UnaryKind::Sigmoid;
  float alpha = 0.0F;  ///< finite
};

/// The same as what an operation applies to its result; nothing where none applies it.
MOBICUDA_API std::optional<Activation> activation_of(const Unary& op) noexcept;

/// y = clip(x).
struct Clip {
  static constexpr std::string_view kName = "Clip";
  enum : std::size_t { kInput, kInputs };
  Activation activation;  ///< of ActivationKind::Clip
};

enum class PoolKind : std::uint8_t { Max, Average };

/// Window over H and W; an average is of F32 only, see QuantizedAveragePool. Average divides by the window's size
/// without padding, unless count_include_pad. Output extents follow ONNX, ceil_mode included.
struct Pool2d {
  static constexpr std::string_view kName = "Pool2d";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kInput, kInputs };
  PoolKind kind = PoolKind::Max;
  std::array<std::int64_t, 2> kernel{1, 1};   ///< 1 to kMaxWindow
  std::array<std::int64_t, 2> strides{1, 1};  ///< 1 to kMaxWindow
  Padding pads;                               ///< each 0 to kMaxWindow
  bool ceil_mode = false;
  bool count_include_pad = false;
  std::array<std::int64_t, 2> dilations{1, 1};  ///< 1 to kMaxWindow
};

/// Mean over H and W: (N, C, H, W) -> (N, C, 1, 1).
struct GlobalAveragePool {
  static constexpr std::string_view kName = "GlobalAveragePool";
  enum : std::size_t { kInput, kInputs };
};

/// y[c] = x[c] / (bias + alpha / size * sum of x[k]^2)^beta over the `size` channels k around c: size - 1 others, the
/// odd one behind c, those outside 0..C left out. x (N, C, H, W).
struct LocalResponseNorm {
  static constexpr std::string_view kName = "LocalResponseNorm";
  enum : std::size_t { kInput, kInputs };
  std::int64_t size = 1;  ///< 1 to kMaxWindow
  float alpha = 1e-4F;    ///< >= 0
  float beta = 0.75F;     ///< >= 0
  float bias = 1.0F;      ///< > 0
};

enum class NormalizedOver : std::uint8_t { Channels, Groups };

/// y = (x - mean) / sqrt(variance + epsilon), where mean and variance (of all elements, not of a sample) are taken over
/// the channels of each pixel (LayerNormalization), or over all pixels of each of `groups` equal parts of the channels
/// (GroupNormalization; one for each channel: InstanceNormalization). x (N, C, H, W). Scale and shift are a ScaleShift.
struct Normalize {
  static constexpr std::string_view kName = "Normalize";
  enum : std::size_t { kInput, kInputs };
  NormalizedOver over = NormalizedOver::Channels;
  std::int64_t groups = 1;  ///< > 0, divides C; 1 over Channels
  float epsilon = 1e-5F;    ///< > 0
};

/// exp(x - max) / sum over axis 1, for rank >= 2: over the channels of each pixel.
struct Softmax {
  static constexpr std::string_view kName = "Softmax";
  enum : std::size_t { kInput, kInputs };
};

/// x - max - log(sum of exp(x - max)) over axis 1, for rank >= 2: the logarithm of Softmax, finite where that is too
/// small for its type.
struct LogSoftmax {
  static constexpr std::string_view kName = "LogSoftmax";
  enum : std::size_t { kInput, kInputs };
};

/// The same elements in another shape with the same N; the order is that of the NCHW layout.
struct Reshape {
  static constexpr std::string_view kName = "Reshape";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kInput, kInputs };
  Shape shape;  ///< the output's, with N = 1
};

/// One or more values of equal rank, type and quantisation, joined along an axis; the other extents are equal.
struct Concat {
  static constexpr std::string_view kName = "Concat";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kFirst, kInputs };
  static constexpr bool kMoreInputs =
      true;               ///< kInputs is the least: every further position is an input like the first
  std::int64_t axis = 1;  ///< > 0: images are not joined
};

/// The elements first to first + extent along an axis.
struct Slice {
  static constexpr std::string_view kName = "Slice";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kInput, kInputs };
  std::int64_t axis = 1;    ///< > 0
  std::int64_t first = 0;   ///< >= 0
  std::int64_t extent = 1;  ///< > 0; first + extent <= the input's
};

/// Permutes the axes of a value; axis 0 stays.
struct Transpose {
  static constexpr std::string_view kName = "Transpose";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kInput, kInputs };
  std::vector<std::int64_t> permutation;
};

enum class PadMode : std::uint8_t { Constant, Edge, Reflect };

/// Surrounds H and W: with `value`, with the border's pixels, or with the image mirrored at its border's pixels. Of
/// quantised images `value` is a whole number of their type: their zero point stands for 0.
struct Pad {
  static constexpr std::string_view kName = "Pad";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kInput, kInputs };
  Padding pads;  ///< each 0 to kMaxWindow; Reflect: less than the extent
  float value = 0.0F;
  PadMode mode = PadMode::Constant;
};

enum class ResizeMode : std::uint8_t { Nearest, Linear };
enum class ResizeCoordinates : std::uint8_t { HalfPixel, Asymmetric, AlignCorners };
enum class NearestPixel : std::uint8_t { RoundDown, RoundUp, Floor, Ceil };

/// An image of another height and width. Row i of the output, of `out` rows, lies in the input, of `in` rows, at
/// (i + 1/2) in / out - 1/2 (HalfPixel), i in / out (Asymmetric) or i (in - 1) / (out - 1) (AlignCorners; 0 where out
/// is 1); columns alike. Linear: between the two rows and columns around it by distance. Nearest: the row that
/// NearestPixel says, where RoundDown and RoundUp are about halves. What lies outside is the border's. No antialiasing.
/// Linear is of F32 only.
struct Resize {
  static constexpr std::string_view kName = "Resize";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kInput, kInputs };
  std::array<std::int64_t, 2> extents{1, 1};  ///< (height, width) of the output, 1 to kMaxWindow, as the input's
  ResizeMode mode = ResizeMode::Nearest;
  ResizeCoordinates coordinates = ResizeCoordinates::HalfPixel;
  NearestPixel nearest = NearestPixel::RoundDown;  ///< of Nearest
};

/// Where a row or column of a Resize's output lies in its input: (factor * i + offset) / divisor, exactly.
struct ResizeAxis {
  std::int64_t factor = 1;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;  ///< > 0, even
};

/// axis 0: rows, of an input with `extent` of them; axis 1: columns. Where the mode is Nearest, the position's floor is
/// the pixel.
MOBICUDA_API ResizeAxis resize_axis(const Resize& op, std::size_t axis, std::int64_t extent) noexcept;

/// y = a * b, as many products of matrices as there are in front of the last two axes: a (N, ..., M, K),
/// b (N, ..., K, P), y (N, ..., M, P), of rank 3 or more.
struct BatchedMatMul {
  static constexpr std::string_view kName = "BatchedMatMul";
  enum : std::size_t { kLeft, kRight, kInputs };
};

/// Changes the memory order of a 4-D value; the logical shape stays. Inserted by choose_layout.
struct LayoutTransform {
  static constexpr std::string_view kName = "LayoutTransform";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kInput, kInputs };
  Layout to = Layout::NHWC;
};

/// y = x. Removed by a pass; importers make it for Identity, Dropout and no-op casts.
struct Identity {
  static constexpr std::string_view kName = "Identity";
  static constexpr bool kMovesElements = true;
  enum : std::size_t { kInput, kInputs };
};

// ---- operations on integers that stand for real numbers ---------------------------------------
// Activations are I8 or U8, each with the one Quantization of its TensorDesc; x0 is x's zero point, sx its scale, and
// so on. All arithmetic beside the exact sums of integers is IEEE float32, one rounding an operation and none
// contracted, at every precision of an engine, so that all engines give the same bits. rint rounds halves to even.
// docs/int8.md has the whole definition.

/// What a quantised operation makes: integers of type I8 or U8, clamped to `range`; or F32, real numbers, where it can.
struct QuantizedResult {
  DType dtype = DType::I8;
  Quantization quantization;      ///< of I8 and U8; elsewhere as it is by default
  IntegerRange range{-128, 127};  ///< of I8 and U8: within the type, low <= high; elsewhere as it is by default

  /// The type's whole range.
  static constexpr QuantizedResult of(DType dtype, const Quantization& quantization) noexcept {
    return {dtype, quantization, range_of(dtype)};
  }
  static constexpr QuantizedResult real() noexcept { return {DType::F32, {}, {-128, 127}}; }
  friend bool operator==(const QuantizedResult&, const QuantizedResult&) = default;
};

/// y = clamp(rint(x / sy) + y0). x F32, rounded to float32 where an engine has more bits; NaN becomes the range's
/// lowest number.
struct Quantize {
  static constexpr std::string_view kName = "Quantize";
  enum : std::size_t { kInput, kInputs };
  QuantizedResult result;  ///< I8 or U8
};

/// y = sx * (x - x0), F32.
struct Dequantize {
  static constexpr std::string_view kName = "Dequantize";
  enum : std::size_t { kInput, kInputs };
};

/// y = clamp(rint((x - x0) * m) + y0) with m = sx / sy: another scale, zero point or type, or a clamp of integers.
struct Requantize {
  static constexpr std::string_view kName = "Requantize";
  enum : std::size_t { kInput, kInputs };
  QuantizedResult result;  ///< I8 or U8
};

/// sum = conv(x - x0, w - w0) + bias, exact: a sum that might leave int32 is refused. y = clamp(rint(sum * m[o]) + y0)
/// with m[o] = (sx * sw[o]) / sy, finite; of F32, y = sum * (sx * sw[o]). Padding is x0. Weight (O, I / groups, kh, kw)
/// of I8 or U8, its scales (O) of F32, finite and > 0, its zero points (O) and bias (O) of I32; else as Conv2d.
struct QuantizedConv2d {
  static constexpr std::string_view kName = "QuantizedConv2d";
  enum : std::size_t { kInput, kWeight, kWeightScale, kWeightZeroPoint /*optional: 0*/, kBias /*optional*/, kInputs };
  static constexpr std::size_t kConstants[] = {kWeight, kWeightScale, kWeightZeroPoint, kBias};
  std::array<std::int64_t, 2> strides{1, 1};    ///< (vertical, horizontal), 1 to kMaxWindow
  std::array<std::int64_t, 2> dilations{1, 1};  ///< (vertical, horizontal), 1 to kMaxWindow
  Padding pads;                                 ///< each 0 to kMaxWindow
  std::int64_t groups = 1;                      ///< > 0, divides I and O
  QuantizedResult result;
};

/// The same of x (N, I) and weight (O, I): sum = (x - x0) * (w - w0)^T + bias.
struct QuantizedGemm {
  static constexpr std::string_view kName = "QuantizedGemm";
  enum : std::size_t { kInput, kWeight, kWeightScale, kWeightZeroPoint /*optional: 0*/, kBias /*optional*/, kInputs };
  static constexpr std::size_t kConstants[] = {kWeight, kWeightScale, kWeightZeroPoint, kBias};
  QuantizedResult result;
};

/// y = clamp(rint(fa * (a - a0) + fb * (b - b0)) + y0) with fa = sa / sy, fb = sb / sy; equal shapes.
struct QuantizedAdd {
  static constexpr std::string_view kName = "QuantizedAdd";
  enum : std::size_t { kLeft, kRight, kInputs };
  QuantizedResult result;  ///< I8 or U8
};

/// y = clamp(rint(sum * m) + y0) of the sum of x - x0 over a window, with m = sx / (sy * count); `count` is what the
/// Pool2d divides by. 0 pixels: y0.
struct QuantizedAveragePool {
  static constexpr std::string_view kName = "QuantizedAveragePool";
  enum : std::size_t { kInput, kInputs };
  Pool2d window;           ///< of PoolKind::Average
  QuantizedResult result;  ///< I8 or U8
};

using Op = std::variant<Conv2d, Gemm, ScaleShift, Add, Mul, Unary, Clip, Pool2d, GlobalAveragePool, LocalResponseNorm,
                        Softmax, Concat, Slice, Reshape, Transpose, Pad, LayoutTransform, Identity, Normalize, Resize,
                        BatchedMatMul, Quantize, Dequantize, Requantize, QuantizedConv2d, QuantizedGemm, QuantizedAdd,
                        QuantizedAveragePool, LogSoftmax, Extremum>;

MOBICUDA_API std::string_view op_name(const Op& op) noexcept;  ///< "Conv2d"; Unary and Extremum have their kind's name

/// A node of the model file, for messages and profiles.
struct SourceNode {
  std::int64_t index = -1;  ///< position in the file, -1 when made by a pass
  std::string name;         ///< may be empty: ONNX nodes need no name
  std::string op_type;      ///< e.g. "Conv"
};

/// The file's nodes that a graph node stands for: one after import, several after fusion.
struct Origin {
  std::vector<SourceNode> nodes;

  /// "features.3+features.4"; an unnamed node reads "Conv#17".
  MOBICUDA_API std::string label() const;
  /// "node #17 'features.3' (Conv)"; for several, the first, then "and 2 more".
  MOBICUDA_API std::string describe() const;
  MOBICUDA_API void append(const Origin& other);
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;  ///< one for each position of the op, kNoValue where absent
  ValueId output = kNoValue;
  Origin origin;
};

/// The integers that an F32 constant was made of: its elements are scale * (integer - zero point), with one scale and
/// zero point for all, or one for each index of an axis.
struct QuantizedConstant {
  HostTensor integers;                    ///< I8, U8 or I32, in the constant's shape
  std::vector<float> scales;              ///< finite, > 0
  std::vector<std::int32_t> zero_points;  ///< as many as scales, numbers of the type; 0 for I32
  std::size_t axis = 0;                   ///< of more scales than one
};

/// A tensor in the graph: an input, a constant, or a node's output.
struct Value {
  std::string name;
  TensorDesc desc;
  std::shared_ptr<const HostTensor> constant;          ///< null for activations
  std::shared_ptr<const QuantizedConstant> quantized;  ///< of a constant that was made of integers; else null
};

/// An immutable, verified network in topological order with one input and one output.
///
/// Made by GraphBuilder only, so that a Graph in hand is known to be consistent: shapes and types
/// follow from the ops, every value is produced before it is used, every divisor is positive.
/// Copies share the constants. Safe to read from several threads.
class MOBICUDA_API Graph {
 public:
  const std::string& name() const noexcept { return name_; }
  std::span<const Node> nodes() const noexcept { return nodes_; }
  std::span<const Value> values() const noexcept { return values_; }
  const Value& value(ValueId id) const;
  ValueId input() const noexcept { return input_; }
  ValueId output() const noexcept { return output_; }
  const TensorDesc& input_desc() const { return value(input_).desc; }
  const TensorDesc& output_desc() const { return value(output_).desc; }
  /// Positions in nodes() that read the value, in order; empty for what is no value. Valid as long as the graph.
  std::span<const std::size_t> consumers(ValueId id) const;
  /// Position in nodes() that writes the value; nothing for inputs and constants.
  std::optional<std::size_t> producer(ValueId id) const;

 private:
  friend class GraphBuilder;
  Graph() = default;
  void index_consumers();

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<std::int32_t> producer_;
  std::vector<std::size_t> first_consumer_;  ///< of each value, in consumers_; and the end of the last one's
  std::vector<std::size_t> consumers_;
  ValueId input_ = kNoValue;
  ValueId output_ = kNoValue;
};

/// The only way to make a Graph. Not thread-safe.
class MOBICUDA_API GraphBuilder {
 public:
  explicit GraphBuilder(std::string graph_name);

  /// The network's input: F32, N = 1. Call once.
  ValueId set_input(std::string name, TensorDesc desc);
  /// An F32 constant, or one of I8, U8 or I32 where an operation takes those.
  ValueId add_constant(std::string name, HostTensor tensor);
  /// `quantized`: the integers that an F32 constant was made of. Throws Error(invalid_model) where its scales, zero
  /// points, axis or shape do not fit.
  ValueId add_constant(std::string name, std::shared_ptr<const HostTensor> tensor,
                       std::shared_ptr<const QuantizedConstant> quantized = nullptr);
  /// Appends a node; infers and returns its output. Throws Error(invalid_model) that names the origin
  /// and the attribute when the op does not fit its inputs.
  ValueId add_node(Op op, std::vector<ValueId> inputs, Origin origin, std::string output_name);
  const Value& value(ValueId id) const;
  /// Renames a value, so that a rewrite keeps the file's names.
  void rename(ValueId id, std::string name);

  /// Ends the building: drops nodes and constants that the output does not need, and verifies. The output is F32.
  Graph build(ValueId output) &&;

 private:
  Graph graph_;
};

/// Type and shape of the op's output. Throws Error(invalid_model) with the attribute's name and value.
/// `inputs` has one entry for each position, null where absent.
MOBICUDA_API TensorDesc infer_output(const Op& op, std::span<const TensorDesc* const> inputs);

/// One line a node, with shapes and attributes.
MOBICUDA_API std::string print(const Graph& graph);

/// Multiply-adds (counted as two operations each) of a node for one image; 0 for data movement.
MOBICUDA_API std::int64_t flops_per_picture(const Graph& graph, const Node& node);

// ---- passes -----------------------------------------------------------------------------------

/// A rewriting step: Graph -> Graph with the same input, output and meaning.
struct Pass {
  std::string_view name;
  Graph (*run)(const Graph&);
};

/// The passes every engine runs, in order: remove_noops, fold_pad, recognise_activation, fold_scale_shift,
/// fuse_activation, use_integers, fuse_residual, choose_layout.
MOBICUDA_API std::span<const Pass> standard_passes();

/// Runs standard_passes().
MOBICUDA_API Graph optimize(const Graph& graph);

}  // namespace mobicuda
