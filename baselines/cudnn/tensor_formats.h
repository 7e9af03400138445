#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cudnn.h>

#include <mobicuda/types.h>

#include "cudnn/elementwise.h"
#include "cudnn/library_descriptors.h"

namespace mobicuda::cudnn {

inline Element element_of(DType dtype) {
  if (dtype == DType::F64) return Element::F64;
  return dtype == DType::F16 ? Element::F16 : Element::F32;
}

/// Axes from slowest to fastest.
inline std::vector<std::size_t> memory_order(const Shape& shape, Layout layout) {
  if (shape.rank() == 4 && layout == Layout::NHWC) return {0, 2, 3, 1};
  std::vector<std::size_t> axes(shape.rank());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  return axes;
}

/// Elements from one index to the next along each axis. `pitch` as below.
inline std::vector<std::int64_t> strides_of(const Shape& shape, Layout layout, std::int64_t pitch) {
  std::vector<std::int64_t> strides(shape.rank());
  std::int64_t stride = 1;
  const std::vector<std::size_t> order = memory_order(shape, layout);
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = stride;
    stride *= axis == order.rbegin() && pitch != 0 ? pitch : shape[*axis];
  }
  return strides;
}

/// Extents for the elementwise kernels; axes after the channels count as one.
inline TensorShape tensor_shape(const Shape& shape, Layout layout, DType dtype) {
  TensorShape result{shape[0], 1, 1, 1, false, element_of(dtype)};
  if (shape.rank() > 1) result.c = shape[1];
  for (std::size_t axis = 2; axis < shape.rank(); ++axis)
    (axis + 1 == shape.rank() ? result.w : result.h) *= shape[axis];
  result.channels_last = (shape.rank() == 4 && layout == Layout::NHWC) || result.h * result.w == 1;
  return result;
}

/// `pitch` elements from pixel to pixel of a channels-last tensor, 0 where it is packed.
inline Owned<cudnnTensorDescriptor_t> tensor_descriptor(const TensorShape& shape, std::int64_t pitch = 0) {
  const auto n = static_cast<int>(shape.n);
  const auto c = static_cast<int>(shape.c);
  const auto h = static_cast<int>(shape.h);
  const auto w = static_cast<int>(shape.w);
  const auto step = static_cast<int>(pitch);
  constexpr cudnnDataType_t kTypes[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_DOUBLE};
  const cudnnDataType_t type = kTypes[static_cast<std::size_t>(shape.element)];
  const cudnnTensorFormat_t format = shape.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  auto descriptor = make_tensor_descriptor();
  check(pitch == 0 ? cudnnSetTensor4dDescriptor(descriptor.get(), format, type, n, c, h, w)
                   : cudnnSetTensor4dDescriptorEx(descriptor.get(), type, n, c, h, w, h * w * step, 1, w * step, step),
        "describing a tensor");
  return descriptor;
}

}  // namespace mobicuda::cudnn
