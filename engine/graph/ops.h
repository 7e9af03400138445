// What an operation is: a file of graph/ops/ says all of it for the operations of its family, by the functions of
// GraphOp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <mobicuda/graph.h>

#include "graph/op_functions.h"

namespace mobicuda {

class AttributeText;
class Inputs;
class Members;

template <class T>
struct GraphOp {
  /// Type and shape of the output, every divisor proved positive. Throws Error(invalid_model).
  friend TensorDesc infer(const T& op, const Inputs& inputs);
  /// Of one image, for the output's shape `y`: 0 for data movement.
  friend std::int64_t flops(const T& op, const Inputs& inputs, const Shape& y);
  /// As print() shows them: " stride=2,2 act=relu".
  friend void attributes(const T& op, AttributeText& text);
  /// In the order of plan files.
  friend void members(T& op, Members& io);
};

/// The inputs of a node by position, null where absent.
class Inputs : OpFunctions<GraphOp> {
 public:
  explicit Inputs(std::span<const TensorDesc* const> descs) : descs_(descs) {}

  std::size_t size() const { return descs_.size(); }
  const TensorDesc* operator[](std::size_t position) const { return descs_[position]; }

 private:
  std::span<const TensorDesc* const> descs_;
};

class AttributeText : OpFunctions<GraphOp> {
 public:
  template <class Value>
  AttributeText& operator<<(const Value& value) {
    text_ << value;
    return *this;
  }
  std::string str() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

/// Reads or writes the members of an operation one after the other.
class Members : OpFunctions<GraphOp> {
 public:
  void whole(std::int64_t& value) { number(value, std::numeric_limits<std::int64_t>::max()); }
  /// A size that window kernels take.
  virtual void size(std::int64_t& value) = 0;
  virtual void fraction(float& value) = 0;
  virtual void shape(Shape& value) = 0;
  virtual void list(std::vector<std::int64_t>& values) = 0;
  void flag(bool& value) {
    std::int64_t one = value ? 1 : 0;
    number(one, 1);
    value = one != 0;
  }
  template <class Enum>
  void choice(Enum& value, Enum last) {
    auto position = static_cast<std::int64_t>(value);
    number(position, static_cast<std::int64_t>(last));
    value = static_cast<Enum>(position);
  }
  void padding(Padding& value) {
    for (auto* side : {&value.top, &value.left, &value.bottom, &value.right}) size(*side);
  }
  /// From -128 to 255.
  virtual void small(std::int32_t& value) {
    constexpr std::int64_t kLowest = -128;
    std::int64_t above = value - kLowest;
    number(above, 255 - kLowest);
    value = static_cast<std::int32_t>(above + kLowest);
  }
  void result(QuantizedResult& value) {
    choice(value.dtype, DType::Bool);
    fraction(value.quantization.scale);
    small(value.quantization.zero_point);
    small(value.range.low);
    small(value.range.high);
  }
  void activation(Activation& value) {
    fraction(value.lo);
    fraction(value.hi);
    choice(value.kind, ActivationKind::Elu);
    fraction(value.alpha);
  }

 protected:
  ~Members() = default;
  /// A number from 0 to highest.
  virtual void number(std::int64_t& value, std::int64_t highest) = 0;
};

}  // namespace mobicuda
