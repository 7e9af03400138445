// split_gemm with wgmma: tiles and launch. It exists as sm_90a code only: where that is built, CMakeLists.txt defines
// MOBICUDA_HAS_SM90A.

#include "kernels/split_gemm/wgmma/host.h"

#ifdef MOBICUDA_HAS_SM90A

#include <algorithm>
#include <iterator>

#include "kernels/common/product_launch.cuh"
#include "kernels/split_gemm/wgmma/tile.cuh"

namespace mobicuda::kernels::split_gemm_wgmma {
namespace {

using products::ProductArgs;
using split_gemm_detail::SplitWgmmaTile;
using split_gemm_detail::WgmmaConfig;
using enum SplitGemmVariant;

struct Entry {
  SplitGemmVariant variant;
  std::size_t (*shared_bytes)(int k);
  cudaError_t (*launch)(ProductArgs args, const Launch& where);
};

template <WgmmaConfig kConfig>
constexpr Entry tile(SplitGemmVariant variant) {
  using Tile = SplitWgmmaTile<kConfig>;
  return {variant, products::largest_shared_bytes<Tile>, products::launch_tile<Tile>};
}

// clang-format off
constexpr Entry kEntries[] = {
    //                 bm   bn   bk  products  groups_k  stages  min_blocks
    tile<WgmmaConfig{ 192,  96,  32,        1,        1,      4,          1}>(Wgmma192x96x32),
    tile<WgmmaConfig{ 128, 192,  32,        2,        1,      4,          1}>(Wgmma128x192x32),
    tile<WgmmaConfig{ 128,  64,  32,        1,        1,      4,          2}>(Wgmma128x64x32),
    tile<WgmmaConfig{ 128,  32,  32,        1,        1,      4,          2}>(Wgmma128x32x32),
    tile<WgmmaConfig{  64,  96,  64,        1,        1,      3,          2}>(Wgmma64x96x64),
    tile<WgmmaConfig{  64,  64,  64,        1,        1,      3,          3}>(Wgmma64x64x64),
    tile<WgmmaConfig{  64,  32,  64,        1,        1,      4,          3}>(Wgmma64x32x64),
    tile<WgmmaConfig{  64,  32, 128,        1,        2,      3,          2}>(Wgmma64x32x128K2),
    tile<WgmmaConfig{  64,  32, 256,        1,        4,      2,          1}>(Wgmma64x32x256K4),
};
// clang-format on

const Entry* find(SplitGemmVariant variant) {
  const auto* found = std::find_if(std::begin(kEntries), std::end(kEntries),
                                   [&](const Entry& entry) { return entry.variant == variant; });
  return found == std::end(kEntries) ? nullptr : found;
}

}  // namespace

bool has(SplitGemmVariant variant) { return find(variant) != nullptr; }

std::size_t shared_bytes(SplitGemmVariant variant, int k) { return find(variant)->shared_bytes(k); }

cudaError_t launch(SplitGemmVariant variant, const ProductArgs& args, const Launch& where) {
  return find(variant)->launch(args, where);
}

}  // namespace mobicuda::kernels::split_gemm_wgmma

#else

namespace mobicuda::kernels::split_gemm_wgmma {

bool has(SplitGemmVariant /*variant*/) { return false; }

std::size_t shared_bytes(SplitGemmVariant /*variant*/, int /*k*/) { return 0; }

cudaError_t launch(SplitGemmVariant /*variant*/, const products::ProductArgs& /*args*/, const Launch& /*where*/) {
  return cudaErrorNotSupported;
}

}  // namespace mobicuda::kernels::split_gemm_wgmma

#endif
