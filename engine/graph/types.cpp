#include <mobicuda/types.h>

#include <sstream>

#include <mobicuda/error.h>

namespace mobicuda {

std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::F32:
      return "float32";
    case DType::F16:
      return "float16";
    case DType::F64:
      return "float64";
    case DType::I32:
      return "int32";
    case DType::I64:
      return "int64";
    case DType::I8:
      return "int8";
    case DType::U8:
      return "uint8";
    case DType::Bool:
      return "bool";
  }
  return "unknown";
}

std::int64_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::F64:
    case DType::I64:
      return 8;
    case DType::F32:
    case DType::I32:
      return 4;
    case DType::F16:
      return 2;
    case DType::I8:
    case DType::U8:
    case DType::Bool:
      return 1;
  }
  return 0;
}

std::string_view to_string(Layout layout) noexcept { return layout == Layout::NCHW ? "NCHW" : "NHWC"; }

std::string_view to_string(Precision precision) noexcept {
  switch (precision) {
    case Precision::Fp32:
      return "fp32";
    case Precision::Tf32:
      return "tf32";
    case Precision::Fp16:
      return "fp16";
    case Precision::Fp64:
      return "fp64";
    case Precision::Fp32Split:
      return "fp32_split";
  }
  return "unknown";
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) {
    throw Error(ErrorCode::invalid_argument, "size", std::to_string(a) + " * " + std::to_string(b) + " overflows");
  }
  return product;
}

void Shape::refuse_axis(std::size_t axis) {
  throw Error(ErrorCode::invalid_argument, "shape",
              "has axes up to " + std::to_string(kMaxRank - 1) + ", asked for is axis " + std::to_string(axis));
}

Shape::Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error(ErrorCode::invalid_argument, "shape",
                "rank must be <= " + std::to_string(kMaxRank) + ", got " + std::to_string(dims.size()));
  }
  rank_ = dims.size();
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    if (dims[axis] < 0) {
      throw Error(ErrorCode::invalid_argument, "shape",
                  "extent of axis " + std::to_string(axis) + " must be >= 0, got " + std::to_string(dims[axis]));
    }
    dims_.at(axis) = dims[axis];
    elements_ = checked_multiply(elements_, dims[axis]);
  }
}

std::string to_string(const Shape& shape) {
  if (shape.rank() == 0) return "scalar";
  std::string text;
  for (const std::int64_t extent : shape.dims()) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

std::string to_string(const Activation& activation) {
  if (activation.is_none()) return "none";
  if (activation == Activation::relu()) return "relu";
  if (activation == Activation::relu6()) return "relu6";
  std::ostringstream text;
  switch (activation.kind) {
    case ActivationKind::Clip:
      text << "clip(" << activation.lo << ',' << activation.hi << ')';
      break;
    case ActivationKind::Sigmoid:
      return "sigmoid";
    case ActivationKind::Silu:
      return "silu";
    case ActivationKind::HardSwish:
      return "hardswish";
    case ActivationKind::Tanh:
      return "tanh";
    case ActivationKind::LeakyRelu:
      text << "leaky_relu(" << activation.alpha << ')';
      break;
    case ActivationKind::Elu:
      text << "elu(" << activation.alpha << ')';
      break;
  }
  return text.str();
}

}  // namespace mobicuda
