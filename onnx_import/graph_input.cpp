#include "graph_input.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <mobicuda/error.h>

#include "initializer.h"
#include "text.h"

namespace mobicuda::onnx_import {
namespace {

constexpr const char* kSetShape = "set ImportOptions::picture_shape";

// The extents of the input as the file has them; 0 where it leaves one open.
std::vector<std::int64_t> declared_dims(const schema::ValueInfoProto& input, const std::string& where) {
  std::vector<std::int64_t> dims;
  const auto& shape = input.type().tensor_type().shape();
  if (shape.dim_size() > static_cast<int>(Shape::kMaxRank)) {
    throw Error(ErrorCode::unsupported, where,
                "rank must be <= " + std::to_string(Shape::kMaxRank) + ", got " + std::to_string(shape.dim_size()));
  }
  for (const auto& dim : shape.dim()) dims.push_back(std::max<std::int64_t>(dim.dim_value(), 0));
  return dims;
}

void bind_picture_shape(std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& picture,
                        const std::string& where) {
  if (picture.empty()) return;
  if (picture.size() != dims.size() - 1) {
    throw Error(ErrorCode::invalid_argument, where,
                "picture_shape " + to_string(picture) + " must have " + std::to_string(dims.size() - 1) + " extents",
                kSetShape);
  }
  for (std::size_t axis = 1; axis < dims.size(); ++axis) {
    const std::int64_t wanted = picture[axis - 1];
    if (wanted <= 0 || (dims[axis] != 0 && dims[axis] != wanted)) {
      throw Error(ErrorCode::invalid_argument, where,
                  "picture_shape " + to_string(picture) + " does not fit the file, whose axes 1 and up are " +
                      to_string(std::span(dims).subspan(1)) + " (0: open)",
                  kSetShape);
    }
    dims[axis] = wanted;
  }
}

void set_input(const schema::ValueInfoProto& input, ImportState& state) {
  const std::string where = "input " + in_quotes(input.name());
  if (!input.type().has_tensor_type()) {
    throw Error(ErrorCode::unsupported, where, "must be a tensor (sequences, maps and optionals are not supported)");
  }
  const std::int32_t type = input.type().tensor_type().elem_type();
  if (!is_float_type(type)) {
    throw Error(ErrorCode::unsupported, where, "must be FLOAT, is " + data_type_name(type),
                type == schema::TensorProto::UINT8
                    ? "export the network from its floating-point input on; pixels in bytes are normalised by the "
                      "engine: EngineOptions::picture_input (bench_engine: --input uint8)"
                    : "");
  }
  if (type != schema::TensorProto::FLOAT) {
    state.log(LogLevel::Info, where + " is " + data_type_name(type) + " in the file, float32 in the graph");
  }
  std::vector<std::int64_t> dims = declared_dims(input, where);
  const bool has_shape = input.type().tensor_type().has_shape();
  if (!has_shape) dims.assign(state.options.picture_shape.size() + 1, 0);
  if (dims.size() < 2) {
    throw Error(ErrorCode::unsupported, where,
                "must have a batch axis and others, has rank " + std::to_string(dims.size()),
                has_shape ? "" : kSetShape);
  }
  bind_picture_shape(dims, state.options.picture_shape, where);
  std::int64_t elements = 1;
  for (std::size_t axis = 1; axis < dims.size(); ++axis) {
    if (dims[axis] == 0) {
      const std::string symbol = input.type().tensor_type().shape().dim(static_cast<int>(axis)).dim_param();
      throw Error(ErrorCode::invalid_argument, where,
                  "leaves the extent of axis " + std::to_string(axis) + " open" +
                      (symbol.empty() ? std::string() : " (" + in_quotes(symbol) + ")"),
                  kSetShape);
    }
    if (__builtin_mul_overflow(elements, dims[axis], &elements) ||
        elements > state.options.limits.elements_per_tensor) {
      throw Error(ErrorCode::unsupported, where,
                  "a picture of " + to_string(std::span(dims).subspan(1)) + " is too large, the limit is " +
                      std::to_string(state.options.limits.elements_per_tensor) + " elements");
    }
  }
  state.input_rank = dims.size();
  if (dims[0] > 0) state.fixed_batch = dims[0];
  dims[0] = 1;
  const TensorDesc desc{DType::F32, Shape(std::span<const std::int64_t>(dims)), Layout::NCHW};
  state.values.emplace(input.name(), state.builder.set_input(printable(input.name()), desc));
}

}  // namespace

void read_input(const schema::GraphProto& graph, ImportState& state) {
  const schema::ValueInfoProto* found = nullptr;
  std::unordered_set<std::string_view> names;
  for (const auto& input : graph.input()) {
    if (!names.insert(input.name()).second) throw invalid("input " + in_quotes(input.name()), "exists twice");
    if (state.values.contains(input.name())) continue;
    if (input.name().empty()) throw invalid("input", "has no name");
    if (found != nullptr) {
      throw Error(ErrorCode::unsupported, "graph",
                  "must have one input, has " + in_quotes(found->name()) + " and " + in_quotes(input.name()),
                  "weights must be initializers");
    }
    found = &input;
  }
  if (found == nullptr) throw Error(ErrorCode::unsupported, "graph", "has no input: the network computes nothing");
  set_input(*found, state);
}

}  // namespace mobicuda::onnx_import
