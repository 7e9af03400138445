#pragma once

#include <cstdint>
#include <vector>

#include "../node_importer.h"

namespace mobicuda::onnx_import {

using Dims = std::vector<DimValue>;

/// Extents of an input: of an activation, the first is the batch, whatever the file says about it.
Dims dims_of(const NodeImporter& node, std::size_t position);

/// Extents without the batch symbol, as a Shape; throws Error when the importer may not make such a tensor.
Shape constant_shape(const NodeImporter& node, const Dims& dims);

/// The Error for a constant whose extents depend on the batch.
Error constant_of_batch(const NodeImporter& node, const Dims& dims);

/// The Error for a result that has not the batch, and nothing else, as axis 0.
Error batch_not_kept(const NodeImporter& node, const Dims& to);

/// The target of a Reshape (inputs data, shape; attribute allowzero), with 0 and -1 resolved.
Dims reshape_target(const NodeImporter& node);
/// Of a Flatten (attribute axis), Squeeze or Unsqueeze (axes: attribute before opset 13, then input).
Dims flatten_target(const NodeImporter& node);
Dims squeeze_target(const NodeImporter& node);
Dims unsqueeze_target(const NodeImporter& node);
/// The permutation of a Transpose (attribute perm), which reverses the axes when it is absent.
std::vector<std::int64_t> transpose_permutation(const NodeImporter& node);
/// The ranges of a Slice, equally long lists; inputs data, starts, ends, axes, steps, or attributes before opset 10.
struct SliceRanges {
  std::vector<std::int64_t> starts, ends, axes, steps;
};
SliceRanges slice_attributes(const NodeImporter& node, std::size_t rank);
SliceRanges slice_inputs(const NodeImporter& node, std::size_t rank);
/// What a Shape node yields (attributes start, end).
Dims shape_result(const NodeImporter& node);

/// Exact arithmetic; throws Error on overflow, and where the result is not of DimValue's form.
DimValue add(const NodeImporter& node, const DimValue& a, const DimValue& b);
DimValue subtract(const NodeImporter& node, const DimValue& a, const DimValue& b);
DimValue multiply(const NodeImporter& node, const DimValue& a, const DimValue& b);
DimValue divide(const NodeImporter& node, const DimValue& a, const DimValue& b);  ///< towards zero, as ONNX does
DimValue minimum(const NodeImporter& node, const DimValue& a, const DimValue& b);
DimValue maximum(const NodeImporter& node, const DimValue& a, const DimValue& b);

std::string to_string(const Dims& dims);  ///< "[N,1280]"

}  // namespace mobicuda::onnx_import
