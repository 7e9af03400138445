// What the family in exact float, simt/, tells the launcher, stem_block.cu.
#pragma once

#include <cstddef>
#include <string_view>

#include "kernels/stem_block/stem_block.h"

namespace mobicuda::kernels::stem_block_simt {

/// Whether the variant is of the family.
bool is_float(StemBlockVariant variant);
/// As KernelTable::packing.
std::string_view packing(StemBlockVariant variant);

/// What follows is for these variants. The parameters' extents are sane.
bool supports(StemBlockVariant variant, const StemBlockParams& params, const DeviceTraits& gpu);
std::size_t packed_bytes(StemBlockVariant variant, const StemBlockParams& params);
void pack(StemBlockVariant variant, const StemBlockParams& params, const StemBlockWeights& weights, void* packed);
cudaError_t launch(StemBlockVariant variant, const StemBlockParams& params, const void* x, const void* packed, void* y,
                   const Launch& where);

}  // namespace mobicuda::kernels::stem_block_simt
