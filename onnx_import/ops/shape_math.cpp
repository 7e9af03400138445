#include "shape_math.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include <mobicuda/error.h>

namespace mobicuda::onnx_import {
namespace {

Error batch_error(const NodeImporter& node, char op, const DimValue& a, const DimValue& b) {
  return node.error(ErrorCode::unsupported, "shape arithmetic " + to_string(a) + " " + op + " " + to_string(b) +
                                                " depends on the batch size N in a way that is not supported");
}

Error overflow_error(const NodeImporter& node, char op, const DimValue& a, const DimValue& b) {
  return node.error(ErrorCode::invalid_model,
                    "shape arithmetic " + to_string(a) + " " + op + " " + to_string(b) + " overflows");
}

std::optional<std::vector<std::int64_t>> read_axes(const NodeImporter& node) {
  if (node.state().opset < 13) return node.ints_attribute("axes");
  if (node.has_input(1)) return node.integers(1);
  return std::nullopt;
}

DimValue product(const NodeImporter& node, const Dims& dims) {
  DimValue result{1, false};
  for (const DimValue& dim : dims) result = multiply(node, result, dim);
  return result;
}

// With the batch that the file fixes in the batch's place.
Dims at_fixed_batch(const NodeImporter& node, Dims dims) {
  for (DimValue& dim : dims) {
    if (dim.times_batch) dim = multiply(node, {dim.value, false}, {*node.state().fixed_batch, false});
  }
  return dims;
}

bool depends_on_batch(const Dims& dims) {
  return std::any_of(dims.begin(), dims.end(), [](const DimValue& dim) { return dim.times_batch; });
}

// A shape that is right for the file's own batch only mixes the pictures of that batch; where the file leaves the batch
// open, a constant may have the elements of some batch.
bool fits_fixed_batch(const NodeImporter& node, const Dims& from, const Dims& to) {
  if (node.is_constant(0) && !depends_on_batch(to)) return false;
  if (!node.state().fixed_batch) return node.is_constant(0);
  Dims known = at_fixed_batch(node, to);
  const auto open = std::find(known.begin(), known.end(), DimValue{-1, false});
  const std::int64_t total = product(node, at_fixed_batch(node, from)).value;
  if (open == known.end()) return product(node, known).value == total;
  *open = {1, false};
  const std::int64_t others = product(node, known).value;
  return others != 0 && total % others == 0;
}

// A constant has no batch to keep.
Error not_for_every_batch(const NodeImporter& node, const Dims& to) {
  return node.is_constant(0) ? constant_of_batch(node, to) : batch_not_kept(node, to);
}

Error reshape_error(const NodeImporter& node, const Dims& from, const Dims& to, const std::string& message) {
  return node.error(ErrorCode::invalid_model,
                    "shape " + to_string(to) + " for an input of shape " + to_string(from) + " " + message);
}

}  // namespace

Error constant_of_batch(const NodeImporter& node, const Dims& dims) {
  return node.error(ErrorCode::unsupported, "a constant of shape " + to_string(dims) + " depends on the batch size");
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (const DimValue& dim : dims) text += (text.size() == 1 ? "" : ",") + to_string(dim);
  return text + "]";
}

DimValue add(const NodeImporter& node, const DimValue& a, const DimValue& b) {
  if (a == DimValue{}) return b;
  if (b == DimValue{}) return a;
  if (a.times_batch != b.times_batch) throw batch_error(node, '+', a, b);
  DimValue sum{0, a.times_batch};
  if (__builtin_add_overflow(a.value, b.value, &sum.value)) throw overflow_error(node, '+', a, b);
  return sum;
}

DimValue subtract(const NodeImporter& node, const DimValue& a, const DimValue& b) {
  if (b == DimValue{}) return a;
  if (a != DimValue{} && a.times_batch != b.times_batch) throw batch_error(node, '-', a, b);
  DimValue difference{0, b.times_batch};
  if (__builtin_sub_overflow(a.value, b.value, &difference.value)) throw overflow_error(node, '-', a, b);
  return difference;
}

DimValue multiply(const NodeImporter& node, const DimValue& a, const DimValue& b) {
  if (a.times_batch && b.times_batch) throw batch_error(node, '*', a, b);
  DimValue result{0, a.times_batch || b.times_batch};
  if (__builtin_mul_overflow(a.value, b.value, &result.value)) throw overflow_error(node, '*', a, b);
  return result;
}

DimValue divide(const NodeImporter& node, const DimValue& a, const DimValue& b) {
  if (b.value == 0) throw node.error(ErrorCode::invalid_model, "shape arithmetic divides " + to_string(a) + " by 0");
  if (a.value == std::numeric_limits<std::int64_t>::min() && b.value == -1) throw overflow_error(node, '/', a, b);
  if (b.times_batch && !a.times_batch && a.value != 0) throw batch_error(node, '/', a, b);
  // N / 2 rounds in a way that depends on N; 6N / 2 does not.
  if (a.times_batch && !b.times_batch && a.value % b.value != 0) throw batch_error(node, '/', a, b);
  return {a.value / b.value, a.times_batch && !b.times_batch};
}

DimValue minimum(const NodeImporter& node, const DimValue& a, const DimValue& b) {
  if (a.times_batch != b.times_batch) throw batch_error(node, '<', a, b);
  return a.value < b.value ? a : b;
}

DimValue maximum(const NodeImporter& node, const DimValue& a, const DimValue& b) {
  if (a.times_batch != b.times_batch) throw batch_error(node, '>', a, b);
  return a.value > b.value ? a : b;
}

Dims dims_of(const NodeImporter& node, std::size_t position) {
  const bool constant = node.is_constant(position);
  const MovedBatch value = constant ? MovedBatch{} : node.with_batch(position);
  const Shape shape = constant ? node.constant(position)->shape() : node.shape_of(value.source);
  Dims dims;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const bool batch = !constant && axis == value.batch;
    dims.push_back(batch ? kBatch : DimValue{shape[constant ? axis : value.axis_of(axis)], false});
  }
  return dims;
}

Shape constant_shape(const NodeImporter& node, const Dims& dims) {
  if (dims.size() > Shape::kMaxRank) {
    throw node.error(ErrorCode::unsupported,
                     "rank must be <= " + std::to_string(Shape::kMaxRank) + ", got " + std::to_string(dims.size()));
  }
  std::vector<std::int64_t> extents;
  for (const DimValue& dim : dims) {
    if (dim.times_batch) {
      throw constant_of_batch(node, dims);
    }
    if (dim.value < 0) {
      throw node.error(ErrorCode::invalid_model, "extents must be >= 0, got " + to_string(dims));
    }
    extents.push_back(dim.value);
  }
  product(node, dims);  // throws on overflow
  return Shape(std::span<const std::int64_t>(extents));
}

namespace {

// Images have four axes: whoever exports three has left out the batch.
bool input_may_lack_batch(const NodeImporter& node) { return node.state().input_rank == 3; }

}  // namespace

Error batch_not_kept(const NodeImporter& node, const Dims& to) {
  return node.error(
      ErrorCode::unsupported,
      "the result " + to_string(to) + " of an input of shape " + to_string(dims_of(node, 0)) +
          " does not keep the batch N as axis 0",
      input_may_lack_batch(node)
          ? "the network's input has rank 3; axis 0 is taken for the batch: export with an input (N, C, H, W)"
          : "export with a dynamic batch, or with one fixed batch throughout");
}

Dims reshape_target(const NodeImporter& node) {
  const Dims from = dims_of(node, 0);
  Dims to = node.dims(1);
  if (to.size() > Shape::kMaxRank) {
    throw node.error(ErrorCode::unsupported,
                     "rank must be <= " + std::to_string(Shape::kMaxRank) + ", got " + std::to_string(to.size()));
  }
  const bool copies_zero = !node.flag_attribute("allowzero", false);
  std::optional<std::size_t> open;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    DimValue& dim = to[axis];
    if (dim == DimValue{0, false} && copies_zero) {
      if (axis >= from.size())
        throw reshape_error(node, from, to, "copies axis " + std::to_string(axis) + ", which is not there");
      dim = from[axis];
    } else if (dim == DimValue{-1, false}) {
      if (open) throw reshape_error(node, from, to, "has more than one -1");
      open = axis;
    } else if (dim.value < 0) {
      throw reshape_error(node, from, to, "has a negative extent");
    }
  }
  // A file with a fixed batch may spell it as a number.
  const bool activation = !node.is_constant(0);
  if (activation && !depends_on_batch(to) && !to.empty() && node.state().fixed_batch == to.front().value)
    to.front() = kBatch;

  const DimValue total = product(node, from);
  if (open) {
    Dims others = to;
    others[*open] = {1, false};
    const DimValue known = product(node, others);
    if (known.value == 0 || total.value % known.value != 0 || (known.times_batch && !total.times_batch)) {
      if (fits_fixed_batch(node, from, to)) throw not_for_every_batch(node, to);
      throw reshape_error(node, from, to, "does not divide its elements");
    }
    to[*open] = {total.value / known.value, total.times_batch && !known.times_batch};
  }
  if (product(node, to) != total) {
    if (fits_fixed_batch(node, from, to)) throw not_for_every_batch(node, to);
    throw reshape_error(node, from, to, "does not hold its elements");
  }
  return to;
}

Dims flatten_target(const NodeImporter& node) {
  const Dims from = dims_of(node, 0);
  const std::int64_t given = node.attribute("axis", 1);
  const auto rank = static_cast<std::int64_t>(from.size());
  if (given < (node.state().opset < 11 ? 0 : -rank) || given > rank) {
    throw node.invalid_attribute("axis", "must be within rank " + std::to_string(rank) + " (opset " +
                                             std::to_string(node.state().opset) + "), got " + std::to_string(given));
  }
  const auto cut = static_cast<std::ptrdiff_t>(given < 0 ? given + rank : given);
  return {product(node, Dims(from.begin(), from.begin() + cut)), product(node, Dims(from.begin() + cut, from.end()))};
}

Dims squeeze_target(const NodeImporter& node) {
  const Dims from = dims_of(node, 0);
  std::vector<bool> removed(from.size(), false);
  if (const auto given = read_axes(node)) {
    for (const std::size_t axis : normalize_axes(node, *given, from.size())) {
      const bool batch_of_one = from[axis] == kBatch && node.state().fixed_batch == 1;
      if (from[axis] != DimValue{1, false} && !batch_of_one) {
        throw node.error(ErrorCode::invalid_model, "axis " + std::to_string(axis) + " of " + to_string(from) +
                                                       " cannot be removed, its extent is not 1");
      }
      removed[axis] = true;
    }
  } else {
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      removed[axis] = from[axis] == DimValue{1, false} || (from[axis] == kBatch && node.state().fixed_batch == 1);
    }
  }
  Dims to;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (!removed[axis]) to.push_back(from[axis]);
  }
  return to;
}

Dims unsqueeze_target(const NodeImporter& node) {
  const Dims from = dims_of(node, 0);
  const auto given = read_axes(node);
  if (!given) throw node.error(ErrorCode::invalid_model, "has no axes");
  if (from.size() + given->size() > Shape::kMaxRank) {
    throw node.error(ErrorCode::unsupported, "rank must be <= " + std::to_string(Shape::kMaxRank) + ", got " +
                                                 std::to_string(from.size() + given->size()));
  }
  Dims to = from;
  for (const std::size_t axis : normalize_axes(node, *given, from.size() + given->size())) {
    to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis), DimValue{1, false});
  }
  return to;
}

std::vector<std::int64_t> transpose_permutation(const NodeImporter& node) {
  const std::size_t rank = dims_of(node, 0).size();
  std::vector<std::int64_t> reversed;
  for (std::size_t axis = rank; axis > 0; --axis) reversed.push_back(static_cast<std::int64_t>(axis) - 1);
  std::vector<std::int64_t> permutation = node.ints_attribute("perm").value_or(reversed);
  std::vector<std::int64_t> sorted = permutation;
  std::sort(sorted.rbegin(), sorted.rend());
  if (sorted != reversed) {
    throw node.invalid_attribute("perm",
                                 "must permute " + std::to_string(rank) + " axes, got " + to_string(permutation));
  }
  return permutation;
}

Dims shape_result(const NodeImporter& node) {
  const Dims dims = dims_of(node, 0);
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto clamp = [&](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t start = clamp(node.attribute("start", 0));
  const std::int64_t end = std::max(start, clamp(node.attribute("end", rank)));
  return {dims.begin() + static_cast<std::ptrdiff_t>(start), dims.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace mobicuda::onnx_import
