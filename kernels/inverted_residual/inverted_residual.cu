// Fused inverted residual blocks: checks parameters and finds the family that runs a variant.

#include "kernels/inverted_residual/inverted_residual.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/common/made_variants.h"
#include "kernels/common/table_parts.h"
#include "kernels/inverted_residual/families.h"
#include "kernels/inverted_residual/host.h"

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
        {"split", inverted_residual_split_entries()},
        {"split_cluster", inverted_residual_split_cluster_entries()},
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

constexpr auto kFirstSpecialised = static_cast<std::size_t>(Variant::FirstSpecialised);
/// As many specialised variants as Variant can tell apart; a process that meets more has no others.
constexpr std::size_t kMostSpecialised =
    std::numeric_limits<std::underlying_type_t<Variant>>::max() - kFirstSpecialised;

/// Configurations of a family for one shape: each takes seconds to compile where kernels are chosen by time.
constexpr std::size_t kMostOfFamily = 3;

SpecialisedVariants& specialised_variants() {
  static SpecialisedVariants variants(kMostSpecialised);
  return variants;
}

std::span<const InvertedResidualFamily* const> families() {
  static const InvertedResidualFamily* const kFamilies[] = {
      &inverted_residual_small_family(),  &inverted_residual_cluster_family(),
      &inverted_residual_strip_family(),  &inverted_residual_image_family(),
      &inverted_residual_image7_family(), &inverted_residual_simt_cluster_family(),
      &inverted_residual_simt_family(),   &inverted_residual_simt_early_family(),
      &inverted_residual_split_family(),  &inverted_residual_split_cluster_family(),
  };
  return kFamilies;
}

bool is_specialised(Variant variant) { return static_cast<std::size_t>(variant) >= kFirstSpecialised; }

std::size_t index_of(Variant variant) { return static_cast<std::size_t>(variant) - kFirstSpecialised; }

/// A specialised variant, which was interned, with its family.
struct Specialised {
  const SpecialisedVariants::Variant& variant;
  const InvertedResidualFamily& family;
};

Specialised specialised(Variant variant) {
  const SpecialisedVariants::Variant& found = specialised_variants().at(index_of(variant));
  return {found, *families()[found.family]};
}

std::optional<Variant> intern(std::size_t family, const ConfigValues& values) {
  const InvertedResidualFamily& of = *families()[family];
  const auto index = specialised_variants().intern(family, values, specialised_name(of.name, values, of.count));
  if (!index) return std::nullopt;
  return static_cast<Variant>(kFirstSpecialised + *index);
}

/// All that the variants which a family makes depend on.
using MadeKey =
    std::tuple<std::size_t, Elem, std::array<int, 17>, std::array<std::uint32_t, 6>, std::array<std::size_t, 9>>;

MadeKey key_of(std::size_t family, const InvertedResidualParams& p, const DeviceTraits& gpu) {
  const auto size = [](int value) { return static_cast<std::size_t>(value); };
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  return {family,
          p.elem,
          {p.n, p.h, p.w, p.c_in, p.c_hidden, p.c_out, p.out_h, p.out_w, p.kernel, p.stride, p.pad_top, p.pad_left,
           p.expand ? 1 : 0, p.residual ? 1 : 0, p.split ? 1 : 0, static_cast<int>(p.expand_activation.kind),
           static_cast<int>(p.depthwise_activation.kind)},
          {bits(p.expand_activation.lo), bits(p.expand_activation.hi), bits(p.depthwise_activation.lo),
           bits(p.depthwise_activation.hi), bits(p.project_clip.lo), bits(p.project_clip.hi)},
          {size(gpu.capability), size(gpu.code), gpu.wgmma_code ? 1U : 0U, size(gpu.multiprocessors),
           gpu.shared_bytes_per_block, gpu.shared_bytes_per_multiprocessor, gpu.reserved_shared_bytes,
           size(gpu.cluster_blocks), size(gpu.large_cluster_blocks)}};
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
  if (p.n < 0 || p.kernel != 3 || p.stride > kMostStride || (!p.expand && p.c_hidden != p.c_in)) return false;
  if (p.pad_top < 0 || p.pad_left < 0 || p.pad_top > kMostPadding || p.pad_left > kMostPadding) return false;
  if (p.residual && (p.c_in != p.c_out || p.out_h != p.h || p.out_w != p.w || p.stride != 1)) return false;
  return fits_int(p);
}

bool runs_activations(const InvertedResidualFamily& family, const InvertedResidualParams& p) {
  return inverted_host::clips(p) || (family.hard_swish && inverted_host::hard_swishes(p));
}

}  // namespace

std::span<const Variant> inverted_residual_variants() { return entry_table().variants; }

std::string_view name(Variant variant) {
  if (is_specialised(variant)) return specialised(variant).variant.name;
  for (const InvertedResidualFamily* family : families()) {
    if (family->variant == variant) return family->name;
  }
  return entry_of(variant).name;
}

InvertedResidualTile inverted_residual_tile(Variant variant) { return entry_of(variant).tile; }

bool supports(Variant variant, const InvertedResidualParams& params, const DeviceTraits& gpu) {
  if (!is_sane(params)) return false;
  if (is_specialised(variant)) {
    const auto [made, family] = specialised(variant);
    return runs_activations(family, params) && family.supports(made.values, params, gpu);
  }
  if (!inverted_host::clips(params)) return false;
  if (static_cast<std::size_t>(variant) >= entry_table().entries.size()) return false;
  const InvertedResidualEntry& entry = entry_of(variant);
  if (entry.supports == nullptr) return false;  // left out of the build: kAllVariants
  return params.stride == entry.tile.stride && params.expand == entry.tile.expand && entry.supports(params, gpu);
}

std::vector<Variant> inverted_residual_specialised(Variant family, const InvertedResidualParams& params,
                                                   const DeviceTraits& gpu) {
  static MadeVariants<MadeKey, Variant> made;
  if (!gpu.compiles || !is_sane(params)) return {};
  for (std::size_t i = 0; i < families().size(); ++i) {
    if (families()[i]->variant != family) continue;
    if (!runs_activations(*families()[i], params)) return {};
    return made.find(key_of(i, params, gpu), [&] {
      std::vector<Variant> found;
      for (const ConfigValues& values : families()[i]->configurations(params, gpu)) {
        if (found.size() == kMostOfFamily) break;
        if (const auto variant = intern(i, values)) found.push_back(*variant);
      }
      return found;
    });
  }
  return {};
}

std::size_t inverted_residual_packed_bytes(Variant variant, const InvertedResidualParams& params) {
  if (!is_specialised(variant)) return entry_of(variant).packed_bytes(params);
  const auto [made, family] = specialised(variant);
  return family.packed_bytes(made.values);
}

void inverted_residual_pack(Variant variant, const InvertedResidualParams& params,
                            const InvertedResidualWeights& weights, void* packed) {
  if (!is_specialised(variant)) return entry_of(variant).pack(params, weights, packed);
  const auto [made, family] = specialised(variant);
  family.pack(made.values, weights, packed);
}

cudaError_t inverted_residual(Variant variant, const InvertedResidualParams& params, const void* x, const void* packed,
                              void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, params, gpu)) return cudaErrorInvalidValue;
  if (params.n == 0) return cudaSuccess;
  if (!is_specialised(variant)) return entry_of(variant).launch(params, x, packed, y, where);
  const void* const kernel = specialised_variants().kernel(index_of(variant), gpu.capability);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  const auto [made, family] = specialised(variant);
  return family.launch(made.values, kernel, params, x, packed, y, where);
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

/// Configurations of a family may order weights differently, so each specialised variant has a packing of its own.
std::string_view packing(Variant variant) {
  if (is_specialised(variant)) return name(variant);
  const FamilyEntry& entry = entry_of(variant);
  return entry.packing.empty() ? entry.family : entry.packing;
}

std::vector<Variant> all_specialised(const InvertedResidualParams& p, const DeviceTraits& gpu) {
  std::vector<Variant> found;
  for (const InvertedResidualFamily* family : families()) {
    const std::vector<Variant> more = inverted_residual_specialised(family->variant, p, gpu);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

std::optional<Variant> specialised_by_name(std::string_view text) {
  for (std::size_t i = 0; i < families().size(); ++i) {
    const InvertedResidualFamily& family = *families()[i];
    const auto values = specialised_values(text, family.name, family.count);
    if (values && family.is_valid(*values)) return intern(i, *values);
  }
  return std::nullopt;
}

std::optional<CodeName> code(Variant variant) {
  if (!is_specialised(variant)) return std::nullopt;
  const auto [made, family] = specialised(variant);
  return CodeName{std::string(family.header), family.kernel_expression(made.values), family.wgmma};
}

void provide(Variant variant, int capability, const void* kernel) {
  specialised_variants().provide(index_of(variant), capability, kernel);
}

cudaError_t launch_on(InvertedResidualVariant variant, const InvertedResidualParams& p, const Operands& at,
                      const Launch& where) {
  return inverted_residual(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const InvertedResidualParams& p) {
  table::ShapeText text("inverted_residual");
  text.with("n", p.n).with("h", p.h).with("w", p.w).with("c_in", p.c_in).with("c_hidden", p.c_hidden);
  text.with("c_out", p.c_out).with("out_h", p.out_h).with("out_w", p.out_w);
  text.with("kernel", p.kernel).with("stride", p.stride).with("pad_top", p.pad_top).with("pad_left", p.pad_left);
  text.with("expand", p.expand).with("residual", p.residual);
  if (p.split) text.with("split", p.split);
  if (p.expand) text.with("expand_activation", p.expand_activation);
  return text.with("depthwise_activation", p.depthwise_activation).with("project_clip", p.project_clip).take();
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
      .specialised = all_specialised,
      .specialised_by_name = specialised_by_name,
      .code = code,
      .provide = provide,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
