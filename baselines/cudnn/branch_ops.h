#pragma once

#include <array>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "cudnn/elementwise.h"

namespace mobicuda::cudnn {

// What networks with branches need and cuDNN has no operation for, or has with limits or slower kernels. The same
// promises as in elementwise.h.

/// f(x, b) of Binary. A NaN in either is the result; of two zeros Max and Min give b's.
enum class BinaryFunction : std::uint8_t { Product, Max, Min };

/// y = act(f(x, b)), b of x's shape or one value for each image and channel.
struct Binary {
  TensorShape shape;
  BinaryFunction function = BinaryFunction::Product;
  Activation activation;
  bool by_channel = false;
};
cudaError_t binary(const Binary& op, const void* x, const void* b, void* y, cudaStream_t stream);

/// y[i, j, ...] = act(f(x[i, j, ...], b[i * stride_i + j * stride_j + ...])) with packed x and y; a stride of 0
/// repeats. Of `op`, the shape's element, the function and the activation.
cudaError_t binary_strided(const StridedShape& b_shape, const Binary& op, const void* x, const void* b, void* y,
                           cudaStream_t stream);

/// Maximum or mean of the window's taps that lie in the image; a NaN among them is the result. Of no taps, -inf or 0.
struct PoolShape {
  TensorShape x;
  std::int64_t out_h = 1, out_w = 1;
  std::array<std::int64_t, 2> kernel{1, 1}, strides{1, 1}, dilations{1, 1};
  Padding pads;
  bool average = false;
  bool count_padding = false;  ///< the mean divides by the taps in the padded image
  std::int64_t y_pitch = 0;    ///< as in Affine
};
cudaError_t pool(const PoolShape& shape, const void* x, void* y, cudaStream_t stream);

/// y[c] = x[c] / (bias + alpha / size * sum of x[k]^2)^beta over the channels k from c - (size - 1) / 2 on, `size` of
/// them, those outside left out.
struct Normalization {
  TensorShape shape;
  std::int64_t size = 1;
  float alpha = 0.0F, beta = 0.0F, bias = 1.0F;
};
cudaError_t normalize_channels(const Normalization& op, const void* x, void* y, cudaStream_t stream);

/// `rows` pieces of `bytes`, each at the rows' distance from the last: the parts of a joined tensor.
struct RowCopy {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  std::int64_t x_pitch_bytes = 0;
  std::int64_t y_pitch_bytes = 0;
};
cudaError_t copy_rows(const RowCopy& op, const void* x, void* y, cudaStream_t stream);

}  // namespace mobicuda::cudnn
