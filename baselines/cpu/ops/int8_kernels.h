#pragma once

#include <cstdint>
#include <vector>

#include <mobicuda/types.h>

#include "graph/integer_arithmetic.h"

namespace mobicuda::cpu {

/// Where sums of products go: integers of 8 bits of either type, or real numbers.
struct Int8Output {
  std::uint8_t* integers = nullptr;  ///< may be null: `reals`
  float* reals = nullptr;
  IntegerRounding rounding;

  Int8Output at(std::int64_t element) const {
    return {integers == nullptr ? nullptr : integers + element, reals == nullptr ? nullptr : reals + element, rounding};
  }
};

/// y = round((x * w^T + bias) * multiplier) for `rows` rows of x and the panels first_panel..last_panel of w.
struct Int8ProductTask {
  const std::int16_t* x = nullptr;       ///< (rows, k), without zero points
  const std::int16_t* packed = nullptr;  ///< of each panel k / 2 times `panel` pairs: int8_pack()
  const std::int32_t* bias = nullptr;    ///< n values filled up to whole panels
  const float* multiplier = nullptr;     ///< the same
  Int8Output y;
  std::int64_t y_stride = 0;
  std::int64_t rows = 0, k = 0, n = 0;  ///< k is even
  std::int64_t first_panel = 0, last_panel = 0;
};

/// One output row of a depthwise convolution, NHWC.
struct Int8DepthwiseTask {
  const std::uint8_t* x = nullptr;  ///< the image
  bool is_signed = true;            ///< whether x is of I8
  std::int32_t x_zero_point = 0;
  const std::int32_t* packed = nullptr;  ///< (kernel_h, kernel_w, c), without zero points
  const std::int32_t* bias = nullptr;    ///< c values
  const float* multiplier = nullptr;     ///< c values
  std::int32_t* sums = nullptr;          ///< room for c values
  Int8Output y;                          ///< the output row
  std::int64_t h = 0, w = 0, c = 0, out_w = 0, oy = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
};

/// The inner loops for one instruction set. Sums are exact: a graph has none that leave int32.
struct Int8Kernels {
  std::int64_t panel;  ///< outputs in a panel of packed weights
  void (*products)(const Int8ProductTask& task);
  void (*depthwise)(const Int8DepthwiseTask& task);
};

const Int8Kernels& int8_kernels_generic();
#ifdef MOBICUDA_CPU_X86
const Int8Kernels& int8_kernels_avx2();
const Int8Kernels& int8_kernels_avx512();
#endif

/// Those of the instruction set of fp32_kernels().
const Int8Kernels& int8_kernels();

/// Of each of supported_fp32_kernels().
std::vector<const Int8Kernels*> supported_int8_kernels();

/// Packs rows (n, k) for products() of an instruction set: panels of `panel` rows, the last filled up with zeros, each
/// as pairs of neighbours along k. `to` has int8_packed_elements().
std::int64_t int8_packed_elements(std::int64_t n, std::int64_t k, std::int64_t panel);
void int8_pack(std::int64_t n, std::int64_t k, std::int64_t panel, const std::int16_t* rows, std::int16_t* to);

}  // namespace mobicuda::cpu
