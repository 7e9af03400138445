// Products of floats on tensor cores: variants, limits, packing, launch. Pipeline and epilogue: kernels/gemm. Indices
// within a matrix are size_t; m, n and k are at most 2^30.

#include "kernels/split_gemm/split_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/common/product_launch.h"
#include "kernels/common/split_exponent.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/split_gemm/families.h"
#include "kernels/split_gemm/mma.cuh"

namespace mobicuda::kernels {
namespace {

using products::MmaConfig;
using products::ProductArgs;
using split_gemm_detail::column_at;
using split_gemm_detail::Extents;
using split_gemm_detail::k_at;
using split_gemm_detail::kMatrixBytes;
using split_gemm_detail::kPartBytes;
using split_gemm_detail::kScalesAt;
using split_gemm_detail::kSlice;
using split_gemm_detail::kSpan;
using split_gemm_detail::kStepK;
using split_gemm_detail::kWidestTile;
using split_gemm_detail::SplitMmaTile;

constexpr int kLargestExtent = 1 << 30;
constexpr int kChunk = 4;  // of k: a lane's

using LaunchFunction = cudaError_t (*)(ProductArgs args, const Launch& where);
using SharedFunction = std::size_t (*)(int k);

struct Entry {
  SplitGemmVariant variant;
  std::string_view name;
  SharedFunction shared_bytes;  ///< null: of split_gemm_wgmma
  LaunchFunction launch;
};

template <MmaConfig kConfig>
constexpr Entry tile(SplitGemmVariant variant, std::string_view name) {
  using Tile = SplitMmaTile<kConfig>;
  return {variant, name, products::largest_shared_bytes<Tile>, products::launch_tile<Tile>};
}

constexpr Entry wgmma(SplitGemmVariant variant, std::string_view name) { return {variant, name, nullptr, nullptr}; }

// clang-format off
constexpr Entry kEntries[] = {
    //             bm   bn   bk  warps m, n, k  stages  resident  min_blocks
    tile<MmaConfig{128, 96,  32,       4, 1, 1,      3,    false,          2}>(SplitGemmVariant::Tile128x96x32, "128x96x32"),
    tile<MmaConfig{128, 64,  32,       4, 1, 1,      3,    false,          3}>(SplitGemmVariant::Tile128x64x32, "128x64x32"),
    tile<MmaConfig{128, 32,  32,       4, 1, 1,      4,     true,          4}>(SplitGemmVariant::Tile128x32x32, "128x32x32"),
    tile<MmaConfig{ 64, 64,  32,       4, 1, 1,      4,    false,          3}>(SplitGemmVariant::Tile64x64x32, "64x64x32"),
    tile<MmaConfig{ 64, 32,  32,       4, 1, 1,      4,    false,          5}>(SplitGemmVariant::Tile64x32x32, "64x32x32"),
    tile<MmaConfig{ 32, 32,  64,       2, 1, 2,      4,    false,          4}>(SplitGemmVariant::Tile32x32x64K2, "32x32x64_k2"),
    tile<MmaConfig{ 32, 32, 128,       2, 1, 4,      4,    false,          2}>(SplitGemmVariant::Tile32x32x128K4, "32x32x128_k4"),
    tile<MmaConfig{ 16, 32, 256,       1, 1, 8,      3,    false,          2}>(SplitGemmVariant::Tile16x32x256K8, "16x32x256_k8"),
    wgmma(SplitGemmVariant::Wgmma192x96x64, "wgmma_192x96x64"),
    wgmma(SplitGemmVariant::Wgmma128x160x64, "wgmma_128x160x64"),
    wgmma(SplitGemmVariant::Wgmma128x96x64, "wgmma_128x96x64"),
    wgmma(SplitGemmVariant::Wgmma128x64x32, "wgmma_128x64x32"),
    wgmma(SplitGemmVariant::Wgmma128x32x32, "wgmma_128x32x32"),
    wgmma(SplitGemmVariant::Wgmma64x64x64, "wgmma_64x64x64"),
    wgmma(SplitGemmVariant::Wgmma64x32x64, "wgmma_64x32x64"),
    wgmma(SplitGemmVariant::Wgmma64x96x64K2, "wgmma_64x96x64_k2"),
    wgmma(SplitGemmVariant::Wgmma64x64x64K3, "wgmma_64x64x64_k3"),
    wgmma(SplitGemmVariant::Wgmma64x32x64K4, "wgmma_64x32x64_k4"),
    wgmma(SplitGemmVariant::Wgmma64x32x64K2, "wgmma_64x32x64_k2"),
};
// clang-format on

constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

const Entry& entry_of(SplitGemmVariant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

bool pitch_fits(int pitch, int extent, bool whole_chunks) {
  return pitch == 0 || (pitch >= extent && pitch % kChunk == 0 && (!whole_chunks || extent % kChunk == 0));
}

}  // namespace

std::span<const SplitGemmVariant> split_gemm_variants() { return kVariants; }

std::string_view name(SplitGemmVariant variant) { return entry_of(variant).name; }

bool supports(SplitGemmVariant variant, const SplitGemmParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 80;  // mma.sync m16n8k16
  if (static_cast<std::size_t>(variant) >= kVariants.size() || gpu.code < kOldest || !p.in_range) return false;
  if (p.m < 0 || p.n < 1 || p.k < kChunk || p.k % kChunk != 0) return false;
  if (p.m > kLargestExtent || p.n > kLargestExtent || p.k > kLargestExtent) return false;
  if (!pitch_fits(p.x_pitch, p.k, true) || !pitch_fits(p.y_pitch, p.n, false)) return false;
  const Entry& entry = entry_of(variant);
  if (entry.launch == nullptr && !(gpu.wgmma_code && split_gemm_wgmma::has(variant))) return false;
  return entry.launch == nullptr || entry.shared_bytes(p.k) <= gpu.shared_bytes_per_block;
}

std::size_t split_gemm_packed_bytes(int n, int k) {
  const auto factors = static_cast<std::size_t>(kScalesAt + round_up(n, kWidestTile));
  return Extents(n, k).bytes() + factors * sizeof(float);
}

void split_gemm_pack(int n, int k, float x_bound, const float* weight, void* packed) {
  std::memset(packed, 0, split_gemm_packed_bytes(n, k));
  const Extents extents(n, k);
  auto* const factors = reinterpret_cast<float*>(static_cast<std::byte*>(packed) + extents.bytes());
  const int x_exponent = split_exponent(x_bound);
  factors[0] = std::ldexp(1.0F, x_exponent);
  std::vector<int> exponents(static_cast<std::size_t>(n));
  for (int column = 0; column < n; ++column) {
    const float* from = weight + static_cast<std::size_t>(column) * static_cast<std::size_t>(k);
    float largest = 0.0F;
    for (int i = 0; i < k; ++i) largest = std::max(largest, std::abs(from[i]));
    exponents[static_cast<std::size_t>(column)] = split_exponent(largest);
    factors[kScalesAt + column] = std::ldexp(1.0F, -exponents[static_cast<std::size_t>(column)] - x_exponent);
  }
  auto* to = static_cast<__half*>(packed);
  constexpr int kSteps = kSlice / kStepK;
  const std::ptrdiff_t part = extents.groups * (kPartBytes / 2);  // from upper to lower parts
  for (int step = 0; step < extents.steps; ++step, to += part) {
    for (int group = 0; group < extents.groups; ++group) {
      for (int place = 0; place < 8; ++place, to += 8) {
        const int column = group / 2 * kSpan + column_at(group % 2 * 8 + place);
        if (column >= n) continue;
        const float* from = weight + static_cast<std::size_t>(column) * static_cast<std::size_t>(k);
        for (int i = 0; i < kStepK; ++i) {
          const int at = step / kSteps * kSlice + k_at(step % kSteps, i);
          if (at >= k) continue;
          const float value = std::ldexp(from[at], exponents[static_cast<std::size_t>(column)]);
          const __half hi = __float2half_rn(value);
          const std::ptrdiff_t word = i / 8 * (kMatrixBytes / 2) + i % 8;
          to[word] = hi;
          to[part + word] = __float2half_rn(value - __half2float(hi));
        }
      }
      to += kMatrixBytes / 2;  // the second 8 of k
    }
  }
}

cudaError_t split_gemm(SplitGemmVariant variant, const SplitGemmParams& params, const float* x, const void* packed,
                       const float* bias, const float* residual, float* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  if ((params.bias && bias == nullptr) || (params.residual && residual == nullptr)) return cudaErrorInvalidValue;
  if (params.m == 0) return cudaSuccess;
  ProductArgs args{};
  args.x = x;
  args.w = packed;
  args.bias = params.bias ? bias : nullptr;
  args.residual = params.residual ? residual : nullptr;
  args.y = y;
  args.m = params.m;
  args.n = params.n;
  args.k = params.k;
  args.x_pitch = params.x_pitch == 0 ? params.k : params.x_pitch;
  args.y_pitch = params.y_pitch == 0 ? params.n : params.y_pitch;
  args.y_is_float = true;
  args.activation = params.activation;
  const LaunchFunction launch = entry_of(variant).launch;
  return launch == nullptr ? split_gemm_wgmma::launch(variant, args, where) : launch(args, where);
}

// The kernel's table.
namespace {

// Rows are pixels of images.
SplitGemmParams with_batch(SplitGemmParams p, int n, int of) {
  p.m = p.m / of * n;
  return p;
}

OperandBytes operands(SplitGemmVariant, const SplitGemmParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(Elem::F32, p.m, p.k);
  bytes.weights[0] = table::as_bytes(split_gemm_packed_bytes(p.n, p.k));
  bytes.weights[1] = table::bias_bytes(p.n);
  bytes.y = table::bytes(Elem::F32, p.m, p.n);
  if (p.residual) bytes.residual = bytes.y;
  return bytes;
}

cudaError_t launch_on(SplitGemmVariant variant, const SplitGemmParams& p, const Operands& at, const Launch& where) {
  return split_gemm(variant, p, static_cast<const float*>(at.x), at.weights[0], table::bias(p.bias, at.weights[1]),
                    static_cast<const float*>(at.residual), static_cast<float*>(at.y), where);
}

std::string shape(const SplitGemmParams& p) {
  table::ShapeText text("split_gemm");
  text.with("m", p.m).with("n", p.n).with("k", p.k);
  return text.with("bias", p.bias).with("residual", p.residual).with("activation", p.activation).take();
}

}  // namespace

const KernelTable<SplitGemmParams, SplitGemmVariant>& kernel_of(const SplitGemmParams&) {
  static const KernelTable<SplitGemmParams, SplitGemmVariant> kTable{
      .name = "split_gemm",
      .variants = split_gemm_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_batch,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
