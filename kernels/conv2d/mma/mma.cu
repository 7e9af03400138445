// conv2d as an implicit matrix product with mma.sync: variants, limits, launch. The kernel: kernel.cuh.

#include "kernels/common/launch_cluster.h"
#include "kernels/conv2d/families.h"
#include "kernels/conv2d/gemm_launch.h"
#include "kernels/conv2d/mma/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using conv_gemm::Arguments;
using conv_gemm::MmaConfig;
using conv_gemm::MmaConv;
using Variant = Conv2dVariant;

constexpr Conv2dTile tile_of(const MmaConfig& config) { return {config.bm, config.bn, config.bk, config.blocks}; }

template <MmaConfig kConfig>
bool supports_mma(const Conv2dParams& params, const DeviceTraits& gpu) {
  return gpu.code >= (kConfig.blocks > 1 ? 90 : 80) && kConfig.blocks <= gpu.cluster_blocks &&
         MmaConv<kConfig>::kSharedBytes <= gpu.shared_bytes_per_block &&
         conv_gemm::supports_gemm(params, kConfig.chunk_channels);
}

template <MmaConfig kConfig>
constexpr bool kTakesSecond = kConfig.chunk_channels == 8;

template <MmaConfig kConfig>
cudaError_t launch_mma(const Conv2dParams& params, const Conv2dBuffers& buffers, const Launch& where) {
  using Tile = MmaConv<kConfig>;
  auto kernel = conv_gemm::mma_kernel<Tile, false>;
  if constexpr (kTakesSecond<kConfig>) {
    if (params.second.c_in != 0) kernel = conv_gemm::mma_kernel<Tile, true>;
  }
  if (const cudaError_t status = allow_shared_memory(kernel, Tile::kSharedBytes); status != cudaSuccess) return status;
  return conv_gemm::for_each_gemm_chunk(
      params, tile_of(kConfig), buffers, where, [&](const Arguments& a, unsigned blocks) {
        return launch_clusters(kernel, dim3(blocks), dim3(Tile::kThreads), Tile::kSharedBytes,
                               static_cast<unsigned>(kConfig.blocks), where, a);
      });
}

template <MmaConfig kConfig>
constexpr Conv2dEntry entry(Variant variant, std::string_view name) {
  return {variant, name,  tile_of(kConfig),     supports_mma<kConfig>, launch_mma<kConfig>,
          true,    false, kTakesSecond<kConfig>};
}

// clang-format off
constexpr Conv2dEntry kEntries[] = {
    //               bm   bn  bk  warps m, n, k  stages  blocks  min_blocks  chunk_channels
    entry<MmaConfig{128, 128, 64,       2, 4, 1,      3,      1,          2}>(Variant::Mma128x128x64, "mma_128x128x64"),
    entry<MmaConfig{128,  64, 64,       2, 2, 1,      3,      1,          3}>(Variant::Mma128x64x64, "mma_128x64x64"),
    entry<MmaConfig{128,  32, 64,       4, 1, 1,      3,      1,          3}>(Variant::Mma128x32x64, "mma_128x32x64"),
    entry<MmaConfig{ 64,  64, 64,       2, 2, 1,      4,      1,          3}>(Variant::Mma64x64x64, "mma_64x64x64"),
    entry<MmaConfig{ 64,  64, 64,       2, 2, 1,      5,      2,          2}>(Variant::Mma64x64x64S2, "mma_64x64x64_s2"),
    entry<MmaConfig{ 64,  64, 64,       2, 2, 1,      6,      4,          2}>(Variant::Mma64x64x64S4, "mma_64x64x64_s4"),
    entry<MmaConfig{ 64,  64, 64,       2, 2, 1,      6,      8,          2}>(Variant::Mma64x64x64S8, "mma_64x64x64_s8"),
    entry<MmaConfig{ 64,  32, 64,       2, 1, 2,      6,      1,          2}>(Variant::Mma64x32x64, "mma_64x32x64"),
    entry<MmaConfig{ 64,  32, 64,       2, 1, 2,      6,      2,          2}>(Variant::Mma64x32x64S2, "mma_64x32x64_s2"),
    entry<MmaConfig{ 64,  32, 64,       2, 1, 2,      6,      4,          2}>(Variant::Mma64x32x64S4, "mma_64x32x64_s4"),
    entry<MmaConfig{ 32,  32, 64,       1, 1, 4,      6,      1,          2}>(Variant::Mma32x32x64, "mma_32x32x64"),
    entry<MmaConfig{ 32,  32, 64,       1, 1, 4,      6,      4,          2}>(Variant::Mma32x32x64S4, "mma_32x32x64_s4"),
    entry<MmaConfig{ 64,  64, 64,       2, 2, 1,      4,      1,          3,     4}>(Variant::Mma64x64x64C4, "mma_64x64x64_c4"),
    entry<MmaConfig{ 64,  32, 64,       2, 1, 2,      6,      1,          2,     4}>(Variant::Mma64x32x64C4, "mma_64x32x64_c4"),
    entry<MmaConfig{ 32,  32, 64,       1, 1, 4,      6,      1,          2,     4}>(Variant::Mma32x32x64C4, "mma_32x32x64_c4"),
};
// clang-format on

}  // namespace

std::span<const Conv2dEntry> conv2d_mma_entries() { return kEntries; }

}  // namespace mobicuda::kernels
