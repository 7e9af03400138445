// What each family of fused inverted residual kernels tells the dispatcher, inverted_residual.cu.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/inverted_residual/inverted_residual.h"
#include "kernels/inverted_residual/specialised_family.h"

namespace mobicuda::kernels {

/// One variant. The functions are called with sane parameters only: positive extents, padding and stride of at most 2,
/// a residual of y's shape, images and coordinates that fit int.
struct InvertedResidualEntry {
  InvertedResidualVariant variant;
  std::string_view name;
  InvertedResidualTile tile;
  /// Element type, channels, tile counts, shared memory; the dispatcher has compared stride and `expand` with `tile`.
  bool (*supports)(const InvertedResidualParams& params, const DeviceTraits& gpu);
  std::size_t (*packed_bytes)(const InvertedResidualParams& params);
  void (*pack)(const InvertedResidualParams& params, const InvertedResidualWeights& weights, void* packed);
  cudaError_t (*launch)(const InvertedResidualParams& params, const void* x, const void* packed, void* y,
                        const Launch& where);
  std::string_view packing =
      {};  ///< of a variant that orders its weights otherwise than its family does; empty: as that
};

// In the order of InvertedResidualVariant.
std::span<const InvertedResidualEntry> inverted_residual_tile_entries();
std::span<const InvertedResidualEntry> inverted_residual_small_entries();
std::span<const InvertedResidualEntry> inverted_residual_cluster_entries();
std::span<const InvertedResidualEntry> inverted_residual_strip_entries();
std::span<const InvertedResidualEntry> inverted_residual_image_entries();
std::span<const InvertedResidualEntry> inverted_residual_image7_entries();
std::span<const InvertedResidualEntry> inverted_residual_simt_entries();
std::span<const InvertedResidualEntry> inverted_residual_simt_cluster_entries();
std::span<const InvertedResidualEntry> inverted_residual_simt_early_entries();
std::span<const InvertedResidualEntry> inverted_residual_split_entries();
std::span<const InvertedResidualEntry> inverted_residual_split_cluster_entries();

const InvertedResidualFamily& inverted_residual_small_family();
const InvertedResidualFamily& inverted_residual_cluster_family();
const InvertedResidualFamily& inverted_residual_strip_family();
const InvertedResidualFamily& inverted_residual_image_family();
const InvertedResidualFamily& inverted_residual_image7_family();
const InvertedResidualFamily& inverted_residual_simt_cluster_family();
const InvertedResidualFamily& inverted_residual_simt_family();
const InvertedResidualFamily& inverted_residual_simt_early_family();
const InvertedResidualFamily& inverted_residual_split_family();
const InvertedResidualFamily& inverted_residual_split_cluster_family();

}  // namespace mobicuda::kernels
