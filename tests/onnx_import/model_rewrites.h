#pragma once

// Turns a model written by models/zoo into what other exporters write for the same network. Every function keeps
// the function computed, up to the roundings its comment names.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <mobicuda_onnx.pb.h>

namespace mobicuda::test {

using Model = onnx_schema::ModelProto;

// ---- activations ------------------------------------------------------------------------------

enum class ClipForm : std::uint8_t {
  ConstantNodes,   ///< bounds from two Constant nodes for each Clip
  ConstantFloats,  ///< the same with the attribute value_float (opset 12)
  Vectors,         ///< bounds of shape (1)
  MaxMin,          ///< Min(Max(x, 0), 6)
  MinMax,          ///< Max(Min(x, 6), 0)
  ReluMin,         ///< Min(Relu(x), 6)
  ReluClip,        ///< Relu, then Clip with an upper bound only; the lower is "" from opset 11
  ClipRelu,        ///< Clip with an upper bound only, then Relu
  CastBounds,      ///< bounds of type double through Cast nodes
};
void write_clips(Model& model, ClipForm form);

// ---- padding ----------------------------------------------------------------------------------

/// Pads become auto_pad. The model must have TensorFlow's padding.
void write_auto_pad(Model& model);
/// Padding of strided convolutions becomes a Pad node, as attribute, input or input with axes by opset. With
/// `depthwise_only` the stem keeps its pads.
void write_pad_nodes(Model& model, bool depthwise_only);
/// The same, but the pads are computed by nodes from the picture's shape: timm's dynamic SAME. Opset 11 to 17.
void write_computed_pads(Model& model);

// ---- batch normalization and biases -----------------------------------------------------------

/// Conv biases become Add nodes by a constant of shape (1, C, 1, 1), or (C, 1, 1) when not `rank4`.
void write_bias_adds(Model& model, bool rank4);
/// BatchNormalization becomes Mul and Add; rounds scale and shift once.
void write_batchnorm_as_mul_add(Model& model);
/// Says explicitly what is the default: spatial = 1 (opset 7, 8), training_mode = 0 (opset 14).
void write_batchnorm_defaults(Model& model);

// ---- the head ---------------------------------------------------------------------------------

enum class PoolForm : std::uint8_t {
  Global,            ///< GlobalAveragePool, Flatten
  Mean,              ///< ReduceMean without kept dimensions
  MeanKept,          ///< ReduceMean with kept dimensions, Flatten
  MeanNegative,      ///< ReduceMean over (-1, -2)
  MeanNhwc,          ///< Transpose to NHWC, ReduceMean over (1, 2)
  Window,            ///< AveragePool with a window as large as the map
  Squeeze,           ///< GlobalAveragePool, Squeeze
  ReshapeZero,       ///< GlobalAveragePool, Reshape to (0, -1)
  ReshapeChannels,   ///< to (-1, C)
  ReshapeAllowZero,  ///< to (-1, C) with allowzero = 1 (opset 14)
  Dynamo,            ///< ReduceMean over (-1, -2) with kept dimensions, Reshape to (-1, C) with allowzero = 1
  ReshapeFixed,      ///< to (1, C); needs a batch of 1 in the file
  ReshapeSlice,      ///< to Concat(Slice(Shape), (-1)), through casts to int32 and back
};
enum class ClassifierForm : std::uint8_t {
  Gemm,             ///< transB = 1
  GemmPlain,        ///< weights (I, O), alpha, beta, transA and transB written out
  MatMul,           ///< weights (I, O), MatMul, Add
  MatMulTranspose,  ///< MatMul with a Transpose of the weights, Add with the bias first
  Conv,             ///< 1x1 convolution on (N, C, 1, 1), then Flatten; goes with PoolForm::Global
  ConvMap,          ///< the same without Flatten: the output is (N, classes, 1, 1)
};
void write_head(Model& model, PoolForm pool, ClassifierForm classifier);

enum class DropoutForm : std::uint8_t {
  Node,  ///< Dropout with the ratio as attribute, or as input from opset 12
  Identity,
  Halve,     ///< Mul by 0.5, twice the classifier's weights: exact
  NoopCast,  ///< Cast to the type that it has
};
/// Puts something that does nothing in front of the classifier.
void write_dropout(Model& model, DropoutForm form);

/// Ends with a Softmax node: axis = 1, the default axis, or axis = -1.
enum class SoftmaxAxis : std::uint8_t { One, Default, MinusOne };
void write_softmax(Model& model, SoftmaxAxis axis);

// ---- the file ---------------------------------------------------------------------------------

/// The input becomes (N, H, W, 3), followed by a Transpose.
void write_nhwc_entry(Model& model);
/// Every initializer becomes a Constant node.
void write_constants_as_nodes(Model& model);
/// Every initializer of at least two elements is read through an Identity node, as shared weights are.
void write_identity_constants(Model& model);
/// IR version 3: initializers are inputs too.
void write_initializers_as_inputs(Model& model);
/// Payloads in float_data and int64_data instead of raw_data.
void write_typed_data(Model& model);
/// No node names, values named by numbers.
void write_anonymous(Model& model);
/// The default domain spelt "ai.onnx", and domains imported that no node uses.
void write_domains(Model& model);
/// Height and width of input become symbols.
void write_dynamic_picture(Model& model);
/// Payloads of at least `least_bytes` move to the file `data_name` in the folder.
void write_external_data(Model& model, const std::filesystem::path& folder, const std::string& data_name,
                         std::size_t least_bytes);

/// Rounds every float constant to half precision, still stored as float: what the fp16 forms compare with.
void round_to_half(Model& model);
enum class HalfForm : std::uint8_t {
  WeightCasts,   ///< FLOAT16 initializers with a Cast to float behind each
  InnerCasts,    ///< float input and output, Cast nodes inside them, all else FLOAT16
  Everything,    ///< FLOAT16 input and output too
  Int32Payload,  ///< Everything, bits in int32_data
};
/// Stores the constants as FLOAT16; exact after round_to_half().
void write_half(Model& model, HalfForm form);

// ---- what must be refused ---------------------------------------------------------------------

/// BatchNormalization as exported without eval() (opset 14 and newer).
void write_training_mode(Model& model);
/// A QuantizeLinear and DequantizeLinear pair in front of every convolution.
void write_quantized_activations(Model& model);

}  // namespace mobicuda::test
