#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include <mobicuda/graph.h>
#include <mobicuda/onnx_import.h>

#include "constant.h"
#include "external_data.h"
#include "schema.h"

namespace mobicuda::onnx_import {

/// A SplitToSequence: parts of an activation along an axis, each of which is cut out where a SequenceAt asks for it.
struct Sequence {
  ValueId source = kNoValue;
  std::size_t axis = 0;
  std::int64_t part = 0;              ///< extent of every part but maybe the last; 0: `extents` has them
  std::vector<std::int64_t> extents;  ///< of each part
  bool removes_axis = false;          ///< whether parts lack the axis, which has an extent of 1
};

/// An activation that an Expand repeats: not written out, as Mul repeats its operands itself.
struct Expanded {
  ValueId source = kNoValue;
  Shape shape;
};

/// An activation that a Transpose gave its batch another place, as attention does to part queries, keys and values: the
/// axes of `source` but the first are the value's, in order, and the batch is at `batch`.
struct MovedBatch {
  ValueId source = kNoValue;
  std::size_t batch = 0;

  /// The source's axis that an axis of the value is.
  std::size_t axis_of(std::size_t axis) const { return axis == batch ? 0 : axis < batch ? axis + 1 : axis; }
};

/// A step on the way of (x - mean) / sqrt(variance + epsilon), as exporters write normalisations out: see
/// ops/moments.h.
struct Moment {
  enum class Step : std::uint8_t { Deviation, Squared, Variance, Root, Inverse } step = Step::Deviation;
  ValueId x = kNoValue;
  std::vector<bool> axes;  ///< over which the mean is taken
  float epsilon = 0.0F;    ///< added to the variance so far
};

/// What a value name of the file stands for: an initializer not yet decoded, a constant, a value of the graph, or
/// something that only certain operators read.
using NamedValue =
    std::variant<const schema::TensorProto*, ConstantPtr, IntegersPtr, ValueId, Sequence, Expanded, Moment, MovedBatch>;

/// A MatMul that was imported as a Gemm without bias; an Add behind it may give it one.
struct MatMul {
  std::vector<ValueId> inputs;
  Origin origin;
};

/// What is known half-way through an import.
struct ImportState {
  ImportState(const ImportOptions& import_options, const ExternalData& external_data, std::string graph_name,
              std::int64_t file_bytes)
      : options(import_options), external(external_data), read_bytes(file_bytes), builder(std::move(graph_name)) {}

  const ImportOptions& options;
  const ExternalData& external;
  std::int64_t read_bytes;          ///< of the file, and of its initializers in others
  std::int64_t constant_bytes = 0;  ///< in memory
  std::int64_t written_bytes = 0;   ///< the same, with what has been let go
  std::int64_t opset = 0;
  std::int64_t microsoft_opset = 0;         ///< of kMicrosoftDomain; 0: not imported
  std::size_t input_rank = 0;               ///< of the network's input
  std::optional<std::int64_t> fixed_batch;  ///< the batch that the file insists on; nothing when it is dynamic
  GraphBuilder builder;
  std::unordered_map<std::string, NamedValue> values;
  std::unordered_map<std::string, std::int64_t> uses;          ///< how many node inputs and graph outputs read a name
  std::unordered_map<std::string, std::int64_t> readers_left;  ///< those of them that are still to come
  std::unordered_map<std::string, std::int64_t> bytes_of;      ///< what a constant was counted with, by name
  std::unordered_map<const HostTensor*, ValueId> graph_constants;
  std::unordered_map<ValueId, MatMul> matmuls;    ///< by output
  std::unordered_map<ValueId, Moment> means;      ///< by output; of x over the axes, which stay with an extent of 1
  std::unordered_map<ValueId, ValueId> images;    ///< of values whose channels come last, see ops/channels_last.h
  std::unordered_map<ValueId, ValueId> reshaped;  ///< what a Reshape of the file was made of
  std::int64_t generated_elements = 0;            ///< of constants made out of nothing, see ImportLimits

  void log(LogLevel level, const std::string& message) const {
    if (options.log) options.log(level, message);
  }
  /// Tells that a node has read the value: a constant that nobody reads any more is let go.
  void read_once(const std::string& name);
};

/// One node of the file on its way into the graph: typed access to its inputs and attributes, with errors that
/// name the node.
class NodeImporter {
 public:
  NodeImporter(ImportState& state, const schema::NodeProto& node, std::int64_t index);

  const ImportState& state() const noexcept { return state_; }
  const Origin& origin() const noexcept { return origin_; }
  std::string_view op_type() const noexcept { return node_.op_type(); }
  std::string_view domain() const noexcept;  ///< empty: ONNX's own
  std::int64_t opset() const noexcept;       ///< of its domain
  const schema::NodeProto& proto() const noexcept { return node_; }

  // ---- inputs; an absent optional input is one that is missing or has the empty name
  std::size_t inputs() const noexcept { return static_cast<std::size_t>(node_.input_size()); }
  bool has_input(std::size_t position) const;
  bool is_constant(std::size_t position) const;
  bool all_inputs_constant() const;
  ValueId activation(std::size_t position) const;                  ///< refuses constants
  const Sequence& sequence(std::size_t position) const;            ///< refuses all else
  const Expanded* expanded(std::size_t position) const;            ///< null for all else
  const Moment* moment(std::size_t position) const;                ///< null for all else
  MovedBatch with_batch(std::size_t position) const;               ///< an activation, wherever its batch stands
  const Shape& shape(std::size_t position) const;                  ///< of an activation, with N = 1
  ConstantPtr constant(std::size_t position) const;                ///< refuses activations
  ConstantPtr floats(std::size_t position) const;                  ///< refuses activations and integers
  IntegersPtr bytes(std::size_t position) const;                   ///< of type INT8 or UINT8; refuses all else
  bool is_of_bytes(std::size_t position) const;                    ///< a constant of type INT8 or UINT8
  std::vector<DimValue> dims(std::size_t position) const;          ///< a list of integers, maybe times the batch
  std::vector<std::int64_t> integers(std::size_t position) const;  ///< a list of integers
  std::int64_t integer(std::size_t position) const;                ///< a single one
  float scalar(std::size_t position) const;                        ///< a single floating-point number
  float number(std::size_t position) const;                        ///< a single number of either kind
  bool flag(std::size_t position, bool fallback) const;            ///< a single boolean; fallback when absent

  // ---- attributes
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t attribute(std::string_view name, std::int64_t fallback) const;
  bool flag_attribute(std::string_view name, bool fallback) const;  ///< 0 or 1
  float float_attribute(std::string_view name, float fallback) const;
  std::string string_attribute(std::string_view name, const std::string& fallback) const;
  std::optional<std::vector<std::int64_t>> ints_attribute(std::string_view name) const;
  std::vector<float> floats_attribute(std::string_view name) const;  ///< empty when absent
  const schema::AttributeProto* find(std::string_view name) const;

  // ---- outputs
  bool output_is_used(std::size_t position) const;
  ValueId add(Op op, std::vector<ValueId> inputs) { return add(std::move(op), std::move(inputs), origin_); }
  ValueId add(Op op, std::vector<ValueId> inputs, Origin origin);
  ValueId add_constant(const std::string& name, std::shared_ptr<const HostTensor> tensor,
                       std::shared_ptr<const QuantizedConstant> quantized = nullptr);
  ValueId add_constant(const std::string& name, const Shape& shape, std::span<const float> values);
  ValueId add_input_constant(std::size_t position);  ///< an input's floats as a value of the graph
  void set_output(ValueId value) { set_output(0, value); }
  void set_output(std::size_t position, ValueId value);
  bool output_is_set(std::size_t position) const;
  void set_output(ConstantPtr constant);
  void set_output(IntegersPtr integers);
  void set_output(Sequence sequence);
  void set_output(const Expanded& expanded);
  void set_output(Moment moment);
  void set_output(std::size_t position, const MovedBatch& value);
  const Shape& shape_of(ValueId value) const { return desc_of(value).shape; }
  const TensorDesc& desc_of(ValueId value) const { return state_.builder.value(value).desc; }
  /// Counts elements of a constant about to be made that no bytes of the file stand for, and refuses too many.
  void count_generated(std::int64_t elements, bool integers, const std::string& hint = {});
  /// Counts elements of a constant about to be made out of those of others, and refuses too many.
  void count_elements(std::int64_t elements, bool integers);
  /// Counts bytes that a constant is about to take in memory, and refuses too many.
  void count_memory(std::int64_t bytes);
  /// Counts bytes that are about to be read for a constant, and refuses too many.
  void count_work(std::int64_t bytes) const;
  /// count_generated() for a scale and a shift of each channel: a node may ask for them by a scalar, or share its
  /// operands with thousands of others.
  void count_scale_and_shift(std::int64_t channels);
  void remember_matmul(ValueId output, std::vector<ValueId> inputs);
  void remember_mean(ValueId output, Moment mean) { state_.means[output] = std::move(mean); }
  void remember_image(ValueId value, ValueId image) { state_.images[value] = image; }
  void remember_reshape(ValueId output, ValueId source) { state_.reshaped[output] = source; }
  /// What a value was before the file reshaped it; kNoValue where it did not.
  ValueId before_reshape(ValueId value) const;
  /// The MatMul whose output this input is, if nothing else reads it.
  const MatMul* matmul_before(std::size_t position) const;

  // ---- errors
  Error error(ErrorCode code, const std::string& message, const std::string& hint = {}) const;
  Error invalid_attribute(std::string_view name, const std::string& message) const;
  Error unsupported_attribute(std::string_view name, const std::string& message, const std::string& hint = {}) const;
  Error invalid_input(std::size_t position, const std::string& message, const std::string& hint = {}) const;
  Error unsupported_input(std::size_t position, const std::string& message, const std::string& hint = {}) const;

 private:
  const NamedValue& value(std::size_t position) const;
  ConstantPtr as_dim_values(std::size_t position, const HostTensor& integers) const;
  void take_memory(std::int64_t bytes) const;
  const schema::AttributeProto* find(std::string_view name, schema::AttributeProto::AttributeType type) const;
  void check_entries(std::string_view name, int entries) const;
  std::string input_place(std::size_t position) const;
  std::string attribute_place(std::string_view name) const;

  ImportState& state_;
  const schema::NodeProto& node_;
  Origin origin_;
  std::int64_t counted_bytes_ = 0;  ///< by count_memory()
};

/// What the elements of a validated tensor take once they are decoded.
std::int64_t memory_of(const schema::TensorProto& tensor);

/// An axis counted from the end when negative, as one counted from the front. `what` is for the error.
std::size_t normalize_axis(const NodeImporter& node, std::int64_t axis, std::size_t rank);
/// The same for a list, which must be free of duplicates; sorted.
std::vector<std::size_t> normalize_axes(const NodeImporter& node, std::span<const std::int64_t> axes, std::size_t rank);

std::string to_string(std::span<const std::int64_t> values);  ///< "[1,2]"

}  // namespace mobicuda::onnx_import
