#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include <mobicuda/types.h>

namespace mobicuda::cudnn {

// The few memory-bound kernels that cuDNN does not fuse or has no operation for. They return a status,
// never allocate and never wait. All pointers are device memory, 16-byte aligned, packed tensors.

enum class Element : std::uint8_t { F32, F16, F64 };

/// Extents and memory order of an activation tensor.
struct TensorShape {
  std::int64_t n = 1;
  std::int64_t c = 1;
  std::int64_t h = 1;
  std::int64_t w = 1;
  bool channels_last = true;
  Element element = Element::F32;

  std::int64_t elements() const { return n * c * h * w; }
};

/// What affine() computes. Of channels-last tensors, x, residual and y may be parts of wider ones: a pitch is the
/// distance of pixels in elements, 0 that of a packed tensor.
struct Affine {
  TensorShape shape;
  Activation activation;
  std::int64_t x_pitch = 0;
  std::int64_t residual_pitch = 0;
  std::int64_t y_pitch = 0;
};

/// y = act(scale[c] * x + bias[c] + residual); scale, bias and residual may be null. y may be x or residual. NaN
/// propagates. At most 2^31 - 1 vectors of 16 bytes.
cudaError_t affine(const Affine& op, const void* x, const void* scale, const void* bias, const void* residual, void* y,
                   cudaStream_t stream);

enum class Border : std::uint8_t { Value, Edge, Reflect };

/// y is x with rows and columns around: top and left as given, the rest up to y's extents. They hold `value`, the
/// border's pixels, or the image mirrored at these; then x is not empty, and larger than a mirrored border.
struct PadShape {
  TensorShape x, y;
  std::int64_t top = 0;
  std::int64_t left = 0;
  float value = 0.0F;
  Border border = Border::Value;
};
cudaError_t pad(const PadShape& shape, const void* x, void* y, cudaStream_t stream);

/// NCHW float images of x_channels to the NHWC y_shape, the channels beyond x_channels zero.
cudaError_t interleave(std::int64_t x_channels, const TensorShape& y_shape, const float* x, void* y,
                       cudaStream_t stream);

/// NHWC images of bytes, 3 channels, to float in the same or NCHW order: x * scale[c] + shift[c].
struct PictureShape {
  std::int64_t n = 1;
  std::int64_t pixels = 1;  ///< of an image
  bool channels_last = false;
  float scale[3] = {1.0F, 1.0F, 1.0F};
  float shift[3] = {};
};
cudaError_t normalize(const PictureShape& shape, const std::uint8_t* x, float* y, cudaStream_t stream);

/// Output axes from slowest to fastest, and where each lies in the input.
struct StridedShape {
  static constexpr int kMaxRank = 8;
  int rank = 0;
  std::int64_t extents[kMaxRank] = {};
  std::int64_t x_strides[kMaxRank] = {};  ///< in elements
};

/// y[i, j, ...] = x[i * stride_i + j * stride_j + ...]: any permutation, with conversion. At most 2^31 - 1
/// elements.
cudaError_t strided_copy(const StridedShape& shape, Element x_element, Element y_element, const void* x, void* y,
                         cudaStream_t stream);

/// Mean over H and W of each image and channel; y is (n, c).
cudaError_t global_average(const TensorShape& x_shape, const void* x, void* y, cudaStream_t stream);

}  // namespace mobicuda::cudnn
