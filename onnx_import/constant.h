#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/graph.h>
#include <mobicuda/tensor.h>
#include <mobicuda/types.h>

namespace mobicuda::onnx_import {

/// An integer of shape arithmetic: `value`, or `value` times the batch size, which is not known at import.
struct DimValue {
  std::int64_t value = 0;
  bool times_batch = false;

  friend bool operator==(const DimValue&, const DimValue&) = default;
};

inline constexpr DimValue kBatch{1, true};

std::string to_string(const DimValue& value);  ///< "7", "N", "3*N"

/// A tensor known at import: F32 elements (weights), or integers, which may depend on the batch.
/// All of ONNX's floating-point types are kept as F32, all of its integers and booleans as DimValue, but for those of 8
/// bits that have not been read as anything else: IntegersPtr.
class Constant {
 public:
  explicit Constant(std::shared_ptr<const HostTensor> floats,
                    std::shared_ptr<const QuantizedConstant> quantized = nullptr)
      : shape_(floats->shape()), floats_(std::move(floats)), quantized_(std::move(quantized)) {}
  Constant(Shape shape, std::vector<DimValue> integers) : shape_(shape), integers_(std::move(integers)) {}

  bool is_float() const noexcept { return floats_ != nullptr; }
  const Shape& shape() const noexcept { return shape_; }
  std::int64_t elements() const noexcept { return shape_.elements(); }
  const std::shared_ptr<const HostTensor>& tensor() const noexcept { return floats_; }
  std::span<const float> floats() const { return floats_->data<float>(); }
  /// The integers that floats were made of by a DequantizeLinear; null for others.
  const std::shared_ptr<const QuantizedConstant>& quantized() const noexcept { return quantized_; }
  const std::vector<DimValue>& integers() const noexcept { return integers_; }

 private:
  Shape shape_;
  std::shared_ptr<const HostTensor> floats_;  // null for integers
  std::shared_ptr<const QuantizedConstant> quantized_;
  std::vector<DimValue> integers_;
};

using ConstantPtr = std::shared_ptr<const Constant>;

/// A tensor of type INT8 or UINT8, as a DequantizeLinear reads it: I8 or U8.
using IntegersPtr = std::shared_ptr<const HostTensor>;

/// Elements of an integer tensor: they are for shapes.
inline constexpr std::int64_t kMaxIntegerElements = 65536;

/// What all constants may take in memory together: FLOAT16 becomes float32, which a Gemm's transposed copy doubles;
/// what nodes made (ImportLimits::generated_elements) may be copied once; and some for models that hold next to
/// nothing.
inline constexpr std::int64_t kMemoryForEachByteRead = 8;
inline constexpr std::int64_t kMemoryForEachByteMade = 2;
inline constexpr std::int64_t kMemoryWithoutBytes = std::int64_t{64} << 20;

/// How often that much may be written in all: constants that nothing reads any more are let go, but a chain of nodes
/// must not keep the importer at work for ever.
inline constexpr std::int64_t kTimesMemoryIsWritten = 8;

ConstantPtr make_floats(const Shape& shape, std::span<const float> values);
ConstantPtr make_integers(const Shape& shape, std::vector<DimValue> values);

/// The integers that floats were made of, moved as the floats are: element i of the result, of that shape, was element
/// positions[i], and the axis of scales is `axis` now.
std::shared_ptr<const QuantizedConstant> moved(const QuantizedConstant& source, const Shape& shape, std::size_t axis,
                                               std::span<const std::size_t> positions);
/// The same elements in another shape; null where scales are of an axis that the shape does not have.
std::shared_ptr<const QuantizedConstant> in_shape(const QuantizedConstant& source, const Shape& shape);

}  // namespace mobicuda::onnx_import
