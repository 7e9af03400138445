#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/ops.h"
#include "graph/ops/checks.h"
#include "graph/ops/quantized.h"
#include "graph/verify.h"

namespace mobicuda {
namespace {

// Whether an op may have so many inputs.
template <class T>
bool takes(std::size_t inputs) {
  if constexpr (requires { T::kMoreInputs; }) return inputs >= T::kInputs;
  return inputs == T::kInputs;
}

bool must_be_constant(const Op& op, std::size_t position) {
  return std::visit(
      [&]<class T>(const T&) {
        if constexpr (requires { T::kConstants; }) return std::ranges::count(T::kConstants, position) != 0;
        return false;
      },
      op);
}

// Refuses an input whose type the op does not take. Quantised operations look at theirs themselves.
template <class T>
void check_types(const T& op, std::span<const TensorDesc* const> inputs) {
  if constexpr (!requires { op.result; } && !std::is_same_v<T, Dequantize>) {
    for (std::size_t position = 0; position < inputs.size(); ++position) {
      if (inputs[position] == nullptr || inputs[position]->dtype == DType::F32) continue;
      if constexpr (requires { T::kMovesElements; }) {
        if (is_quantized(inputs[position]->dtype)) continue;
      }
      reject("input '" + std::to_string(position) + "'",
             "must be float32, is " + std::string(to_string(inputs[position]->dtype)) + ": " +
                 std::string(op_name(op)) +
                 " computes with real numbers, put a Dequantize (DequantizeLinear) in front");
    }
  }
}

// Refuses enumerators that do not exist, which a cast can make.
class KnownChoices final : public Members {
 public:
  void size(std::int64_t&) override {}
  void fraction(float&) override {}
  void small(std::int32_t&) override {}
  void shape(Shape&) override {}
  void list(std::vector<std::int64_t>&) override {}

 private:
  void number(std::int64_t& value, std::int64_t highest) override {
    if (highest == std::numeric_limits<std::int64_t>::max() || (value >= 0 && value <= highest)) return;
    reject("attributes", "have a choice that does not exist, number " + std::to_string(value) + " of those from 0 to " +
                             std::to_string(highest));
  }
};

}  // namespace

void require_elements(const Shape& shape, const std::string& what) {
  if (shape.elements() <= kMaxElements) return;
  reject(what, "has " + std::to_string(shape.elements()) + " elements a picture; the limit is " +
                   std::to_string(kMaxElements));
}

TensorDesc infer_output(const Op& op, std::span<const TensorDesc* const> inputs) {
  return std::visit(
      [&]<class T>(T o) {
        KnownChoices known;
        members(o, known);
        if (!takes<T>(inputs.size())) {
          reject("inputs", std::string(op_name(op)) + " has " + std::to_string(T::kInputs) + " input positions" +
                               (takes<T>(T::kInputs + 1) ? " or more" : "") + ", got " + std::to_string(inputs.size()));
        }
        for (std::size_t position = 0; position < inputs.size(); ++position) {
          if (inputs[position] != nullptr) {
            require_elements(inputs[position]->shape, "input '" + std::to_string(position) + "'");
          }
        }
        check_types(o, inputs);
        if constexpr (requires { o.activation; }) require_finite_alpha(o.activation.alpha);
        return infer(o, Inputs(inputs));
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
  const TensorDesc output = infer_output(node.op, descs);
  check_quantized_constants(node, values);
  return output;
}

}  // namespace mobicuda
