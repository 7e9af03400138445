// Products of floats on tensor cores: variants, limits, packing, launch. Pipeline and epilogue: kernels/gemm. Indices
// within a matrix are size_t; m, n and k are at most 2^30.

#include "kernels/split_gemm/split_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/gemm/launch_tile.cuh"
#include "kernels/split_gemm/tile.cuh"

namespace mobicuda::kernels {
namespace {

using gemm_detail::GemmArgs;
using gemm_detail::MmaConfig;
using split_gemm_detail::kScalesAt;
using split_gemm_detail::kWidestTile;
using split_gemm_detail::SplitMmaTile;

constexpr int kLargestExtent = 1 << 30;
constexpr int kChunk = 4;             // of k: a lane's
constexpr int kLargestExponent = 15;  // scaled values are below 2^15, half of what a half holds

using LaunchFunction = cudaError_t (*)(GemmArgs args, const Launch& where);
using SharedFunction = std::size_t (*)(int k);

struct Entry {
  SplitGemmVariant variant;
  std::string_view name;
  SharedFunction shared_bytes;
  LaunchFunction launch;
};

template <MmaConfig kConfig>
constexpr Entry tile(SplitGemmVariant variant, std::string_view name) {
  using Tile = SplitMmaTile<kConfig>;
  return {variant, name, gemm_detail::largest_shared_bytes<Tile>, gemm_detail::launch_tile<Tile>};
}

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
};
// clang-format on

constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

const Entry& entry_of(SplitGemmVariant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

bool pitch_fits(int pitch, int extent, bool whole_chunks) {
  return pitch == 0 || (pitch >= extent && pitch % kChunk == 0 && (!whole_chunks || extent % kChunk == 0));
}

/// The exponent of the power of two that brings values up to `largest` below 2^kLargestExponent, and no further than
/// their products stay floats.
int scale_exponent(float largest) {
  constexpr int kMost = 60;
  if (!(largest > 0.0F)) return 0;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  return std::clamp(kLargestExponent - exponent, -kMost, kMost);
}

std::size_t words(int n, int k) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(k); }

}  // namespace

std::span<const SplitGemmVariant> split_gemm_variants() { return kVariants; }

std::string_view name(SplitGemmVariant variant) { return entry_of(variant).name; }

bool supports(SplitGemmVariant variant, const SplitGemmParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 80;  // mma.sync m16n8k16
  if (static_cast<std::size_t>(variant) >= kVariants.size() || gpu.code < kOldest || !p.in_range) return false;
  if (p.m < 0 || p.n < 1 || p.k < kChunk || p.k % kChunk != 0) return false;
  if (p.m > kLargestExtent || p.n > kLargestExtent || p.k > kLargestExtent) return false;
  if (!pitch_fits(p.x_pitch, p.k, true) || !pitch_fits(p.y_pitch, p.n, false)) return false;
  return entry_of(variant).shared_bytes(p.k) <= gpu.shared_bytes_per_block;
}

std::size_t split_gemm_packed_bytes(int n, int k) {
  return (words(n, k) + kScalesAt + static_cast<std::size_t>(round_up(n, kWidestTile))) * sizeof(float);
}

void split_gemm_pack(int n, int k, float x_bound, const float* weight, void* packed) {
  std::memset(packed, 0, split_gemm_packed_bytes(n, k));
  auto* const halves = static_cast<__half*>(packed);
  float* const factors = static_cast<float*>(packed) + words(n, k);
  const int x_exponent = scale_exponent(x_bound);
  factors[0] = std::ldexp(1.0F, x_exponent);
  for (int row = 0; row < n; ++row) {
    const float* from = weight + words(row, k);
    float largest = 0.0F;
    for (int i = 0; i < k; ++i) largest = std::max(largest, std::abs(from[i]));
    const int exponent = scale_exponent(largest);
    factors[kScalesAt + row] = std::ldexp(1.0F, -exponent - x_exponent);
    __half* to = halves + 2 * words(row, k);
    for (int i = 0; i < k; ++i) {  // chunks of four: their upper halves, then their lower ones
      const float value = std::ldexp(from[i], exponent);
      const __half hi = __float2half_rn(value);
      const std::ptrdiff_t at = i / kChunk * 2 * kChunk + i % kChunk;
      to[at] = hi;
      to[at + kChunk] = __float2half_rn(value - __half2float(hi));
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
  GemmArgs args{};
  args.x = x;
  args.w = packed;
  args.bias = params.bias ? bias : nullptr;
  args.residual = params.residual ? residual : nullptr;
  args.y = y;
  args.m = params.m;
  args.n = params.n;
  args.k = args.k_packed = params.k;
  args.x_pitch = params.x_pitch == 0 ? params.k : params.x_pitch;
  args.y_pitch = params.y_pitch == 0 ? params.n : params.y_pitch;
  args.y_is_float = true;
  args.activation = params.activation;
  return entry_of(variant).launch(args, where);
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
