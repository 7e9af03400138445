// conv2d for a network's first layer with mma.sync on inputs in two parts: limits, launch. The kernel:
// kernel.cuh.

#include "kernels/conv2d/split/kernel.cuh"

#include <algorithm>

#include "kernels/common/conv_chunks.h"
#include "kernels/common/resident_blocks.h"
#include "kernels/conv2d/families.h"
#include "kernels/conv2d/host.h"

namespace mobicuda::kernels {
namespace {

using namespace conv_split;
using Input = Conv2dParams::Input;

bool supports_split(const Conv2dParams& p, const DeviceTraits& gpu) {
  const bool in_float = p.input == Input::NchwFloat || p.input == Input::NhwcFloat;
  return gpu.code >= 80 && kSharedBytes <= gpu.shared_bytes_per_block && p.elem == Elem::F16 && in_float &&
         p.groups == 1 && p.c_in == kIn && (p.c_out == 16 || p.c_out == 32) && !p.residual && p.kernel_h == 3 &&
         p.kernel_w == 3 && p.stride_h == kStride && p.stride_w == kStride && p.dilation_h == 1 && p.dilation_w == 1;
}

template <bool kWide, int kBlocksN>
cudaError_t launch_form(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  const auto kernel = split_kernel<kWide, kBlocksN>;
  int most = 0;
  const cudaError_t status = resident_blocks(kernel, kThreads, kSharedBytes, kSharedBytes, most);
  if (status != cudaSuccess) return status;
  const int y_pitch = p.y_pitch == 0 ? p.c_out : p.y_pitch;
  const int lead = kWide ? (kChunk - p.pad_left % kChunk) % kChunk : 0;
  const std::int64_t x_picture = std::int64_t{p.h} * p.w * p.c_in;
  const std::int64_t y_picture = std::int64_t{p.out_h} * p.out_w * y_pitch;
  convolution::Arguments a = convolution::arguments(p);
  const auto launch_chunk = [&](const ItemGrid& items, std::int64_t first) {
    a.grid = items;
    const dim3 grid(std::min(items.items, static_cast<std::uint32_t>(most)));
    return launch(kernel, grid, dim3(kThreads), kSharedBytes, where, a, lead, y_pitch,
                  convolution::picture<float>(buffers.x, first, x_picture), static_cast<const __half*>(buffers.packed),
                  buffers.bias, static_cast<__half*>(buffers.y) + first * y_picture);
  };
  return for_each_chunk(p.n, ceil_div(p.out_h, kRows), ceil_div(p.out_w, kColumns), 1, launch_chunk);
}

cudaError_t launch_split(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  const bool wide = p.input == Input::NchwFloat && p.w % kChunk == 0 && aligned_16(buffers.x);
  if (p.c_out == 16) {
    return wide ? launch_form<true, 2>(p, buffers, where) : launch_form<false, 2>(p, buffers, where);
  }
  return wide ? launch_form<true, 4>(p, buffers, where) : launch_form<false, 4>(p, buffers, where);
}

constexpr Conv2dEntry kEntries[] = {
    {Conv2dVariant::Stem3x3Split, "stem3x3_split", {}, supports_split, launch_split, true},
};

}  // namespace

std::span<const Conv2dEntry> conv2d_split_entries() { return kEntries; }

}  // namespace mobicuda::kernels
