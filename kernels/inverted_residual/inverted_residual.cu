// Fused inverted residual blocks: checks parameters and finds the family that runs a variant.

#include "kernels/inverted_residual/inverted_residual.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/common/table_parts.h"
#include "kernels/inverted_residual/families.h"

namespace mobicuda::kernels {
namespace {

using Variant = InvertedResidualVariant;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

struct FamilyEntry : InvertedResidualEntry {
  std::string_view family;
};

/// All variants; entries[i] is of the enumerator i.
struct Table {
  std::vector<FamilyEntry> entries;
  std::vector<Variant> variants;
};

const Table& entry_table() {
  static const Table all = [] {
    Table built;
    const std::pair<std::string_view, std::span<const InvertedResidualEntry>> families[] = {
        {"tile", inverted_residual_tile_entries()},
        {"small", inverted_residual_small_entries()},
        {"cluster", inverted_residual_cluster_entries()},
        {"strip", inverted_residual_strip_entries()},
        {"image", inverted_residual_image_entries()},
        {"image7", inverted_residual_image7_entries()},
        {"simt", inverted_residual_simt_entries()},
        {"simt_cluster", inverted_residual_simt_cluster_entries()},
        {"simt_early", inverted_residual_simt_early_entries()},
    };
    for (const auto& [family, entries] : families) {
      for (const InvertedResidualEntry& entry : entries) built.entries.push_back({entry, family});
    }
    std::sort(built.entries.begin(), built.entries.end(),
              [](const auto& a, const auto& b) { return a.variant < b.variant; });
    for (const FamilyEntry& entry : built.entries) built.variants.push_back(entry.variant);
    return built;
  }();
  return all;
}

const FamilyEntry& entry_of(Variant variant) { return entry_table().entries[static_cast<std::size_t>(variant)]; }

/// Whether coordinates, with what tiles add to them, and elements of one image are ints.
bool fits_int(const InvertedResidualParams& p) {
  constexpr std::int64_t kMaxCoordinate = kMaxInt / 4;
  return p.out_h <= kMaxCoordinate && p.out_w <= kMaxCoordinate && p.h <= kMaxCoordinate && p.w <= kMaxCoordinate &&
         std::int64_t{p.h} * p.w <= kMaxInt / p.c_in && std::int64_t{p.out_h} * p.out_w <= kMaxInt / p.c_out;
}

bool is_sane(const InvertedResidualParams& p) {
  constexpr int kMostPadding = 2;
  constexpr int kMostStride = 2;
  for (const int extent : {p.h, p.w, p.out_h, p.out_w, p.c_in, p.c_hidden, p.c_out, p.stride}) {
    if (extent <= 0) return false;
  }
  if (p.n < 0 || p.stride > kMostStride || (!p.expand && p.c_hidden != p.c_in)) return false;
  if (p.pad_top < 0 || p.pad_left < 0 || p.pad_top > kMostPadding || p.pad_left > kMostPadding) return false;
  if (p.residual && (p.c_in != p.c_out || p.out_h != p.h || p.out_w != p.w || p.stride != 1)) return false;
  return fits_int(p);
}

}  // namespace

std::span<const Variant> inverted_residual_variants() { return entry_table().variants; }

std::string_view name(Variant variant) { return entry_of(variant).name; }

InvertedResidualTile inverted_residual_tile(Variant variant) { return entry_of(variant).tile; }

bool supports(Variant variant, const InvertedResidualParams& params, const DeviceTraits& gpu) {
  if (static_cast<std::size_t>(variant) >= entry_table().entries.size() || !is_sane(params)) return false;
  const InvertedResidualEntry& entry = entry_of(variant);
  if (entry.supports == nullptr) return false;  // left out of the build: kAllVariants
  return params.stride == entry.tile.stride && params.expand == entry.tile.expand && entry.supports(params, gpu);
}

std::size_t inverted_residual_packed_bytes(Variant variant, const InvertedResidualParams& params) {
  return entry_of(variant).packed_bytes(params);
}

void inverted_residual_pack(Variant variant, const InvertedResidualParams& params,
                            const InvertedResidualWeights& weights, void* packed) {
  entry_of(variant).pack(params, weights, packed);
}

cudaError_t inverted_residual(Variant variant, const InvertedResidualParams& params, const void* x, const void* packed,
                              void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  if (params.n == 0) return cudaSuccess;
  return entry_of(variant).launch(params, x, packed, y, where);
}

// The kernel's table.
namespace {

OperandBytes operands(InvertedResidualVariant variant, const InvertedResidualParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.h, p.w, p.c_in);
  bytes.weights[0] = table::as_bytes(inverted_residual_packed_bytes(variant, p));
  bytes.y = table::bytes(p.elem, p.n, p.out_h, p.out_w, p.c_out);
  return bytes;
}

std::string_view packing(Variant variant) { return entry_of(variant).family; }

cudaError_t launch_on(InvertedResidualVariant variant, const InvertedResidualParams& p, const Operands& at,
                      const Launch& where) {
  return inverted_residual(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const InvertedResidualParams& p) {
  table::ShapeText text("inverted_residual");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c_in", p.c_in).with("c_hidden", p.c_hidden);
  text.with("c_out", p.c_out).with("out_h", p.out_h).with("out_w", p.out_w).with("stride", p.stride);
  text.with("pad_top", p.pad_top).with("pad_left", p.pad_left).with("expand", p.expand).with("residual", p.residual);
  if (p.expand) text.with("expand_clip", p.expand_clip);
  return text.with("depthwise_clip", p.depthwise_clip).with("project_clip", p.project_clip).take();
}

}  // namespace

const KernelTable<InvertedResidualParams, InvertedResidualVariant>& kernel_of(const InvertedResidualParams&) {
  static const KernelTable<InvertedResidualParams, InvertedResidualVariant> kTable{
      .name = "inverted_residual",
      .variants = inverted_residual_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packing = packing,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<InvertedResidualParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
