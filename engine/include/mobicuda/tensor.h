#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <mobicuda/error.h>
#include <mobicuda/types.h>

namespace mobicuda {

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::F32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::F64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::I32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return DType::I64;
  } else if constexpr (std::is_same_v<T, std::int8_t>) {
    return DType::I8;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return DType::U8;
  } else {
    static_assert(!sizeof(T), "no DType for this C++ type");
  }
}

/// A tensor in host memory that owns its elements, in row-major order of its shape.
class HostTensor {
 public:
  HostTensor() = default;
  /// Zero-initialised. Throws Error(out_of_memory) when the memory is not to be had.
  HostTensor(DType dtype, Shape shape)
      : dtype_(dtype), shape_(shape), bytes_(allocate(checked_multiply(shape.elements(), size_of(dtype)))) {}

  /// A tensor whose elements are elsewhere: data() throws.
  static HostTensor shape_only(DType dtype, Shape shape) {
    HostTensor tensor;
    tensor.dtype_ = dtype;
    tensor.shape_ = shape;
    return tensor;
  }

  template <class T>
  static HostTensor of(Shape shape, std::span<const T> values) {
    HostTensor tensor(dtype_of<T>(), shape);
    if (static_cast<std::int64_t>(values.size()) != shape.elements()) {
      throw Error(ErrorCode::invalid_argument, "HostTensor",
                  "shape " + to_string(shape) + " does not hold " + std::to_string(values.size()) + " values");
    }
    std::copy(values.begin(), values.end(), tensor.data<T>().begin());
    return tensor;
  }

  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::int64_t elements() const noexcept { return shape_.elements(); }
  std::span<std::byte> bytes() noexcept { return bytes_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// The elements as T. Throws Error(invalid_argument) when the tensor holds another type.
  template <class T>
  std::span<T> data() {
    require<T>();
    return {reinterpret_cast<T*>(bytes_.data()), static_cast<std::size_t>(elements())};
  }
  template <class T>
  std::span<const T> data() const {
    require<T>();
    return {reinterpret_cast<const T*>(bytes_.data()), static_cast<std::size_t>(elements())};
  }

 private:
  static std::vector<std::byte> allocate(std::int64_t bytes);

  template <class T>
  void require() const {
    if (dtype_of<T>() != dtype_) {
      throw Error(ErrorCode::invalid_argument, "HostTensor",
                  "holds " + std::string(to_string(dtype_)) + ", asked for " + std::string(to_string(dtype_of<T>())));
    }
    if (bytes_.empty() && elements() != 0) {
      throw Error(ErrorCode::invalid_argument, "HostTensor", "has a shape (" + to_string(shape_) + ") and no elements");
    }
  }

  DType dtype_ = DType::F32;
  Shape shape_{0};
  std::vector<std::byte> bytes_;
};

inline std::vector<std::byte> HostTensor::allocate(std::int64_t bytes) {
  try {
    return std::vector<std::byte>(static_cast<std::size_t>(bytes));
  } catch (const std::exception&) {
    throw Error(ErrorCode::out_of_memory, "HostTensor", "no host memory for " + std::to_string(bytes) + " bytes");
  }
}

}  // namespace mobicuda
