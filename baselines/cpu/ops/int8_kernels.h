#pragma once

#include <cstddef>
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

  [[gnu::always_inline]] Int8Output at(
      std::int64_t element) const {  // no copy for one instruction set must serve others
    return {integers == nullptr ? nullptr : integers + element, reals == nullptr ? nullptr : reals + element, rounding};
  }
};

/// y = round((x * w^T + bias) * multiplier) for `rows` rows of x and the panels first_panel..last_panel of w.
struct Int8ProductTask {
  const void* x = nullptr;             ///< rows of k operands: Int8Operands
  std::int64_t x_stride = 0;           ///< from row to row, in operands
  const void* packed = nullptr;        ///< int8_pack()
  const std::int32_t* bias = nullptr;  ///< int8_bias() of n outputs, filled up to whole panels
  const float* multiplier = nullptr;   ///< the same
  Int8Output y;
  std::int64_t y_stride = 0;
  std::int64_t rows = 0, k = 0, n = 0;  ///< k is a multiple of int8_group()
  std::int64_t first_panel = 0, last_panel = 0;
};

/// One output row of a depthwise convolution, NHWC.
struct Int8DepthwiseTask {
  const std::uint8_t* x = nullptr;  ///< the image
  bool is_signed = true;            ///< whether x is of I8
  std::int32_t x_zero_point = 0;
  const void* packed = nullptr;        ///< int8_pack_depthwise()
  const std::int32_t* bias = nullptr;  ///< int8_bias() by int8_channel_order(), filled up to whole blocks
  const float* multiplier = nullptr;   ///< the same
  std::byte* scratch = nullptr;        ///< memory of int8_scratch_bytes(), aligned to 64 bytes
  Int8Output y;                        ///< the output row
  std::int64_t h = 0, w = 0, c = 0, out_w = 0, oy = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
};

/// What an instruction multiplies and adds up to a sum of int32.
enum class Int8Operands : std::uint8_t {
  Pairs,  ///< two int16 of x, without their zero point, by two of w
  Quads,  ///< four bytes of x as they are of U8, with 128 added of I8, by four int8 of w
};

/// The inner loops for one instruction set. Sums are exact: a graph has none that leave int32.
struct Int8Kernels {
  const char* name;
  Int8Operands operands;
  std::int64_t panel;  ///< outputs in a panel of packed weights
  std::int64_t block;  ///< channels of a depthwise convolution that are computed side by side
  void (*products)(const Int8ProductTask& task);
  void (*depthwise)(const Int8DepthwiseTask& task);
};

const Int8Kernels& int8_kernels_generic();
#ifdef MOBICUDA_CPU_X86
const Int8Kernels& int8_kernels_avx2();
const Int8Kernels& int8_kernels_avx512();
const Int8Kernels& int8_kernels_avx512_vnni();
#endif

/// The fastest loops of this processor for weights that are all int8 without their zero points, or for others, which
/// take Int8Operands::Pairs.
const Int8Kernels& int8_kernels(bool weights_are_int8);

/// All that this processor has, the fastest last.
std::vector<const Int8Kernels*> supported_int8_kernels();

/// Operands that an instruction takes of x and of w for one sum: 2 or 4.
std::int64_t int8_group(const Int8Kernels& kernels);

/// Bytes of an operand.
std::int64_t int8_operand_bytes(const Int8Kernels& kernels);

/// The zero point of x as Int8Operands has x: 0 for pairs.
std::int32_t int8_zero_point(const Int8Kernels& kernels, bool x_is_signed, std::int32_t x_zero_point);

/// What a sum begins at: the bias less what x's zero point, int8_zero_point(), adds to a sum of products with weights
/// whose sum is `weights`.
std::int32_t int8_bias(std::int32_t bias, std::int32_t zero_point, std::int64_t weights);

/// Packs rows (n, k) for products(): panels of Int8Kernels::panel rows, the last filled up with zeros, each as groups
/// of neighbours along k. `to` has int8_packed_bytes().
std::int64_t int8_packed_bytes(const Int8Kernels& kernels, std::int64_t n, std::int64_t k);
void int8_pack(const Int8Kernels& kernels, std::int64_t n, std::int64_t k, const std::int16_t* rows, std::byte* to);

/// Packs filters (c, kernel_h, kernel_w) for depthwise(). Pairs: int32, tap by tap. Quads: of each block of channels
/// its columns, of each column its groups of rows, filled up with zeros, of each group its channels by
/// int8_channel_order(). `to` has int8_depthwise_bytes().
std::int64_t int8_depthwise_bytes(const Int8Kernels& kernels, std::int64_t c, std::int64_t kernel_h,
                                  std::int64_t kernel_w);
void int8_pack_depthwise(const Int8Kernels& kernels, std::int64_t c, std::int64_t kernel_h, std::int64_t kernel_w,
                         const std::int16_t* filters, std::byte* to);

/// Where depthwise() has a channel.
std::int64_t int8_channel_order(const Int8Kernels& kernels, std::int64_t channel);

/// Channels filled up to whole blocks.
std::int64_t int8_whole_blocks(const Int8Kernels& kernels, std::int64_t c);

/// Quads: the columns under some output pixels of a depthwise convolution, gathered before they are multiplied.
struct Int8Columns {
  std::int64_t pixels = 0;    ///< output pixels, fewer at the end of a row
  std::int64_t count = 0;     ///< columns under them
  std::int64_t of_pixel = 0;  ///< from the column of an output pixel's tap to that of the next one's
  std::int64_t of_tap = 0;    ///< from the column of a tap to that of the next
  bool are_shared = true;     ///< neighbours on in x, which several output pixels have; else each has its own
};
Int8Columns int8_columns(const Int8DepthwiseTask& shape);

/// Of a task's `scratch`.
std::int64_t int8_scratch_bytes(const Int8Kernels& kernels, const Int8DepthwiseTask& shape);

}  // namespace mobicuda::cpu
