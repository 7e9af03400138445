#include "baselines/cpu/ops/int8_kernels.h"

#include <algorithm>
#include <cstring>

#include "baselines/cpu/ops/fp32_kernels.h"

namespace mobicuda::cpu {
namespace {

constexpr std::int64_t kSumBytes = sizeof(std::int32_t);
constexpr std::int64_t kInterleavedLine = 16;  // of channels that an instruction interleaves: int8_channel_order()

// Writes int16 of `from`, which are int8 where operands are Quads.
void write_operand(const Int8Kernels& kernels, std::int16_t from, std::int64_t at, std::byte* to) {
  if (kernels.operands == Int8Operands::Quads) {
    to[at] = static_cast<std::byte>(from);
  } else {
    std::memcpy(to + at * static_cast<std::int64_t>(sizeof(from)), &from, sizeof(from));
  }
}

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::vector<const Int8Kernels*> supported_int8_kernels() {
  std::vector<const Int8Kernels*> supported{&int8_kernels_generic()};
#ifdef MOBICUDA_CPU_X86
  const std::size_t sets = supported_fp32_kernels().size();
  if (sets > 1) supported.push_back(&int8_kernels_avx2());
  if (sets > 2) supported.push_back(&int8_kernels_avx512());
  if (sets > 2 && __builtin_cpu_supports("avx512vnni")) supported.push_back(&int8_kernels_avx512_vnni());
#endif
  return supported;
}

const Int8Kernels& int8_kernels(bool weights_are_int8) {
  static const std::vector<const Int8Kernels*> supported = supported_int8_kernels();
  if (weights_are_int8) return *supported.back();
  const auto of_pairs = std::find_if(supported.rbegin(), supported.rend(),
                                     [](const Int8Kernels* set) { return set->operands == Int8Operands::Pairs; });
  return **of_pairs;
}

std::int64_t int8_group(const Int8Kernels& kernels) { return kernels.operands == Int8Operands::Quads ? 4 : 2; }

std::int64_t int8_operand_bytes(const Int8Kernels& kernels) { return 4 / int8_group(kernels); }

std::int32_t int8_zero_point(const Int8Kernels& kernels, bool x_is_signed, std::int32_t x_zero_point) {
  if (kernels.operands == Int8Operands::Pairs) return 0;
  return x_is_signed ? x_zero_point + 128 : x_zero_point;
}

std::int32_t int8_bias(std::int32_t bias, std::int32_t zero_point, std::int64_t weights) {
  // As the sums themselves: a result that is in int32 comes out right where parts of it are not.
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(std::int64_t{bias} - zero_point * weights));
}

std::int64_t int8_packed_bytes(const Int8Kernels& kernels, std::int64_t n, std::int64_t k) {
  return rounded_up(n, kernels.panel) * rounded_up(k, int8_group(kernels)) * int8_operand_bytes(kernels);
}

void int8_pack(const Int8Kernels& kernels, std::int64_t n, std::int64_t k, const std::int16_t* rows, std::byte* to) {
  const std::int64_t group = int8_group(kernels);
  const std::int64_t whole = rounded_up(k, group);
  std::fill_n(to, int8_packed_bytes(kernels, n, k), std::byte{0});
  for (std::int64_t row = 0; row < n; ++row) {
    const std::int64_t lane = row / kernels.panel * kernels.panel * whole + row % kernels.panel * group;
    for (std::int64_t i = 0; i < k; ++i) {
      write_operand(kernels, rows[row * k + i], lane + i / group * group * kernels.panel + i % group, to);
    }
  }
}

std::int64_t int8_whole_blocks(const Int8Kernels& kernels, std::int64_t c) { return rounded_up(c, kernels.block); }

std::int64_t int8_depthwise_bytes(const Int8Kernels& kernels, std::int64_t c, std::int64_t kernel_h,
                                  std::int64_t kernel_w) {
  if (kernels.operands == Int8Operands::Pairs) return c * kernel_h * kernel_w * kSumBytes;
  return int8_whole_blocks(kernels, c) * rounded_up(kernel_h, int8_group(kernels)) * kernel_w *
         int8_operand_bytes(kernels);
}

void int8_pack_depthwise(const Int8Kernels& kernels, std::int64_t c, std::int64_t kernel_h, std::int64_t kernel_w,
                         const std::int16_t* filters, std::byte* to) {
  if (kernels.operands == Int8Operands::Pairs) {
    const std::int64_t taps = kernel_h * kernel_w;
    for (std::int64_t i = 0; i < c * taps; ++i) {
      const std::int32_t weight = filters[i];
      std::memcpy(to + (i % taps * c + i / taps) * kSumBytes, &weight, sizeof(weight));
    }
    return;
  }
  const std::int64_t group = int8_group(kernels);
  const std::int64_t groups = rounded_up(kernel_h, group) / group;
  std::fill_n(to, int8_depthwise_bytes(kernels, c, kernel_h, kernel_w), std::byte{0});
  for (std::int64_t channel = 0; channel < c; ++channel) {
    const std::int64_t block = channel / kernels.block;
    const std::int64_t place = int8_channel_order(kernels, channel) % kernels.block;
    for (std::int64_t ky = 0; ky < kernel_h; ++ky) {
      for (std::int64_t kx = 0; kx < kernel_w; ++kx) {
        const std::int64_t of_block = (kx * groups + ky / group) * kernels.block + place;
        write_operand(kernels, filters[(channel * kernel_h + ky) * kernel_w + kx],
                      (block * kernel_w * groups * kernels.block + of_block) * group + ky % group, to);
      }
    }
  }
}

std::int64_t int8_channel_order(const Int8Kernels& kernels, std::int64_t channel) {
  if (kernels.operands == Int8Operands::Pairs) return channel;
  // Bytes of four rows are interleaved within each line of 16, four channels to a register, and so are the registers'
  // lines.
  const std::int64_t in_block = channel % kernels.block;
  const std::int64_t lanes = kernels.block / 4;
  const std::int64_t in_line = in_block % kInterleavedLine;
  return channel - in_block + in_line / 4 * lanes + in_block / kInterleavedLine * 4 + in_line % 4;
}

Int8Columns int8_columns(const Int8DepthwiseTask& shape) {
  constexpr std::int64_t kColumns = 64;  // which the L1 cache has room for
  constexpr std::int64_t kPixels = 4;    // which are computed side by side
  const std::int64_t window = (shape.kernel_w - 1) * shape.dilation_w + 1;
  // Where neighbours have few columns in common, or a window is wide, each output pixel has columns of its own.
  const bool share = window + (kPixels - 1) * shape.stride_w <= kColumns && shape.stride_w <= shape.kernel_w;
  if (!share) return {kPixels, kPixels * shape.kernel_w, shape.kernel_w, 1, false};
  const std::int64_t pixels = std::min((kColumns - window) / shape.stride_w + 1, shape.out_w);
  return {pixels, (pixels - 1) * shape.stride_w + window, shape.stride_w, shape.dilation_w, true};
}

std::int64_t int8_scratch_bytes(const Int8Kernels& kernels, const Int8DepthwiseTask& shape) {
  if (kernels.operands == Int8Operands::Pairs) return checked_multiply(shape.c, kSumBytes);
  const std::int64_t rows = rounded_up(shape.kernel_h, int8_group(kernels));
  return checked_multiply(int8_columns(shape).count, rows * int8_operand_bytes(kernels) * kernels.block);
}

}  // namespace mobicuda::cpu
