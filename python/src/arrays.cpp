#include "arrays.h"

#include <nanobind/stl/string.h>

#include <vector>

#include "errors.h"

namespace mobicuda::python {
namespace {

namespace nb = nanobind;

std::string dtype_text(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  std::string name;
  switch (static_cast<Code>(dtype.code)) {
    case Code::Int:
      name = "int";
      break;
    case Code::UInt:
      name = "uint";
      break;
    case Code::Float:
      name = "float";
      break;
    case Code::Bfloat:
      name = "bfloat";
      break;
    case Code::Complex:
      name = "complex";
      break;
    case Code::Bool:
      return "bool";
    default:
      name = "type " + std::to_string(dtype.code) + " of DLPack, bits ";
  }
  name += std::to_string(dtype.bits);
  return dtype.lanes == 1 ? name : name + "x" + std::to_string(dtype.lanes);
}

std::string device_text(const AnyArray& array) {
  switch (array.device_type()) {
    case nb::device::cpu::value:
      return "host memory";
    case nb::device::cuda::value:
      return "cuda:" + std::to_string(array.device_id());
    case nb::device::cuda_host::value:
      return "page-locked host memory";
    case nb::device::cuda_managed::value:
      return "managed memory";
    default:
      return "a device that is none of CUDA's (DLPack type " + std::to_string(array.device_type()) + ")";
  }
}

template <class Extents>
std::string joined(const Extents& extents, std::string text) {
  for (const std::int64_t extent : extents) text += (text.back() == '(' ? "" : ", ") + std::to_string(extent);
  return text + ")";
}

std::string shape_text(const AnyArray& array) {
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    extents.push_back(static_cast<std::int64_t>(array.shape(axis)));
  }
  return joined(extents, "(");
}

/// "input must be float32 of shape (n, 3, 224, 224), got "
std::string expectation(const Wanted& wanted) {
  return std::string(wanted.role) + " must be " + dtype_name(wanted.dtype) + " of shape " + joined(wanted.image, "(n") +
         ", got ";
}

std::string attribute_text(nb::handle object, const char* name) {
  const nb::object attribute = nb::getattr(object, name);
  return nb::cast<std::string>(nb::steal(PyObject_Str(attribute.ptr())));
}

/// The class of an object and, where it tells, its dtype and shape.
std::string describe(nb::handle object) {
  std::string text = attribute_text(object.type(), "__name__");
  for (const char* name : {"dtype", "shape"}) {
    if (nb::hasattr(object, name)) text += std::string(", ") + name + " " + attribute_text(object, name);
  }
  return text;
}

bool same_dtype(nb::dlpack::dtype given, DType wanted) {
  return given == (wanted == DType::U8 ? nb::dtype<std::uint8_t>() : nb::dtype<float>());
}

}  // namespace

std::vector<std::int64_t> image_extents(const TensorDesc& desc) {
  const Shape& shape = desc.shape;
  if (shape.rank() == 4 && desc.layout == Layout::NHWC) return {shape[2], shape[3], shape[1]};
  const auto dims = shape.dims().subspan(1);
  return {dims.begin(), dims.end()};
}

Wanted wanted(const char* role, const TensorDesc& desc) { return {role, desc.dtype, image_extents(desc)}; }

const char* dtype_name(DType dtype) { return dtype == DType::U8 ? "uint8" : "float32"; }

AnyArray to_array(const Wanted& wanted, nb::handle array) {
  AnyArray cast;
  if (!nb::try_cast(array, cast, false)) raise_type_error(expectation(wanted) + describe(array));
  return cast;
}

WritableArray to_writable_array(const Wanted& wanted, nb::handle array) {
  WritableArray cast;
  if (!nb::try_cast(array, cast, false)) {
    AnyArray readable;
    if (nb::try_cast(array, readable, false)) raise_value_error(std::string(wanted.role) + " is read-only");
    raise_type_error(expectation(wanted) + describe(array));
  }
  return cast;
}

std::int64_t require_images(const Wanted& wanted, const AnyArray& array) {
  if (!same_dtype(array.dtype(), wanted.dtype)) {
    raise_type_error(expectation(wanted) + dtype_text(array.dtype()) + " of shape " + shape_text(array));
  }
  bool fits = array.ndim() == wanted.image.size() + 1 && array.shape(0) > 0;
  for (std::size_t axis = 1; fits && axis < array.ndim(); ++axis) {
    fits = static_cast<std::int64_t>(array.shape(axis)) == wanted.image[axis - 1];
  }
  if (!fits) {
    const bool lacks_batch = array.ndim() == wanted.image.size();
    raise_value_error(expectation(wanted) + "shape " + shape_text(array) +
                      (lacks_batch ? "; x[None] adds the axis of the batch" : ""));
  }
  return static_cast<std::int64_t>(array.shape(0));
}

bool is_dense(const AnyArray& array) {
  std::int64_t stride = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    const auto extent = static_cast<std::int64_t>(array.shape(axis));
    if (extent != 1 && array.stride(axis) != stride) return false;
    stride *= extent;
  }
  return true;
}

void require_dense(const Wanted& wanted, const AnyArray& array) {
  if (is_dense(array)) return;
  raise_value_error(std::string(wanted.role) +
                    " must lie in memory without gaps, in the order of its shape, got other strides; x.contiguous() of "
                    "PyTorch or ascontiguousarray(x) of NumPy and CuPy makes such a copy");
}

void require_host(const Wanted& wanted, const AnyArray& array) {
  if (array.device_type() == nb::device::cpu::value || array.device_type() == nb::device::cuda_host::value) return;
  raise_type_error(std::string(wanted.role) + " must be in host memory, got " + device_text(array));
}

void require_cuda(const Wanted& wanted, const AnyArray& array, int device) {
  switch (array.device_type()) {
    case nb::device::cuda::value:
      if (array.device_id() == device) return;
      raise_value_error(std::string(wanted.role) + " must be on cuda:" + std::to_string(device) + ", got " +
                        device_text(array) +
                        "; copy it there, or make the engine with device=" + std::to_string(array.device_id()));
    case nb::device::cuda_managed::value:
      return;
    default:
      raise_type_error(std::string(wanted.role) + " must be on cuda:" + std::to_string(device) + ", got " +
                       device_text(array));
  }
}

}  // namespace mobicuda::python
