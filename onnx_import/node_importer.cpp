#include "node_importer.h"

#include <algorithm>
#include <utility>

#include <mobicuda/error.h>

#include "initializer.h"
#include "op_table.h"
#include "text.h"

namespace mobicuda::onnx_import {

using schema::AttributeProto;

namespace {

// Bytes that all constants may take at once.
std::int64_t memory_allowed(const ImportState& state) {
  return kMemoryWithoutBytes + kMemoryForEachByteRead * state.read_bytes +
         kMemoryForEachByteMade * static_cast<std::int64_t>(sizeof(float)) * state.generated_elements;
}

}  // namespace

std::string to_string(std::span<const std::int64_t> values) {
  std::string text = "[";
  for (const std::int64_t value : values) text += (text.size() == 1 ? "" : ",") + std::to_string(value);
  return text + "]";
}

void ImportState::read_once(const std::string& name) {
  const auto left = readers_left.find(name);
  if (left == readers_left.end() || --left->second > 0) return;
  const auto found = values.find(name);
  if (found == values.end()) return;
  const auto* constant = std::get_if<ConstantPtr>(&found->second);
  const auto* integers = std::get_if<IntegersPtr>(&found->second);
  if (constant == nullptr && integers == nullptr) return;
  // Another name or the graph may have the elements, too.
  const bool goes = constant == nullptr ? integers->use_count() == 1
                                        : constant->use_count() == 1 &&
                                              (!(*constant)->is_float() || (*constant)->tensor().use_count() == 1);
  if (const auto bytes = bytes_of.find(name); goes && bytes != bytes_of.end()) constant_bytes -= bytes->second;
  values.erase(found);
}

NodeImporter::NodeImporter(ImportState& state, const schema::NodeProto& node, std::int64_t index)
    : state_(state), node_(node) {
  origin_.nodes.push_back({index, printable(node.name()), printable(node.op_type())});
}

bool NodeImporter::has_input(std::size_t position) const {
  return position < inputs() && !node_.input(static_cast<int>(position)).empty();
}

std::string_view NodeImporter::domain() const noexcept {
  return node_.domain() == kMicrosoftDomain ? kMicrosoftDomain : std::string_view();
}

std::int64_t NodeImporter::opset() const noexcept { return domain().empty() ? state_.opset : state_.microsoft_opset; }

std::int64_t memory_of(const schema::TensorProto& tensor) {
  std::int64_t bytes = is_byte_type(tensor.data_type())    ? 1
                       : is_float_type(tensor.data_type()) ? static_cast<std::int64_t>(sizeof(float))
                                                           : static_cast<std::int64_t>(sizeof(DimValue));
  for (const std::int64_t extent : tensor.dims()) bytes = checked_multiply(bytes, extent);
  return bytes;
}

const NamedValue& NodeImporter::value(std::size_t position) const {
  if (!has_input(position)) throw invalid_input(position, "is missing");
  const std::string& name = node_.input(static_cast<int>(position));
  NamedValue& named = state_.values.at(name);
  if (const auto* tensor = std::get_if<const schema::TensorProto*>(&named)) {
    take_memory(memory_of(**tensor));
    state_.bytes_of[name] = memory_of(**tensor);
    try {
      if (is_byte_type((**tensor).data_type())) {
        named = decode_bytes(**tensor, state_.external);
      } else {
        named = decode_tensor(**tensor, state_.external, state_.options.log);
      }
    } catch (const Error& error) {
      throw error.inside(input_place(position));
    }
  }
  return named;
}

bool NodeImporter::is_constant(std::size_t position) const {
  const NamedValue& named = state_.values.at(node_.input(static_cast<int>(position)));
  return std::holds_alternative<const schema::TensorProto*>(named) || std::holds_alternative<ConstantPtr>(named) ||
         std::holds_alternative<IntegersPtr>(named);
}

bool NodeImporter::all_inputs_constant() const {
  for (std::size_t position = 0; position < inputs(); ++position) {
    if (has_input(position) && !is_constant(position)) return false;
  }
  return true;
}

ValueId NodeImporter::activation(std::size_t position) const {
  const NamedValue& named = value(position);
  if (const auto* id = std::get_if<ValueId>(&named)) return *id;
  if (std::holds_alternative<Sequence>(named)) {
    throw unsupported_input(position, "is a sequence, of which only SequenceAt is supported");
  }
  if (const auto* expanded = std::get_if<Expanded>(&named)) {
    throw unsupported_input(position, "is an activation of shape " + to_string(shape_of(expanded->source)) +
                                          " that an Expand repeats to " + to_string(expanded->shape) +
                                          ", which only a Mul with an activation of that shape may read");
  }
  if (const auto* moved = std::get_if<MovedBatch>(&named)) {
    throw unsupported_input(position, "has the batch as axis " + std::to_string(moved->batch) +
                                          ", which only Transpose, Slice, Split, Gather and Squeeze may read");
  }
  if (std::holds_alternative<Moment>(named)) {
    throw unsupported_input(position,
                            "is a deviation from a mean or its variance, which is supported on the way of "
                            "(x - mean) / sqrt(variance + epsilon) only");
  }
  throw unsupported_input(position, "is a constant where an activation is meant",
                          "fold constant sub-graphs when exporting (onnxsim does it afterwards)");
}

const Sequence& NodeImporter::sequence(std::size_t position) const {
  if (const auto* found = std::get_if<Sequence>(&value(position))) return *found;
  throw unsupported_input(position, "must be a sequence that a SplitToSequence made");
}

MovedBatch NodeImporter::with_batch(std::size_t position) const {
  const auto* moved = std::get_if<MovedBatch>(&value(position));
  return moved != nullptr ? *moved : MovedBatch{activation(position), 0};
}

ValueId NodeImporter::before_reshape(ValueId value) const {
  const auto found = state_.reshaped.find(value);
  return found == state_.reshaped.end() ? kNoValue : found->second;
}

const Moment* NodeImporter::moment(std::size_t position) const {
  return has_input(position) ? std::get_if<Moment>(&value(position)) : nullptr;
}

const Expanded* NodeImporter::expanded(std::size_t position) const { return std::get_if<Expanded>(&value(position)); }

const Shape& NodeImporter::shape(std::size_t position) const { return shape_of(activation(position)); }

ConstantPtr NodeImporter::constant(std::size_t position) const {
  const NamedValue& named = value(position);
  if (const auto* found = std::get_if<ConstantPtr>(&named)) return *found;
  if (const auto* found = std::get_if<IntegersPtr>(&named)) return as_dim_values(position, **found);
  throw unsupported_input(position, "must be a constant (an initializer)",
                          "weights and parameters that are computed or fed at run time are not supported");
}

ConstantPtr NodeImporter::as_dim_values(std::size_t position, const HostTensor& integers) const {
  if (integers.elements() > kMaxIntegerElements) {
    throw unsupported_input(position,
                            "has " + std::to_string(integers.elements()) + " integer elements, the limit is " +
                                std::to_string(kMaxIntegerElements),
                            "integer weights are read by DequantizeLinear and quantised operators only");
  }
  count_work(integers.elements() * static_cast<std::int64_t>(sizeof(DimValue)));
  std::vector<DimValue> values;
  values.reserve(static_cast<std::size_t>(integers.elements()));
  if (integers.dtype() == DType::U8) {
    for (const std::uint8_t value : integers.data<std::uint8_t>()) values.push_back({value, false});
  } else {
    for (const std::int8_t value : integers.data<std::int8_t>()) values.push_back({std::int64_t{0} + value, false});
  }
  return make_integers(integers.shape(), std::move(values));
}

bool NodeImporter::is_of_bytes(std::size_t position) const {
  return std::holds_alternative<IntegersPtr>(value(position));
}

IntegersPtr NodeImporter::bytes(std::size_t position) const {
  if (const auto* found = std::get_if<IntegersPtr>(&value(position))) return *found;
  if (!is_constant(position)) {
    throw unsupported_input(
        position, "must be a constant (an initializer)",
        "quantise statically: scales and zero points that are computed at run time are not supported");
  }
  throw unsupported_input(position, "must be of type INT8 or UINT8",
                          "16-bit and 4-bit integers and 8-bit floating point are not supported: quantise to 8 bits");
}

ConstantPtr NodeImporter::floats(std::size_t position) const {
  ConstantPtr found = constant(position);
  if (!found->is_float()) throw invalid_input(position, "must be floating-point, is an integer tensor");
  return found;
}

std::vector<DimValue> NodeImporter::dims(std::size_t position) const {
  const ConstantPtr found = constant(position);
  if (found->is_float()) throw invalid_input(position, "must be an integer tensor, is floating-point");
  if (found->shape().rank() > 1) {
    throw invalid_input(position, "must be a list of integers, has shape " + to_string(found->shape()));
  }
  return found->integers();
}

std::vector<std::int64_t> NodeImporter::integers(std::size_t position) const {
  std::vector<std::int64_t> result;
  for (const DimValue& value : dims(position)) {
    if (value.times_batch) throw unsupported_input(position, "depends on the batch size: " + to_string(value));
    result.push_back(value.value);
  }
  return result;
}

std::int64_t NodeImporter::integer(std::size_t position) const {
  const std::vector<std::int64_t> values = integers(position);
  if (values.size() != 1) {
    throw invalid_input(position, "must be one integer, has " + std::to_string(values.size()) + " elements");
  }
  return values.front();
}

float NodeImporter::scalar(std::size_t position) const {
  const ConstantPtr found = floats(position);
  if (found->elements() != 1) {
    throw invalid_input(position, "must be one number, has shape " + to_string(found->shape()));
  }
  return found->floats().front();
}

float NodeImporter::number(std::size_t position) const {
  const ConstantPtr found = constant(position);
  if (found->is_float() || found->elements() != 1) return scalar(position);
  const DimValue& value = found->integers().front();
  if (value.times_batch) throw unsupported_input(position, "depends on the batch size: " + to_string(value));
  return static_cast<float>(value.value);
}

bool NodeImporter::flag(std::size_t position, bool fallback) const {
  return has_input(position) ? integer(position) != 0 : fallback;
}

const AttributeProto* NodeImporter::find(std::string_view name) const {
  for (const AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

const AttributeProto* NodeImporter::find(std::string_view name, AttributeProto::AttributeType type) const {
  const AttributeProto* attribute = find(name);
  if (attribute != nullptr && attribute->type() != type) {
    throw invalid_attribute(name, "must be of type " + AttributeProto::AttributeType_Name(type) + ", is " +
                                      AttributeProto::AttributeType_Name(attribute->type()));
  }
  return attribute;
}

std::int64_t NodeImporter::attribute(std::string_view name, std::int64_t fallback) const {
  const AttributeProto* found = find(name, AttributeProto::INT);
  return found != nullptr ? found->i() : fallback;
}

bool NodeImporter::flag_attribute(std::string_view name, bool fallback) const {
  const std::int64_t number = attribute(name, fallback ? 1 : 0);
  if (number != 0 && number != 1) throw invalid_attribute(name, "must be 0 or 1, got " + std::to_string(number));
  return number == 1;
}

float NodeImporter::float_attribute(std::string_view name, float fallback) const {
  const AttributeProto* found = find(name, AttributeProto::FLOAT);
  return found != nullptr ? found->f() : fallback;
}

std::string NodeImporter::string_attribute(std::string_view name, const std::string& fallback) const {
  const AttributeProto* found = find(name, AttributeProto::STRING);
  return found != nullptr ? found->s() : fallback;
}

void NodeImporter::check_entries(std::string_view name, int entries) const {
  const std::int64_t limit = state_.options.limits.attribute_entries;
  if (entries > limit) {
    throw unsupported_attribute(name,
                                "has " + std::to_string(entries) + " entries, the limit is " + std::to_string(limit));
  }
}

std::optional<std::vector<std::int64_t>> NodeImporter::ints_attribute(std::string_view name) const {
  const AttributeProto* found = find(name, AttributeProto::INTS);
  if (found == nullptr) return std::nullopt;
  check_entries(name, found->ints_size());
  return std::vector<std::int64_t>(found->ints().begin(), found->ints().end());
}

std::vector<float> NodeImporter::floats_attribute(std::string_view name) const {
  const AttributeProto* found = find(name, AttributeProto::FLOATS);
  if (found == nullptr) return {};
  check_entries(name, found->floats_size());
  return {found->floats().begin(), found->floats().end()};
}

bool NodeImporter::output_is_used(std::size_t position) const {
  if (position >= static_cast<std::size_t>(node_.output_size())) return false;
  const std::string& name = node_.output(static_cast<int>(position));
  return !name.empty() && state_.uses.contains(name);
}

ValueId NodeImporter::add(Op op, std::vector<ValueId> inputs, Origin origin) {
  const std::string name = printable(node_.output(0)) + "/" + std::string(op_name(op));
  const ValueId id = state_.builder.add_node(std::move(op), std::move(inputs), std::move(origin), name);
  const std::int64_t elements = shape_of(id).elements();
  if (elements > state_.options.limits.elements_per_tensor) {
    throw error(ErrorCode::unsupported, "the output has " + std::to_string(elements) +
                                            " elements a picture, the limit is " +
                                            std::to_string(state_.options.limits.elements_per_tensor));
  }
  return id;
}

ValueId NodeImporter::add_constant(const std::string& name, std::shared_ptr<const HostTensor> tensor,
                                   std::shared_ptr<const QuantizedConstant> quantized) {
  const auto known = state_.graph_constants.find(tensor.get());
  if (known != state_.graph_constants.end()) return known->second;
  const HostTensor* key = tensor.get();
  const ValueId id = state_.builder.add_constant(printable(name), std::move(tensor), std::move(quantized));
  state_.graph_constants.emplace(key, id);
  return id;
}

ValueId NodeImporter::add_constant(const std::string& name, const Shape& shape, std::span<const float> values) {
  return add_constant(name, std::make_shared<const HostTensor>(HostTensor::of<float>(shape, values)));
}

ValueId NodeImporter::add_input_constant(std::size_t position) {
  const ConstantPtr constant = floats(position);
  return add_constant(node_.input(static_cast<int>(position)), constant->tensor(), constant->quantized());
}

void NodeImporter::set_output(std::size_t position, ValueId value) {
  const std::string& name = node_.output(static_cast<int>(position));
  state_.builder.rename(value, printable(name));
  state_.values.emplace(name, value);
}

bool NodeImporter::output_is_set(std::size_t position) const {
  return state_.values.contains(node_.output(static_cast<int>(position)));
}

void NodeImporter::set_output(ConstantPtr constant) {
  state_.bytes_of[node_.output(0)] = counted_bytes_;
  state_.values.emplace(node_.output(0), std::move(constant));
}

void NodeImporter::set_output(IntegersPtr integers) {
  state_.bytes_of[node_.output(0)] = counted_bytes_;
  state_.values.emplace(node_.output(0), std::move(integers));
}

void NodeImporter::set_output(Sequence sequence) { state_.values.emplace(node_.output(0), std::move(sequence)); }

void NodeImporter::set_output(std::size_t position, const MovedBatch& value) {
  if (value.batch == 0) {
    set_output(position, value.source);
  } else {
    state_.values.emplace(node_.output(static_cast<int>(position)), value);
  }
}

void NodeImporter::set_output(Moment moment) { state_.values.emplace(node_.output(0), std::move(moment)); }

void NodeImporter::set_output(const Expanded& expanded) { state_.values.emplace(node_.output(0), expanded); }

void NodeImporter::count_generated(std::int64_t elements, bool integers, const std::string& hint) {
  const std::int64_t limit = state_.options.limits.generated_elements;
  if (elements > limit - state_.generated_elements) {
    throw error(ErrorCode::unsupported,
                "makes a constant of " + std::to_string(elements) + " elements, where nodes before it made " +
                    std::to_string(state_.generated_elements) + ", the limit of all of them is " +
                    std::to_string(limit),
                (hint.empty() ? hint : hint + "; or ") + "raise ImportLimits::generated_elements");
  }
  state_.generated_elements += elements;
  count_elements(elements, integers);
}

void NodeImporter::count_elements(std::int64_t elements, bool integers) {
  if (integers && elements > kMaxIntegerElements) {
    throw error(ErrorCode::unsupported, "makes a constant of " + std::to_string(elements) + " integers, the limit is " +
                                            std::to_string(kMaxIntegerElements));
  }
  count_memory(checked_multiply(elements, static_cast<std::int64_t>(integers ? sizeof(DimValue) : sizeof(float))));
}

void NodeImporter::count_memory(std::int64_t bytes) {
  take_memory(bytes);
  counted_bytes_ += bytes;
}

void NodeImporter::take_memory(std::int64_t bytes) const {
  const std::int64_t allowed = memory_allowed(state_);
  const std::int64_t limit = std::min(state_.options.limits.memory_bytes, allowed);
  state_.constant_bytes += bytes;
  if (state_.constant_bytes > limit) {
    throw error(ErrorCode::unsupported,
                "constants up to here take " + std::to_string(state_.constant_bytes) +
                    " bytes of memory, the limit is " + std::to_string(limit),
                limit < allowed
                    ? "raise ImportLimits::memory_bytes"
                    : "the model has " + std::to_string(state_.read_bytes) +
                          " bytes; do its nodes share large initializers? Store them as the nodes take them");
  }
  count_work(bytes);
}

void NodeImporter::count_work(std::int64_t bytes) const {
  const std::int64_t limit = kTimesMemoryIsWritten * memory_allowed(state_);
  state_.written_bytes += bytes;
  if (state_.written_bytes <= limit) return;
  throw error(ErrorCode::unsupported,
              "constants up to here took " + std::to_string(state_.written_bytes) + " bytes to compute, the limit is " +
                  std::to_string(limit),
              "fold constant sub-graphs when exporting");
}

void NodeImporter::count_scale_and_shift(std::int64_t channels) {
  count_generated(2 * channels, false,
                  "it has a scale and a shift for each of " + std::to_string(channels) +
                      " channels; put the node before the Flatten or Reshape, where channels are fewer");
}

void NodeImporter::remember_matmul(ValueId output, std::vector<ValueId> inputs) {
  state_.matmuls.emplace(output, MatMul{std::move(inputs), origin_});
}

const MatMul* NodeImporter::matmul_before(std::size_t position) const {
  const auto found = state_.matmuls.find(activation(position));
  const auto uses = state_.uses.find(node_.input(static_cast<int>(position)));
  return found != state_.matmuls.end() && uses != state_.uses.end() && uses->second == 1 ? &found->second : nullptr;
}

std::string NodeImporter::input_place(std::size_t position) const {
  std::string text = origin_.describe() + ", input #" + std::to_string(position);
  if (has_input(position)) text += " " + in_quotes(node_.input(static_cast<int>(position)));
  return text;
}

std::string NodeImporter::attribute_place(std::string_view name) const {
  return origin_.describe() + ", attribute " + in_quotes(name);
}

Error NodeImporter::error(ErrorCode code, const std::string& message, const std::string& hint) const {
  return {code, origin_.describe(), message, hint};
}

Error NodeImporter::invalid_attribute(std::string_view name, const std::string& message) const {
  return {ErrorCode::invalid_model, attribute_place(name), message};
}

Error NodeImporter::unsupported_attribute(std::string_view name, const std::string& message,
                                          const std::string& hint) const {
  return {ErrorCode::unsupported, attribute_place(name), message, hint};
}

Error NodeImporter::invalid_input(std::size_t position, const std::string& message, const std::string& hint) const {
  return {ErrorCode::invalid_model, input_place(position), message, hint};
}

Error NodeImporter::unsupported_input(std::size_t position, const std::string& message, const std::string& hint) const {
  return {ErrorCode::unsupported, input_place(position), message, hint};
}

std::size_t normalize_axis(const NodeImporter& node, std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw node.error(ErrorCode::invalid_model, "axis must be " + std::to_string(-signed_rank) + " to " +
                                                   std::to_string(signed_rank - 1) + ", got " + std::to_string(axis));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::vector<std::size_t> normalize_axes(const NodeImporter& node, std::span<const std::int64_t> axes,
                                        std::size_t rank) {
  if (axes.size() > Shape::kMaxRank) {
    throw node.error(ErrorCode::invalid_model,
                     "has " + std::to_string(axes.size()) + " axes for rank " + std::to_string(rank));
  }
  std::vector<std::size_t> result;
  for (const std::int64_t axis : axes) result.push_back(normalize_axis(node, axis, rank));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) {
    throw node.error(ErrorCode::invalid_model, "axes " + to_string(axes) + " name an axis twice");
  }
  return result;
}

}  // namespace mobicuda::onnx_import
