// Operators that make constants out of attributes or a few numbers.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

#include "../initializer.h"
#include "ops.h"
#include "shape_math.h"

namespace mobicuda::onnx_import {
namespace {

// decode(tensor) gives its elements.
template <class Decode>
auto decoded_attribute(NodeImporter& node, std::string_view name, const Decode& decode) {
  const schema::AttributeProto* attribute = node.find(name);
  if (attribute->type() != schema::AttributeProto::TENSOR || !attribute->has_t()) {
    throw node.invalid_attribute(name, "must be a tensor");
  }
  try {
    validate_tensor(attribute->t(), node.state().options.limits, node.state().external);
    node.count_memory(memory_of(attribute->t()));
    return decode(attribute->t());
  } catch (const Error& error) {
    throw error.inside(node.origin().describe() + ", attribute '" + std::string(name) + "'");
  }
}

ConstantPtr tensor_attribute(NodeImporter& node, std::string_view name) {
  return decoded_attribute(node, name, [&](const schema::TensorProto& tensor) {
    return decode_tensor(tensor, node.state().external, node.state().options.log);
  });
}

ConstantPtr filled(const Shape& shape, const Constant& value) {
  if (value.is_float()) {
    auto result = std::make_shared<HostTensor>(DType::F32, shape);
    std::ranges::fill(result->data<float>(), value.floats().front());
    return std::make_shared<const Constant>(std::shared_ptr<const HostTensor>(std::move(result)));
  }
  const auto count = static_cast<std::size_t>(shape.elements());
  return make_integers(shape, std::vector<DimValue>(count, value.integers().front()));
}

void fold_constant(NodeImporter& node) {
  if (node.proto().attribute_size() != 1) {
    throw node.error(ErrorCode::invalid_model,
                     "must have exactly one value attribute, has " + std::to_string(node.proto().attribute_size()));
  }
  const std::string& name = node.proto().attribute(0).name();
  if (name == "value" && is_byte_type(node.proto().attribute(0).t().data_type())) {
    node.set_output(decoded_attribute(
        node, name, [&](const schema::TensorProto& tensor) { return decode_bytes(tensor, node.state().external); }));
  } else if (name == "value") {
    node.set_output(tensor_attribute(node, name));
  } else if (name == "value_int") {
    node.set_output(make_integers(Shape{}, {{node.attribute(name, 0), false}}));
  } else if (name == "value_ints") {
    const auto list = node.ints_attribute(name);
    std::vector<DimValue> values;
    for (const std::int64_t value : *list) values.push_back({value, false});
    const Shape shape{static_cast<std::int64_t>(values.size())};
    node.set_output(make_integers(shape, std::move(values)));
  } else if (name == "value_float") {
    const std::vector<float> value{node.float_attribute(name, 0.0F)};
    node.set_output(make_floats(Shape{}, value));
  } else if (name == "value_floats") {
    const std::vector<float> values = node.floats_attribute(name);
    node.set_output(make_floats(Shape{static_cast<std::int64_t>(values.size())}, values));
  } else {
    throw node.unsupported_attribute(name, "only dense tensors of numbers are supported");
  }
}

void fold_constant_of_shape(NodeImporter& node) {
  const Shape shape = constant_shape(node, node.dims(0));
  const std::vector<float> zero{0.0F};
  const ConstantPtr value = node.has_attribute("value") ? tensor_attribute(node, "value") : make_floats(Shape{}, zero);
  if (value->elements() != 1) {
    throw node.invalid_attribute("value", "must have one element, has shape " + to_string(value->shape()));
  }
  node.count_generated(shape.elements(), !value->is_float());
  node.set_output(filled(shape, *value));
}

void fold_range(NodeImporter& node) {
  if (node.constant(0)->is_float()) {
    const double start = node.scalar(0);
    const double limit = node.scalar(1);
    const double step = node.scalar(2);
    const double count = std::ceil((limit - start) / step);
    if (step == 0 || !std::isfinite(count)) {
      throw node.error(ErrorCode::invalid_model, "the step must not be 0 nor the bounds infinite");
    }
    if (count > static_cast<double>(kMaxIntegerElements)) {
      throw node.error(ErrorCode::unsupported, "more than " + std::to_string(kMaxIntegerElements) + " elements");
    }
    std::vector<float> values;
    for (std::int64_t i = 0; static_cast<double>(i) < count; ++i) {
      values.push_back(static_cast<float>(start + static_cast<double>(i) * step));
    }
    node.set_output(make_floats(Shape{static_cast<std::int64_t>(values.size())}, values));
    return;
  }
  const std::int64_t limit = node.integer(1);
  const std::int64_t step = node.integer(2);
  if (step == 0) throw node.invalid_input(2, "the step must not be 0");
  std::vector<DimValue> values;
  std::int64_t value = node.integer(0);
  while (step > 0 ? value < limit : value > limit) {
    if (static_cast<std::int64_t>(values.size()) == kMaxIntegerElements) {
      throw node.error(ErrorCode::unsupported, "more than " + std::to_string(kMaxIntegerElements) + " elements");
    }
    values.push_back({value, false});
    if (__builtin_add_overflow(value, step, &value)) break;
  }
  const Shape shape{static_cast<std::int64_t>(values.size())};
  node.set_output(make_integers(shape, std::move(values)));
}

}  // namespace

Forms fold_generate_forms() {
  static constexpr OperatorForm kForms[] = {
      {"Constant", 6, 10, 0, 0, "value", nullptr, fold_constant},
      {"Constant", 11, 11, 0, 0, "sparse_value value", nullptr, fold_constant},
      {"Constant", 12, kNewestOpset, 0, 0,
       "sparse_value value value_float value_floats value_int value_ints value_string value_strings", nullptr,
       fold_constant},
      {"ConstantOfShape", 9, kNewestOpset, 1, 1, "value", nullptr, fold_constant_of_shape},
      {"Range", 11, 26, 3, 3, "", nullptr, fold_range},
      {"Range", 27, kNewestOpset, 3, 3, "stash_type", nullptr, fold_range},
  };
  return kForms;
}

}  // namespace mobicuda::onnx_import
