// Convolution as a matrix product of gathered pixels, exact float and double, and half of any channels: variants,
// limits, launch. The kernel and the sums of ordinary units: kernel.cuh. Double on tensor cores: dmma.cuh.
// Shared memory: a ring of slices, and the partial sums where groups of threads share a tile's sum; 53 to 131 KB.

#include <limits>
#include <type_traits>

#include "kernels/common/conv_chunks.h"
#include "kernels/common/variant_table.h"
#include "kernels/conv2d/families.h"
#include "kernels/conv2d/host.h"
#include "kernels/conv2d/simt/dmma.cuh"
#include "kernels/conv2d/simt/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using convolution::Dmma;
using convolution::picture;
using convolution::Simt;
using Input = Conv2dParams::Input;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

template <class S, bool kWhole, class X, class E>
cudaError_t launch_gathered(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  const auto kernel = convolution::gathered_kernel<S, kWhole, X, E>;
  constexpr std::size_t kSharedBytes = S::template Shape<Real<E>>::kSharedBytes;
  if (const cudaError_t error = allow_shared_memory(kernel, kSharedBytes); error != cudaSuccess) return error;
  convolution::GatheredArguments args{};
  args.conv = convolution::arguments(p);
  args.group_in = FastDivision(static_cast<std::uint32_t>(args.conv.group_in));
  args.kernel_w = FastDivision(static_cast<std::uint32_t>(p.kernel_w));
  args.k = p.kernel_h * p.kernel_w * args.conv.group_in;
  args.k_slices = ceil_div(args.k, S::kBk);
  args.column_tiles = ceil_div(args.conv.group_out, S::kBn);
  const std::int64_t x_picture = std::int64_t{p.h} * p.w * p.c_in;
  const std::int64_t y_picture = std::int64_t{p.out_h} * p.out_w * p.c_out;
  const auto launch_chunk = [&](const ItemGrid& items, std::int64_t first) {
    args.conv.grid = items;
    const dim3 grid((items.items + S::kBm - 1) / S::kBm, static_cast<unsigned>(args.column_tiles * p.groups));
    return launch(kernel, grid, dim3(S::kThreads), kSharedBytes, where, args, picture<X>(buffers.x, first, x_picture),
                  static_cast<const E*>(buffers.packed), buffers.bias, picture<E>(buffers.residual, first, y_picture),
                  static_cast<E*>(buffers.y) + first * y_picture);
  };
  return for_each_chunk(p.n, p.out_h, p.out_w, 1, launch_chunk);
}

template <class S, class X, class E>
cudaError_t launch_from(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  if constexpr (std::is_same_v<X, Real<E>>) {  // half is converted while it is gathered, value by value
    const bool whole = p.input != Input::NchwFloat && p.c_in / p.groups % kWide<X> == 0 && aligned_16(buffers.x);
    if (whole) return launch_gathered<S, true, X, E>(p, buffers, where);
  }
  return launch_gathered<S, false, X, E>(p, buffers, where);
}

/// OfFloat, OfDouble, OfHalf: the configurations of the variant, void where it has none.
template <class OfFloat, class OfDouble, class OfHalf>
cudaError_t launch_variant(const Conv2dParams& p, const Conv2dBuffers& buffers, const Launch& where) {
  if constexpr (!std::is_void_v<OfFloat>) {
    if (p.elem == Elem::F32) return launch_from<OfFloat, float, float>(p, buffers, where);
  }
  if constexpr (!std::is_void_v<OfDouble>) {
    if (p.elem == Elem::F64 && p.input == Input::NhwcElem) {
      return launch_from<OfDouble, double, double>(p, buffers, where);
    }
    if (p.elem == Elem::F64) return launch_from<OfDouble, float, double>(p, buffers, where);
  }
  if constexpr (!std::is_void_v<OfHalf>) {
    if (p.elem == Elem::F16 && p.input == Input::NhwcElem) {
      return launch_from<OfHalf, __half, __half>(p, buffers, where);
    }
    if (p.elem == Elem::F16) return launch_from<OfHalf, float, __half>(p, buffers, where);
  }
  return cudaErrorInvalidValue;
}

/// Of a block; zero where the variant does not take the element.
template <class S, class E>
constexpr std::size_t shared_bytes() {
  if constexpr (std::is_void_v<S>) {
    return 0;
  } else {
    return S::template Shape<Real<E>>::kSharedBytes;
  }
}

template <class OfFloat, class OfDouble, class OfHalf>
constexpr std::size_t shared_bytes_of(Elem elem) {
  if (elem == Elem::F32) return shared_bytes<OfFloat, float>();
  return elem == Elem::F64 ? shared_bytes<OfDouble, double>() : shared_bytes<OfHalf, __half>();
}

template <class OfFloat, class OfDouble, class OfHalf>
bool supports_variant(const Conv2dParams& p, const DeviceTraits& gpu) {
  constexpr int kOutputs = 4;     // of which a group has a multiple
  constexpr int kLeastTile = 32;  // channels
  constexpr int kTensorCores = 90;
  constexpr int kAsynchronousCopies = 80;
  if (p.input == Input::NhwcUint8) return false;
  if (p.elem == Elem::F32 && std::is_void_v<OfFloat>) return false;
  if (p.elem == Elem::F64 && std::is_void_v<OfDouble>) return false;
  if (p.elem == Elem::F16 && std::is_void_v<OfHalf>) return false;
  if (gpu.code < (std::is_void_v<OfFloat> ? kTensorCores : kAsynchronousCopies)) return false;
  if (shared_bytes_of<OfFloat, OfDouble, OfHalf>(p.elem) > gpu.shared_bytes_per_block) return false;
  const int group_out = p.c_out / p.groups;
  const std::int64_t k = std::int64_t{p.kernel_h} * p.kernel_w * (p.c_in / p.groups);
  return (p.groups == 1 || group_out % kOutputs == 0) && k <= kMaxInt / 2 &&
         std::int64_t{p.groups} * ceil_div(group_out, kLeastTile) <= kMaxGridYz;
}

template <class OfFloat, class OfDouble, class OfHalf = void, bool kBuilt = true>
constexpr Conv2dEntry entry(Conv2dVariant variant, std::string_view name) {
  using S = std::conditional_t<std::is_void_v<OfFloat>, OfDouble, OfFloat>;
  Conv2dEntry made{variant, name, {S::kBm, S::kBn, S::kBk, 1}, nullptr, nullptr};
  if constexpr (kBuilt) {
    made.supports = supports_variant<OfFloat, OfDouble, OfHalf>;
    made.launch = launch_variant<OfFloat, OfDouble, OfHalf>;
  }
  return made;
}

using Variant = Conv2dVariant;

// clang-format off
constexpr Conv2dEntry kEntries[] = {
    //         bm   bn  bk tm tn split_k stages min_blocks
    entry<Simt<128, 128, 16, 8, 8, 1, 3, 2>, void>(Variant::Simt128x128x16, "simt_128x128x16"),
    entry<Simt<128, 64, 16, 8, 8, 1, 3, 3>, Simt<128, 64, 16, 8, 8, 1, 3, 2>>(Variant::Simt128x64x16, "simt_128x64x16"),
    entry<Simt<64, 64, 16, 8, 4, 1, 3, 4>, Simt<64, 64, 16, 8, 4, 1, 3, 2>, Simt<64, 64, 16, 8, 4, 1, 3, 4>>(Variant::Simt64x64x16, "simt_64x64x16"),
    entry<Simt<32, 32, 32, 4, 4, 4, 4, 2>, Simt<32, 32, 32, 4, 4, 4, 4, 1>, Simt<32, 32, 32, 4, 4, 4, 4, 2>>(Variant::Simt32x32x32K4, "simt_32x32x32_k4"),
    entry<Simt<16, 32, 64, 4, 4, 8, 4, 2>, Simt<16, 32, 64, 4, 4, 8, 4, 1>, Simt<16, 32, 64, 4, 4, 8, 4, 2>>(Variant::Simt16x32x64K8, "simt_16x32x64_k8"),
    //               bm   bn  bk  warps m, n, k stages min_blocks
    entry<void, Dmma<128, 64, 16, 4, 2, 1, 4, 1>, void, kAllVariants>(Variant::Dmma128x64x16, "dmma_128x64x16"),
    entry<void, Dmma<64, 64, 16, 2, 2, 1, 4, 3>, void, kAllVariants>(Variant::Dmma64x64x16, "dmma_64x64x16"),
    entry<void, Dmma<32, 32, 32, 2, 1, 2, 4, 3>, void, kAllVariants>(Variant::Dmma32x32x32K2, "dmma_32x32x32_k2"),
    entry<void, Dmma<16, 32, 64, 1, 1, 4, 4, 1>, void, kAllVariants>(Variant::Dmma16x32x64K4, "dmma_16x32x64_k4"),
};
// clang-format on

}  // namespace

std::span<const Conv2dEntry> conv2d_simt_entries() { return kEntries; }

}  // namespace mobicuda::kernels
