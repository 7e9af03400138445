#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include <mobicuda/graph.h>

#include "graph/verify.h"

namespace mobicuda {
namespace {

[[noreturn]] void reject(const std::string& attribute, const std::string& message) {
  throw Error(ErrorCode::invalid_model, attribute, message);
}

using Inputs = std::span<const TensorDesc* const>;

const TensorDesc& required(Inputs inputs, std::size_t position, const char* what) {
  if (inputs[position] == nullptr) reject(std::string("input '") + what + "'", "is missing");
  return *inputs[position];
}

const TensorDesc& image(Inputs inputs, std::size_t position) {
  const TensorDesc& desc = required(inputs, position, "x");
  if (desc.shape.rank() != 4) {
    reject("input 'x'", "must have rank 4 (N, C, H, W), got " + to_string(desc.shape));
  }
  if (desc.shape.elements() == 0) reject("input 'x'", "has no elements: " + to_string(desc.shape));
  return desc;
}

void require_shape(const TensorDesc& desc, const char* what, const Shape& expected) {
  if (desc.shape != expected) {
    reject(std::string("input '") + what + "'",
           "must have shape " + to_string(expected) + ", got " + to_string(desc.shape));
  }
}

std::string attribute_place(const char* attribute) { return std::string("attribute '") + attribute + "'"; }

void require_positive(std::int64_t value, const char* attribute) {
  if (value <= 0) reject(attribute_place(attribute), "must be > 0, got " + std::to_string(value));
}

// What follows adds and multiplies such numbers, and extents.
void require_window_limit(std::int64_t value, const char* attribute) {
  if (value <= kMaxWindow) return;
  throw Error(ErrorCode::unsupported, attribute_place(attribute),
              "must be <= " + std::to_string(kMaxWindow) + ", got " + std::to_string(value),
              "kernel, stride, dilation and padding have that limit: make the window and the picture smaller");
}

void require_window(std::span<const std::int64_t> values, const char* attribute) {
  for (const std::int64_t value : values) {
    require_positive(value, attribute);
    require_window_limit(value, attribute);
  }
}

void require_padding(const Padding& pads) {
  for (const std::int64_t pad : {pads.top, pads.left, pads.bottom, pads.right}) {
    if (pad < 0) reject(attribute_place("pads"), "must be >= 0, got " + std::to_string(pad));
    require_window_limit(pad, "pads");
  }
}

TensorDesc checked(TensorDesc desc) {
  require_elements(desc.shape, "output");
  return desc;
}

// Extent of a window's output along one axis, before any ceil_mode.
std::int64_t window_extent(std::int64_t extent, std::int64_t window, std::int64_t stride, std::int64_t before,
                           std::int64_t after, const char* axis) {
  const std::int64_t room = extent + before + after - window;
  if (room < 0) {
    reject("attribute 'kernel_shape'", "a window of " + std::to_string(window) + " does not fit the padded " + axis +
                                           " of " + std::to_string(extent + before + after));
  }
  return room / stride + 1;
}

TensorDesc infer(const Conv2d& op, Inputs inputs) {
  const TensorDesc& x = image(inputs, Conv2d::kInput);
  const TensorDesc& w = required(inputs, Conv2d::kWeight, "W");
  require_window(op.strides, "strides");
  require_window(op.dilations, "dilations");
  require_positive(op.groups, "group");
  require_padding(op.pads);
  if (w.shape.rank() != 4 || w.shape.elements() == 0) {
    reject("input 'W'", "must have rank 4 (O, I/group, kH, kW) and elements, got " + to_string(w.shape));
  }
  require_window(w.shape.dims().last(2), "kernel_shape");
  const std::int64_t channels = x.shape[1];
  if (channels % op.groups != 0 || w.shape[0] % op.groups != 0) {
    reject("attribute 'group'", "must divide " + std::to_string(channels) + " input and " + std::to_string(w.shape[0]) +
                                    " output channels, got " + std::to_string(op.groups));
  }
  if (w.shape[1] != channels / op.groups) {
    reject("input 'W'", "has " + std::to_string(w.shape[1]) + " channels a group, but the input has " +
                            std::to_string(channels / op.groups));
  }
  const std::int64_t span_h = (w.shape[2] - 1) * op.dilations[0] + 1;
  const std::int64_t span_w = (w.shape[3] - 1) * op.dilations[1] + 1;
  const Shape out{x.shape[0], w.shape[0],
                  window_extent(x.shape[2], span_h, op.strides[0], op.pads.top, op.pads.bottom, "height"),
                  window_extent(x.shape[3], span_w, op.strides[1], op.pads.left, op.pads.right, "width")};
  if (inputs[Conv2d::kBias] != nullptr) require_shape(*inputs[Conv2d::kBias], "B", Shape{w.shape[0]});
  TensorDesc desc{DType::F32, out, x.layout};
  if (inputs[Conv2d::kResidual] != nullptr) require_shape(*inputs[Conv2d::kResidual], "residual", out);
  return checked(desc);
}

TensorDesc infer(const Gemm&, Inputs inputs) {
  const TensorDesc& x = required(inputs, Gemm::kInput, "A");
  const TensorDesc& w = required(inputs, Gemm::kWeight, "B");
  if (x.shape.rank() != 2) reject("input 'A'", "must have rank 2 (N, features), got " + to_string(x.shape));
  if (w.shape.rank() != 2) reject("input 'B'", "must have rank 2, got " + to_string(w.shape));
  if (w.shape[1] != x.shape[1]) {
    reject("input 'B'",
           "takes " + std::to_string(w.shape[1]) + " features, but the input has " + std::to_string(x.shape[1]));
  }
  if (w.shape.elements() == 0) reject("input 'B'", "has no elements: " + to_string(w.shape));
  if (inputs[Gemm::kBias] != nullptr) require_shape(*inputs[Gemm::kBias], "C", Shape{w.shape[0]});
  return checked({DType::F32, Shape{x.shape[0], w.shape[0]}, Layout::NCHW});
}

TensorDesc infer(const ScaleShift&, Inputs inputs) {
  const TensorDesc& x = required(inputs, ScaleShift::kInput, "x");
  if (x.shape.rank() < 2) reject("input 'x'", "must have channels on axis 1, got " + to_string(x.shape));
  require_shape(required(inputs, ScaleShift::kScale, "scale"), "scale", Shape{x.shape[1]});
  require_shape(required(inputs, ScaleShift::kShift, "shift"), "shift", Shape{x.shape[1]});
  return x;
}

TensorDesc infer(const Add&, Inputs inputs) {
  const TensorDesc& left = required(inputs, Add::kLeft, "A");
  const TensorDesc& right = required(inputs, Add::kRight, "B");
  if (left.shape != right.shape) {
    reject("input 'B'", "must have the shape of 'A', " + to_string(left.shape) + ", got " + to_string(right.shape));
  }
  if (left.layout != right.layout) reject("input 'B'", "must have the layout of 'A'");
  return left;
}

TensorDesc infer(const Mul&, Inputs inputs) {
  const TensorDesc& left = required(inputs, Mul::kLeft, "A");
  const TensorDesc& right = required(inputs, Mul::kRight, "B");
  bool fits = left.shape.rank() == right.shape.rank();
  for (std::size_t axis = 0; fits && axis < left.shape.rank(); ++axis) {
    fits = right.shape[axis] == left.shape[axis] || right.shape[axis] == 1;
  }
  if (!fits) {
    reject("input 'B'", "must have the extents of 'A', " + to_string(left.shape) + ", or 1 in their place, got " +
                            to_string(right.shape));
  }
  return left;
}

void require_finite_alpha(float alpha) {
  if (!std::isfinite(alpha)) reject("attribute 'alpha'", "must be finite, got " + std::to_string(alpha));
}

TensorDesc infer(const Unary& op, Inputs inputs) {
  require_finite_alpha(op.alpha);
  return required(inputs, Unary::kInput, "x");
}

TensorDesc infer(const Clip& op, Inputs inputs) {
  if (!op.activation.is_clip()) reject("attribute 'activation'", "must be a clip, got " + to_string(op.activation));
  return required(inputs, Clip::kInput, "x");
}

std::int64_t pool_extent(const Pool2d& op, std::int64_t extent, std::size_t axis, std::int64_t before,
                         std::int64_t after) {
  const std::int64_t span = (op.kernel[axis] - 1) * op.dilations[axis] + 1;
  if (before >= span || after >= span) {
    reject("attribute 'pads'", "must be smaller than the window's " + std::to_string(span) + ", got " +
                                   std::to_string(before) + " and " + std::to_string(after));
  }
  const std::int64_t floor_extent =
      window_extent(extent, span, op.strides[axis], before, after, axis == 0 ? "height" : "width");
  if (!op.ceil_mode) return floor_extent;
  const std::int64_t room = extent + before + after - span;
  std::int64_t out = (room + op.strides[axis] - 1) / op.strides[axis] + 1;
  if ((out - 1) * op.strides[axis] >= extent + before) --out;  // a window that starts in the padding is dropped
  return out;
}

TensorDesc infer(const Pool2d& op, Inputs inputs) {
  const TensorDesc& x = image(inputs, Pool2d::kInput);
  require_window(op.kernel, "kernel_shape");
  require_window(op.strides, "strides");
  require_window(op.dilations, "dilations");
  require_padding(op.pads);
  return checked({DType::F32,
                  Shape{x.shape[0], x.shape[1], pool_extent(op, x.shape[2], 0, op.pads.top, op.pads.bottom),
                        pool_extent(op, x.shape[3], 1, op.pads.left, op.pads.right)},
                  x.layout});
}

TensorDesc infer(const GlobalAveragePool&, Inputs inputs) {
  const TensorDesc& x = image(inputs, GlobalAveragePool::kInput);
  return {DType::F32, Shape{x.shape[0], x.shape[1], 1, 1}, x.layout};
}

void require_not_negative(float value, const char* attribute) {
  if (!std::isfinite(value) || value < 0.0F) {
    reject(attribute_place(attribute), "must be >= 0 and finite, got " + std::to_string(value));
  }
}

TensorDesc infer(const LocalResponseNorm& op, Inputs inputs) {
  const TensorDesc& x = image(inputs, LocalResponseNorm::kInput);
  require_window({&op.size, 1}, "size");
  require_not_negative(op.alpha, "alpha");
  require_not_negative(op.beta, "beta");
  require_not_negative(op.bias, "bias");
  if (op.bias == 0.0F) reject("attribute 'bias'", "must be > 0: zeros would be divided by zero");
  return x;
}

TensorDesc infer(const Softmax&, Inputs inputs) {
  const TensorDesc& x = required(inputs, Softmax::kInput, "x");
  if (x.shape.rank() < 2) reject("input 'x'", "must have channels on axis 1, got " + to_string(x.shape));
  return x;
}

// An axis but the batch.
std::size_t axis_of(std::int64_t axis, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.rank());
  if (axis <= 0 || axis >= rank) {
    reject("attribute 'axis'",
           "must be 1 to " + std::to_string(rank - 1) + " for " + to_string(shape) + ", got " + std::to_string(axis));
  }
  return static_cast<std::size_t>(axis);
}

TensorDesc infer(const Slice& op, Inputs inputs) {
  const TensorDesc& x = required(inputs, Slice::kInput, "x");
  const std::size_t axis = axis_of(op.axis, x.shape);
  if (op.first < 0 || op.extent <= 0 || op.extent > x.shape[axis] || op.first > x.shape[axis] - op.extent) {
    reject("attributes 'first' and 'extent'", "must lie within 0.." + std::to_string(x.shape[axis]) + ", got " +
                                                  std::to_string(op.first) + " and " + std::to_string(op.extent));
  }
  std::vector<std::int64_t> dims(x.shape.dims().begin(), x.shape.dims().end());
  dims[axis] = op.extent;
  return {DType::F32, Shape(std::span<const std::int64_t>(dims)), x.layout};
}

TensorDesc infer(const Concat& op, Inputs inputs) {
  const TensorDesc& first = required(inputs, Concat::kFirst, "0");
  const std::size_t joined = axis_of(op.axis, first.shape);
  std::vector<std::int64_t> dims(first.shape.dims().begin(), first.shape.dims().end());
  for (std::size_t position = 1; position < inputs.size(); ++position) {
    const Shape& shape = required(inputs, position, std::to_string(position).c_str()).shape;
    bool fits = shape.rank() == first.shape.rank();
    for (std::size_t axis = 0; fits && axis < shape.rank(); ++axis) {
      fits = axis == joined || shape[axis] == first.shape[axis];
    }
    if (!fits) {
      reject("input '" + std::to_string(position) + "'", "of shape " + to_string(shape) + " cannot be joined to " +
                                                             to_string(first.shape) + " along axis " +
                                                             std::to_string(op.axis));
    }
    // Beside an extent of 0, others may be anything.
    if (__builtin_add_overflow(dims[joined], shape[joined], &dims[joined])) {
      reject("input '" + std::to_string(position) + "'", "of shape " + to_string(shape) + ": the extents overflow");
    }
  }
  return checked({DType::F32, Shape(std::span<const std::int64_t>(dims)), first.layout});
}

TensorDesc infer(const Reshape& op, Inputs inputs) {
  const TensorDesc& x = required(inputs, Reshape::kInput, "x");
  if (op.shape.elements() != x.shape.elements() || op.shape.rank() == 0 || op.shape[0] != x.shape[0]) {
    reject("attribute 'shape'",
           "must hold the elements of " + to_string(x.shape) + " and keep axis 0, got " + to_string(op.shape));
  }
  return {DType::F32, op.shape, Layout::NCHW};
}

TensorDesc infer(const Transpose& op, Inputs inputs) {
  const TensorDesc& x = required(inputs, Transpose::kInput, "x");
  std::vector<std::int64_t> sorted = op.permutation;
  std::sort(sorted.begin(), sorted.end());
  bool valid = op.permutation.size() == x.shape.rank() && !sorted.empty() && op.permutation.front() == 0;
  for (std::size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<std::int64_t>(i);
  if (!valid) {
    std::string text;
    for (const std::int64_t axis : op.permutation) text += (text.empty() ? "" : ",") + std::to_string(axis);
    reject("attribute 'perm'", "must permute the " + std::to_string(x.shape.rank()) +
                                   " axes and leave axis 0 (the batch) in place, got [" + text + "]");
  }
  std::vector<std::int64_t> dims;
  for (const std::int64_t axis : op.permutation) dims.push_back(x.shape[static_cast<std::size_t>(axis)]);
  return {DType::F32, Shape(std::span<const std::int64_t>(dims)), x.layout};
}

TensorDesc infer(const Pad& op, Inputs inputs) {
  const TensorDesc& x = image(inputs, Pad::kInput);
  require_padding(op.pads);
  if (op.mode == PadMode::Reflect &&
      (std::max(op.pads.top, op.pads.bottom) >= x.shape[2] || std::max(op.pads.left, op.pads.right) >= x.shape[3])) {
    reject("attribute 'pads'", "must be smaller than the picture that they mirror, " + to_string(x.shape));
  }
  return checked({DType::F32,
                  Shape{x.shape[0], x.shape[1], x.shape[2] + op.pads.top + op.pads.bottom,
                        x.shape[3] + op.pads.left + op.pads.right},
                  x.layout});
}

TensorDesc infer(const LayoutTransform& op, Inputs inputs) {
  TensorDesc desc = image(inputs, LayoutTransform::kInput);
  desc.layout = op.to;
  return desc;
}

TensorDesc infer(const Identity&, Inputs inputs) { return required(inputs, Identity::kInput, "x"); }

// Whether an op may have so many inputs.
template <class T>
bool takes(const T&, std::size_t inputs) {
  return std::is_same_v<T, Concat> ? inputs >= T::kInputs : inputs == T::kInputs;
}

// Inputs that must be constants, so that engines can pack them.
bool must_be_constant(const Op& op, std::size_t position) {
  if (std::holds_alternative<Conv2d>(op)) return position == Conv2d::kWeight || position == Conv2d::kBias;
  if (std::holds_alternative<Gemm>(op)) return position == Gemm::kWeight || position == Gemm::kBias;
  if (std::holds_alternative<ScaleShift>(op)) return position != ScaleShift::kInput;
  return false;
}

}  // namespace

void require_elements(const Shape& shape, const std::string& what) {
  if (shape.elements() <= kMaxElements) return;
  reject(what, "has " + std::to_string(shape.elements()) + " elements a picture; the limit is " +
                   std::to_string(kMaxElements));
}

TensorDesc infer_output(const Op& op, std::span<const TensorDesc* const> inputs) {
  return std::visit(
      [&]<class T>(const T& o) {
        if (!takes(o, inputs.size())) {
          reject("inputs", std::string(op_name(op)) + " has " + std::to_string(T::kInputs) + " input positions" +
                               (takes(o, T::kInputs + 1) ? " or more" : "") + ", got " + std::to_string(inputs.size()));
        }
        for (std::size_t position = 0; position < inputs.size(); ++position) {
          if (inputs[position] != nullptr) {
            require_elements(inputs[position]->shape, "input '" + std::to_string(position) + "'");
          }
        }
        if constexpr (requires { o.activation; }) require_finite_alpha(o.activation.alpha);
        return infer(o, inputs);
      },
      op);
}

TensorDesc infer_node_output(const Node& node, std::span<const Value> values) {
  std::vector<const TensorDesc*> descs;
  for (std::size_t position = 0; position < node.inputs.size(); ++position) {
    const ValueId id = node.inputs[position];
    if (id == kNoValue) {
      descs.push_back(nullptr);
      continue;
    }
    if (id < 0 || static_cast<std::size_t>(id) >= values.size()) {
      reject("inputs", "value id " + std::to_string(id) + " does not exist");
    }
    const Value& value = values[static_cast<std::size_t>(id)];
    if (must_be_constant(node.op, position) != (value.constant != nullptr)) {
      if (value.constant) {
        throw Error(ErrorCode::unsupported, "input '" + value.name + "'", "is a constant where an activation is meant",
                    "fold constant sub-graphs when exporting");
      }
      throw Error(ErrorCode::unsupported, "input '" + value.name + "'", "must be a constant (an initializer)",
                  "weights that are computed or fed at run time are not supported");
    }
    descs.push_back(&value.desc);
  }
  return infer_output(node.op, descs);
}

}  // namespace mobicuda
