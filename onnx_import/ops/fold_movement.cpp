// Operators that move the elements of constants without computing: each is a list of source positions.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "../initializer.h"
#include "ops.h"
#include "shape_math.h"

namespace mobicuda::onnx_import {
namespace {

// The elements of `source` at `positions`, as a tensor of the shape. They have been counted.
ConstantPtr take(const Constant& source, const Shape& shape, const std::vector<std::size_t>& positions) {
  if (source.is_float()) {
    auto result = std::make_shared<HostTensor>(DType::F32, shape);
    const std::span<float> out = result->data<float>();
    const std::span<const float> in = source.floats();
    for (std::size_t i = 0; i < positions.size(); ++i) out[i] = in[positions[i]];
    return std::make_shared<const Constant>(std::shared_ptr<const HostTensor>(std::move(result)));
  }
  std::vector<DimValue> values;
  for (const std::size_t position : positions) values.push_back(source.integers()[position]);
  return make_integers(shape, std::move(values));
}

// The same elements in another shape.
ConstantPtr reshaped(NodeImporter& node, const Shape& shape) {
  const ConstantPtr constant = node.constant(0);
  const Constant& source = *constant;
  node.count_elements(source.elements(), !source.is_float());
  if (!source.is_float()) return make_integers(shape, source.integers());
  const auto floats = std::make_shared<const HostTensor>(HostTensor::of<float>(shape, source.floats()));
  if (source.quantized() == nullptr) return std::make_shared<const Constant>(floats);
  node.count_elements(source.elements(), false);  // of its integers, at most
  return std::make_shared<const Constant>(floats, in_shape(*source.quantized(), shape));
}

// Walks an output shape in row-major order; along each axis, one step moves `strides[axis]` in the source.
std::vector<std::size_t> strided_positions(const Shape& shape, std::int64_t first,
                                           const std::vector<std::int64_t>& strides) {
  std::vector<std::size_t> positions;
  if (shape.elements() == 0) return positions;
  std::vector<std::int64_t> index(shape.rank(), 0);
  std::int64_t position = first;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    positions.push_back(static_cast<std::size_t>(position));
    for (std::size_t axis = shape.rank(); axis-- > 0;) {
      position += strides[axis];
      if (++index[axis] < shape[axis]) break;
      position -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return positions;
}

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank(), 1);
  for (std::size_t axis = shape.rank(); axis > 1; --axis) strides[axis - 2] = strides[axis - 1] * shape[axis - 1];
  return strides;
}

// Ranges are clamped as ONNX says.
void fold_slice(NodeImporter& node, const SliceRanges& ranges) {
  const auto& [starts, ends, axes, steps] = ranges;
  const ConstantPtr source = node.constant(0);
  const Shape& shape = source->shape();
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  std::vector<std::int64_t> strides = row_major_strides(shape);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = normalize_axis(node, axes[i], shape.rank());
    const std::int64_t extent = shape[axis];
    const std::int64_t step = steps[i];
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) {
      throw node.error(ErrorCode::invalid_model, "a step must not be " + std::to_string(step));
    }
    const auto clamp = [&](std::int64_t position) {
      if (position < 0) position += extent;
      return step > 0 ? std::clamp<std::int64_t>(position, 0, extent)
                      : std::clamp<std::int64_t>(position, -1, extent - 1);
    };
    const std::int64_t start = step > 0 ? clamp(starts[i]) : std::max<std::int64_t>(clamp(starts[i]), 0);
    const std::int64_t end = clamp(ends[i]);
    const std::int64_t distance = step > 0 ? end - start : start - end;
    const std::int64_t magnitude = step > 0 ? step : -step;
    dims[axis] = distance > 0 && extent > 0 ? (distance - 1) / magnitude + 1 : 0;
    first += start * strides[axis];
    strides[axis] *= dims[axis] > 1 ? step : 0;  // a single step may be huge
  }
  const Shape result{std::span<const std::int64_t>(dims)};
  node.count_elements(result.elements(), !source->is_float());
  node.set_output(take(*source, result, strided_positions(result, first, strides)));
}

}  // namespace

void fold_identity(NodeImporter& node) { node.set_output(node.constant(0)); }

void fold_reshape(NodeImporter& node) { node.set_output(reshaped(node, constant_shape(node, reshape_target(node)))); }

void fold_flatten(NodeImporter& node) { node.set_output(reshaped(node, constant_shape(node, flatten_target(node)))); }

void fold_squeeze(NodeImporter& node) { node.set_output(reshaped(node, constant_shape(node, squeeze_target(node)))); }

void fold_unsqueeze(NodeImporter& node) {
  node.set_output(reshaped(node, constant_shape(node, unsqueeze_target(node))));
}

void fold_transpose(NodeImporter& node) {
  const ConstantPtr source = node.constant(0);
  const std::vector<std::int64_t> strides = row_major_strides(source->shape());
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> permuted;
  for (const std::int64_t axis : transpose_permutation(node)) {
    dims.push_back(source->shape()[static_cast<std::size_t>(axis)]);
    permuted.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  const Shape result{std::span<const std::int64_t>(dims)};
  node.count_elements(result.elements(), !source->is_float());
  const std::vector<std::size_t> positions = strided_positions(result, 0, permuted);
  const ConstantPtr transposed = take(*source, result, positions);
  if (source->quantized() == nullptr) return node.set_output(transposed);
  node.count_elements(result.elements(), false);  // of its integers, at most
  const std::vector<std::int64_t> permutation = transpose_permutation(node);
  const auto axis = std::ranges::find(permutation, static_cast<std::int64_t>(source->quantized()->axis));
  node.set_output(std::make_shared<const Constant>(
      transposed->tensor(),
      moved(*source->quantized(), result, static_cast<std::size_t>(axis - permutation.begin()), positions)));
}

void fold_slice_attributes(NodeImporter& node) {
  fold_slice(node, slice_attributes(node, node.constant(0)->shape().rank()));
}

void fold_slice_inputs(NodeImporter& node) { fold_slice(node, slice_inputs(node, node.constant(0)->shape().rank())); }

void fold_concat(NodeImporter& node) {
  const ConstantPtr first = node.constant(0);
  const Shape& shape = first->shape();
  if (!node.has_attribute("axis")) throw node.invalid_attribute("axis", "is missing");
  const std::size_t axis = normalize_axis(node, node.attribute("axis", 0), shape.rank());
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
  Dims dims;
  for (const std::int64_t dim : shape.dims()) dims.push_back({dim, false});
  dims[axis].value = 0;
  for (std::size_t position = 0; position < node.inputs(); ++position) {
    const ConstantPtr part = node.constant(position);
    const Shape& other = part->shape();
    bool fits = other.rank() == shape.rank() && part->is_float() == first->is_float();
    for (std::size_t i = 0; fits && i < shape.rank(); ++i) fits = i == axis || other[i] == shape[i];
    if (!fits) {
      throw node.invalid_input(position, "of shape " + to_string(other) + " cannot be joined to " + to_string(shape) +
                                             " along axis " + std::to_string(axis));
    }
    dims[axis] = add(node, dims[axis], {other[axis], false});
  }
  const Shape result = constant_shape(node, dims);
  node.count_elements(result.elements(), !first->is_float());
  std::vector<float> floats;
  std::vector<DimValue> integers;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::size_t position = 0; position < node.inputs(); ++position) {
      const ConstantPtr part = node.constant(position);
      const std::int64_t count = part->elements() / outer;
      for (std::int64_t i = o * count; i < (o + 1) * count; ++i) {
        if (part->is_float()) {
          floats.push_back(part->floats()[static_cast<std::size_t>(i)]);
        } else {
          integers.push_back(part->integers()[static_cast<std::size_t>(i)]);
        }
      }
    }
  }
  node.set_output(first->is_float() ? make_floats(result, floats) : make_integers(result, std::move(integers)));
}

void fold_gather(NodeImporter& node) {
  const ConstantPtr source = node.constant(0);
  const ConstantPtr indices = node.constant(1);
  if (indices->is_float()) throw node.invalid_input(1, "must be an integer tensor, is floating-point");
  const Shape& shape = source->shape();
  const std::size_t axis = normalize_axis(node, node.attribute("axis", 0), shape.rank());
  const std::int64_t extent = shape[axis];

  Dims dims;
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < axis; ++i) dims.push_back({shape[i], false});
  for (const std::int64_t dim : indices->shape().dims()) dims.push_back({dim, false});
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) dims.push_back({shape[i], false});
  for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (std::size_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const Shape result = constant_shape(node, dims);
  node.count_generated(result.elements(), !source->is_float());
  std::vector<std::size_t> positions;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const DimValue& index : indices->integers()) {
      if (index.times_batch || index.value < -extent || index.value >= extent) {
        throw node.invalid_input(1, "an index must be " + std::to_string(-extent) + " to " +
                                        std::to_string(extent - 1) + ", got " + to_string(index));
      }
      const std::int64_t row = index.value < 0 ? index.value + extent : index.value;
      for (std::int64_t i = 0; i < inner; ++i) {
        positions.push_back(static_cast<std::size_t>((o * extent + row) * inner + i));
      }
    }
  }
  node.set_output(take(*source, result, positions));
}

void fold_expand(NodeImporter& node) {
  const ConstantPtr source = node.constant(0);
  Dims target = node.dims(1);
  const std::size_t rank = std::max(target.size(), source->shape().rank());
  target.insert(target.begin(), rank - target.size(), DimValue{1, false});
  std::vector<std::int64_t> strides(rank, 0);
  const std::vector<std::int64_t> source_strides = row_major_strides(source->shape());
  const std::size_t shift = rank - source_strides.size();
  for (std::size_t axis = shift; axis < rank; ++axis) {
    const std::int64_t extent = source->shape()[axis - shift];
    if (extent == 1) continue;
    // Right for the batches of that extent only.
    if (target[axis] == kBatch && node.state().fixed_batch.value_or(extent) == extent) {
      throw constant_of_batch(node, target);
    }
    if (target[axis] != DimValue{1, false} && target[axis] != DimValue{extent, false}) {
      throw node.invalid_input(1, to_string(target) + " does not fit the shape " + to_string(source->shape()));
    }
    target[axis] = {extent, false};
    strides[axis] = source_strides[axis - shift];
  }
  // What is repeated for each image of the batch is the same for each: one of it stands for all.
  if (!target.empty() && target.front() == kBatch && strides.front() == 0 && source->is_float()) {
    target.front() = {1, false};
  }
  const Shape result = constant_shape(node, target);
  node.count_generated(result.elements(), !source->is_float());
  node.set_output(take(*source, result, strided_positions(result, 0, strides)));
}

}  // namespace mobicuda::onnx_import
