// GEMM with a fused epilogue: variants, limits, packing, launch.
// Pipeline and epilogue: product_pipeline.cuh. Arithmetic: mma.cuh (half, tensor cores), dmma.cuh (double,
// tensor cores), simt.cuh (exact float and double), gemv.cuh (few rows), rows.cuh (short sums for many columns).
// Indices within a matrix are size_t; m, n and k are at most 2^30.

#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cstring>

#include "kernels/common/product_launch.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/gemm/dmma.cuh"
#include "kernels/gemm/gemv.cuh"
#include "kernels/gemm/mma.cuh"
#include "kernels/gemm/rows.cuh"
#include "kernels/gemm/simt.cuh"

namespace mobicuda::kernels {
namespace {

using products::DmmaTile;
using products::kGemvRows;
using products::kGemvThreads;
using products::largest_shared_bytes;
using products::launch_tile;
using products::MmaConfig;
using products::MmaTile;
using products::ProductArgs;
using products::SimtConfig;
using products::SimtTile;

constexpr int kLargestExtent = 1 << 30;
constexpr int kPackedStep = 8;

using LaunchFunction = cudaError_t (*)(ProductArgs args, const Launch& where);
using SharedFunction = std::size_t (*)(int k);

template <class T>
cudaError_t launch_gemv(ProductArgs args, const Launch& where) {
  const dim3 grid(static_cast<unsigned>(ceil_div(args.n, kGemvThreads / 32)),
                  static_cast<unsigned>(ceil_div(args.m, kGemvRows)));
  const auto kernel = args.m == 1 ? products::gemv_kernel<T, 1> : products::gemv_kernel<T, kGemvRows>;
  return launch(kernel, grid, dim3(kGemvThreads), 0, where, args);
}

template <int kK>
cudaError_t launch_rows_of(const ProductArgs& args, const Launch& where) {
  const auto kernel = products::rows_kernel<kK>;
  constexpr std::size_t kMost = products::rows_shared_bytes(products::kRowsLargestN, kK);
  const std::size_t shared_bytes = products::rows_shared_bytes(args.n, kK);
  int blocks = 0;
  const cudaError_t status = resident_blocks(kernel, 32 * products::kRowsWarps, shared_bytes, kMost, blocks);
  if (status != cudaSuccess) return status;
  const std::int64_t blocks_of_work = ceil_div(args.m, products::kRowsOfWarp * products::kRowsWarps);
  return launch(kernel, dim3(static_cast<unsigned>(std::min<std::int64_t>(blocks, blocks_of_work))),
                dim3(32 * products::kRowsWarps), shared_bytes, where, args);
}

cudaError_t launch_rows(ProductArgs args, const Launch& where) {
  switch (args.k) {
    case 16:
      return launch_rows_of<16>(args, where);
    case 24:
      return launch_rows_of<24>(args, where);
    case 32:
      return launch_rows_of<32>(args, where);
    case 40:
      return launch_rows_of<40>(args, where);
    case 48:
      return launch_rows_of<48>(args, where);
    case 56:
      return launch_rows_of<56>(args, where);
    case 64:
      return launch_rows_of<64>(args, where);
    default:
      return cudaErrorInvalidValue;
  }
}

bool has_whole_rows(const GemmParams& p) {
  return p.n % 8 == 0 && p.n <= products::kRowsLargestN && p.k >= 16 && p.k <= products::kRowsLargestK &&
         p.output == Elem::F16 && !p.residual;
}

std::size_t most_rows_shared_bytes(int k) { return products::rows_shared_bytes(products::kRowsLargestN, k); }

struct Entry {
  GemmVariant variant;
  std::string_view name;
  GemmTile tile;
  int code;    ///< at least: DeviceTraits::code
  bool any_k;  ///< else rows of X must start on 16 bytes
  int largest_m;
  SharedFunction shared_bytes[kElemCount];  ///< by Elem; both null where the variant does not take it
  LaunchFunction launch[kElemCount];
  bool (*takes)(const GemmParams&) = nullptr;  ///< what else must hold
};

template <class Tile>
constexpr GemmTile tile_of() {
  return {Tile::kBm, Tile::kBn, Tile::kBk, Tile::kSplitK, Tile::kThreads};
}

template <MmaConfig kConfig>
constexpr Entry mma(GemmVariant variant, std::string_view name) {
  using Tile = MmaTile<kConfig>;
  return {variant,
          name,
          tile_of<Tile>(),
          80,
          false,
          kLargestExtent,
          {nullptr, largest_shared_bytes<Tile>, nullptr},
          {nullptr, launch_tile<Tile>, nullptr}};
}

template <MmaConfig kConfig>
constexpr Entry dmma(GemmVariant variant, std::string_view name) {
  using Tile = DmmaTile<kConfig>;
  Entry entry{variant, name, tile_of<Tile>(), 90, true, kLargestExtent, {}, {}};
  if constexpr (kAllVariants) {
    entry.shared_bytes[2] = largest_shared_bytes<Tile>;
    entry.launch[2] = launch_tile<Tile>;
  }
  return entry;
}

template <SimtConfig kConfig, bool kHalf = false, bool kDouble = kHalf>
constexpr Entry simt(GemmVariant variant, std::string_view name) {
  using Tile = SimtTile<float, kConfig>;
  Entry entry{variant,
              name,
              tile_of<Tile>(),
              0,
              true,
              kLargestExtent,
              {largest_shared_bytes<Tile>, nullptr, nullptr},
              {launch_tile<Tile>, nullptr, nullptr}};
  if constexpr (kHalf) {
    entry.shared_bytes[1] = largest_shared_bytes<SimtTile<__half, kConfig>>;
    entry.launch[1] = launch_tile<SimtTile<__half, kConfig>>;
  }
  if constexpr (kDouble) {
    entry.shared_bytes[2] = largest_shared_bytes<SimtTile<double, kConfig>>;
    entry.launch[2] = launch_tile<SimtTile<double, kConfig>>;
  }
  return entry;
}

std::size_t no_shared_bytes(int) { return 0; }

// clang-format off
constexpr Entry kEntries[] = {
    //            bm   bn   bk  warps m, n, k  stages  resident  min_blocks
    mma<MmaConfig{128, 128, 64,       2, 4, 1,      3,    false,          2}>(GemmVariant::Mma128x128x64, "mma_128x128x64"),
    mma<MmaConfig{128,  64, 64,       2, 2, 1,      3,    false,          3}>(GemmVariant::Mma128x64x64, "mma_128x64x64"),
    mma<MmaConfig{128,  96, 32,       4, 1, 1,      4,     true,          3}>(GemmVariant::Mma128x96x32, "mma_128x96x32"),
    mma<MmaConfig{128,  32, 64,       4, 1, 1,      3,     true,          4}>(GemmVariant::Mma128x32x64, "mma_128x32x64"),
    mma<MmaConfig{256,  16, 32,       8, 1, 1,      4,     true,          3}>(GemmVariant::Mma256x16x32, "mma_256x16x32"),
    mma<MmaConfig{ 64,  64, 64,       2, 2, 1,      4,    false,          3}>(GemmVariant::Mma64x64x64, "mma_64x64x64"),
    mma<MmaConfig{ 64,  32, 32,       4, 1, 1,      5,     true,          6}>(GemmVariant::Mma64x32x32, "mma_64x32x32"),
    mma<MmaConfig{ 64,  32, 64,       2, 1, 2,      4,    false,          4}>(GemmVariant::Mma64x32x64K2, "mma_64x32x64_k2"),
    mma<MmaConfig{ 32,  32, 64,       2, 1, 2,      7,     true,          4}>(GemmVariant::Mma32x32x64K2, "mma_32x32x64_k2"),
    mma<MmaConfig{ 16,  32, 128,      1, 1, 4,      9,     true,          4}>(GemmVariant::Mma16x32x128K4, "mma_16x32x128_k4"),
    mma<MmaConfig{ 16,  16, 256,      1, 1, 8,      5,     true,          2}>(GemmVariant::Mma16x16x256K8, "mma_16x16x256_k8"),
    //              bm   bn   bk  tm tn split_k  stages  resident  min_blocks
    simt<SimtConfig{128, 128, 16,  8, 8,      1,      3,    false,          2}>(GemmVariant::Simt128x128x16, "simt_128x128x16"),
    simt<SimtConfig{128,  64, 16,  8, 8,      1,      3,    false,          4}>(GemmVariant::Simt128x64x16, "simt_128x64x16"),
    simt<SimtConfig{128,  32, 16,  8, 4,      1,      4,     true,          4}>(GemmVariant::Simt128x32x16, "simt_128x32x16"),
    simt<SimtConfig{256,  16, 16,  8, 4,      1,      3,     true,          4}>(GemmVariant::Simt256x16x16, "simt_256x16x16"),
    simt<SimtConfig{ 64,  64, 16,  8, 4,      1,      3,    false,          4}, true>(GemmVariant::Simt64x64x16, "simt_64x64x16"),
    simt<SimtConfig{ 32,  32, 32,  4, 4,      4,      8,    false,          2}, true>(GemmVariant::Simt32x32x32K4, "simt_32x32x32_k4"),
    simt<SimtConfig{ 16,  32, 64,  4, 4,      8,      6,     true,          2}, true>(GemmVariant::Simt16x32x64K8, "simt_16x32x64_k8"),
    simt<SimtConfig{ 16,  16, 128, 4, 4,     16,      9,     true,          2}, true>(GemmVariant::Simt16x16x128K16, "simt_16x16x128_k16"),
    {GemmVariant::Gemv, "gemv", {kGemvRows, kGemvThreads / 32, 1, 32, kGemvThreads}, 0, false, kGemvRows * kMaxGridYz,
     {no_shared_bytes, no_shared_bytes, no_shared_bytes}, {launch_gemv<float>, launch_gemv<__half>, launch_gemv<double>}},
    //            bm   bn   bk  warps m, n, k  stages  resident  min_blocks
    mma<MmaConfig{ 64,  32, 256,      2, 1, 4,      4,    false,          1}>(GemmVariant::Mma64x32x256K4, "mma_64x32x256_k4"),
    dmma<MmaConfig{128, 64, 16,       4, 2, 1,      4,    false,          2}>(GemmVariant::Dmma128x64x16, "dmma_128x64x16"),
    dmma<MmaConfig{ 64, 64, 16,       2, 2, 1,      4,    false,          3}>(GemmVariant::Dmma64x64x16, "dmma_64x64x16"),
    dmma<MmaConfig{ 64, 32, 16,       4, 1, 1,      4,    false,          4}>(GemmVariant::Dmma64x32x16, "dmma_64x32x16"),
    dmma<MmaConfig{ 32, 32, 32,       2, 1, 2,      4,    false,          3}>(GemmVariant::Dmma32x32x32K2, "dmma_32x32x32_k2"),
    dmma<MmaConfig{ 16, 32, 64,       1, 1, 4,      4,    false,          2}>(GemmVariant::Dmma16x32x64K4, "dmma_16x32x64_k4"),
    dmma<MmaConfig{ 16, 16, 128,      1, 1, 8,      4,    false,          1}>(GemmVariant::Dmma16x16x128K8, "dmma_16x16x128_k8"),
    {GemmVariant::MmaRows, "mma_rows", {products::kRowsOfWarp, products::kRowsLargestN, products::kRowsLargestK, 1, 32 * products::kRowsWarps}, 90, false,
     kLargestExtent, {nullptr, most_rows_shared_bytes, nullptr}, {nullptr, launch_rows, nullptr}, has_whole_rows},
};
// clang-format on

constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

/// Rows that lie apart are read and written 16 bytes at a time: those of X hold whole chunks, so that nothing behind
/// them is multiplied, not even by zero.
bool pitches_fit(const GemmParams& p) {
  const int x_chunk = 16 / static_cast<int>(size_of(p.elem));
  const int y_chunk = 16 / static_cast<int>(size_of(p.output));
  const bool x_fits = p.x_pitch == 0 || (p.x_pitch >= p.k && p.x_pitch % x_chunk == 0 && p.k % x_chunk == 0);
  return x_fits && (p.y_pitch == 0 || (p.y_pitch >= p.n && p.y_pitch % y_chunk == 0));
}

const Entry& entry_of(GemmVariant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

}  // namespace

std::span<const GemmVariant> gemm_variants() { return kVariants; }

std::string_view name(GemmVariant variant) { return entry_of(variant).name; }

GemmTile gemm_tile(GemmVariant variant) { return entry_of(variant).tile; }

bool supports(GemmVariant variant, const GemmParams& params, const DeviceTraits& gpu) {
  if (static_cast<std::size_t>(variant) >= kVariants.size()) return false;
  const Entry& entry = entry_of(variant);
  const auto elem = static_cast<std::size_t>(params.elem);
  if (entry.launch[elem] == nullptr || gpu.code < entry.code) return false;
  if (params.output != Elem::F32 && params.output != params.elem) return false;
  if (params.m < 0 || params.n < 1 || params.k < 1) return false;
  if (params.m > entry.largest_m || params.n > kLargestExtent || params.k > kLargestExtent) return false;
  const int elements_in_16_bytes = 16 / static_cast<int>(size_of(params.elem));
  if (!entry.any_k && params.k % elements_in_16_bytes != 0) return false;
  if (!pitches_fit(params) || (entry.takes != nullptr && !entry.takes(params))) return false;
  return entry.shared_bytes[elem](params.k) <= gpu.shared_bytes_per_block;
}

std::size_t gemm_packed_bytes(Elem elem, int n, int k) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(round_up(k, kPackedStep)) * size_of(elem);
}

void gemm_pack(Elem elem, int n, int k, const float* weight, void* packed) {
  std::memset(packed, 0, gemm_packed_bytes(elem, n, k));
  const auto columns = static_cast<std::size_t>(k);
  const auto stride = static_cast<std::size_t>(round_up(k, kPackedStep));
  for (std::size_t row = 0; row < static_cast<std::size_t>(n); ++row) {
    const float* from = weight + row * columns;
    if (elem == Elem::F32) {
      std::copy_n(from, columns, static_cast<float*>(packed) + row * stride);
    } else if (elem == Elem::F64) {
      std::copy_n(from, columns, static_cast<double*>(packed) + row * stride);
    } else {
      __half* to = static_cast<__half*>(packed) + row * stride;
      std::transform(from, from + columns, to, [](float value) { return __float2half_rn(value); });
    }
  }
}

cudaError_t gemm(GemmVariant variant, const GemmParams& params, const void* x, const void* packed, const float* bias,
                 const void* residual, void* y, const Launch& where) {
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
  args.k_packed = round_up(params.k, kPackedStep);
  args.x_pitch = params.x_pitch == 0 ? params.k : params.x_pitch;
  args.y_pitch = params.y_pitch == 0 ? params.n : params.y_pitch;
  args.y_is_float = params.output == Elem::F32;
  args.activation = params.activation;
  args.next = where.next;
  return entry_of(variant).launch[static_cast<std::size_t>(params.elem)](args, where);
}

// The kernel's table.
namespace {

// Rows are pixels of images.
GemmParams with_batch(GemmParams p, int n, int of) {
  p.m = p.m / of * n;
  return p;
}

OperandBytes operands(GemmVariant, const GemmParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.m, p.k);
  bytes.weights[0] = table::as_bytes(gemm_packed_bytes(p.elem, p.n, p.k));
  bytes.weights[1] = table::bias_bytes(p.n);
  if (p.residual) bytes.residual = table::bytes(p.elem, p.m, p.n);
  bytes.y = table::bytes(p.output, p.m, p.n);
  return bytes;
}

cudaError_t launch_on(GemmVariant variant, const GemmParams& p, const Operands& at, const Launch& where) {
  return gemm(variant, p, at.x, at.weights[0], table::bias(p.bias, at.weights[1]), at.residual, at.y, where);
}

std::string shape(const GemmParams& p) {
  table::ShapeText text("gemm");
  text.with("m", p.m).with("n", p.n).with("k", p.k).with("float_output", p.output == Elem::F32);
  return text.with("bias", p.bias).with("residual", p.residual).with("activation", p.activation).take();
}

}  // namespace

const KernelTable<GemmParams, GemmVariant>& kernel_of(const GemmParams&) {
  static const KernelTable<GemmParams, GemmVariant> kTable{
      .name = "gemm",
      .variants = gemm_variants(),
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
