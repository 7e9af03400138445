// Squeeze and excite in one launch: mean, two small matrix products, gates, product. A cluster of blocks has an image:
// each block reads a band of its pixels once and keeps it in shared memory, where it also has a slice of both matrices
// before the predecessor ends. Sums cross the cluster three times: means, squeezed channels, gates.
// Shared memory: slice of weights | band of x | sums; see layout_of().
#include "kernels/squeeze_excite/squeeze_excite.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/common/launch_cluster.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/squeeze_excite/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using squeeze::Arguments;
using squeeze::even;
using squeeze::kThreads;
using squeeze::Layout;
using Variant = SqueezeExciteVariant;

constexpr int kMostPixels = 1 << 24;
constexpr int kMostChannels = 1 << 14;

struct Entry {
  Variant variant;
  std::string_view name;
  int ranks;
  bool held;
};

constexpr Entry kEntries[] = {{Variant::Cluster2, "cluster2", 2, true},
                              {Variant::Cluster4, "cluster4", 4, true},
                              {Variant::Cluster8, "cluster8", 8, true},
                              {Variant::Cluster2Reread, "cluster2_reread", 2, false},
                              {Variant::Cluster8Reread, "cluster8_reread", 8, false}};
constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

const Entry& entry_of(Variant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

int slice_elements(int channels, int squeezed) { return channels * even(squeezed) + squeezed * even(channels); }

int slice_bytes(const Entry& entry, const SqueezeExciteParams& p) {
  return round_up(slice_elements(p.c / entry.ranks, p.squeezed) * static_cast<int>(size_of(p.elem)), 16);
}

Layout layout_of(const Entry& entry, const SqueezeExciteParams& p) {
  const int elem_bytes = static_cast<int>(size_of(p.elem));
  const int packets = p.c * elem_bytes / 16;
  const int groups = std::max(1, kThreads / packets);
  const int channels = p.c / entry.ranks;
  int end = slice_bytes(entry, p);
  const auto take = [&](int bytes) { return std::exchange(end, end + round_up(bytes, 16)); };
  Layout at{};
  at.x = take(entry.held ? ceil_div(p.pixels, entry.ranks) * p.c * elem_bytes : 0);
  at.sums = take(groups * p.c * 4);
  at.partial = take(p.c * 4);
  at.mean = take(channels * 4);
  at.parts = take(std::max(2 * kThreads, 2 * even(std::max(channels, p.squeezed))) * 4);
  at.reduced = take(p.squeezed * 4);
  at.squeezed = take(p.squeezed * 4);
  at.gate = take(p.c * 4);
  at.all = end;
  return at;
}

template <class T>
void pack_slices(const Entry& entry, const SqueezeExciteParams& p, const SqueezeExciteWeights& weights,
                 unsigned char* to) {
  const int channels = p.c / entry.ranks;
  for (int rank = 0; rank < entry.ranks; ++rank) {
    T* const reduce = reinterpret_cast<T*>(to + static_cast<std::size_t>(rank) * slice_bytes(entry, p));
    T* const expand = reduce + channels * even(p.squeezed);
    for (int i = 0; i < channels; ++i) {
      const int c = rank * channels + i;
      for (int j = 0; j < p.squeezed; ++j) {
        reduce[i * even(p.squeezed) + j] = T(weights.reduce[static_cast<std::size_t>(j) * p.c + c]);
        expand[j * even(channels) + i] = T(weights.expand[static_cast<std::size_t>(c) * p.squeezed + j]);
      }
    }
  }
}

/// As many clusters as the GPU holds at once, all with the same number of images but for the last.
template <class T>
cudaError_t launch_variant(const Entry& entry, const DeviceTraits& gpu, const Arguments& a, const Launch& where) {
  const auto kernel = entry.held ? squeeze::squeeze_excite_kernel<T, true> : squeeze::squeeze_excite_kernel<T, false>;
  const auto ranks = static_cast<unsigned>(entry.ranks);
  const auto bytes = static_cast<std::size_t>(a.at.all);
  cudaError_t status =
      allow_shared_memory(kernel, gpu.shared_bytes_per_block);  // not bytes: another thread may want more
  int at_once = 0;
  if (status == cudaSuccess) {
    const ClusterConfig config(dim3(ranks), dim3(kThreads), bytes, ranks, {});
    status = cudaOccupancyMaxActiveClusters(&at_once, kernel, config.get());
  }
  if (status != cudaSuccess) return status;
  const int rounds = ceil_div(a.n, std::max(1, at_once));
  const auto clusters = static_cast<unsigned>(ceil_div(a.n, rounds));
  return launch_clusters(kernel, dim3(clusters * ranks), dim3(kThreads), bytes, ranks, where, a);
}

}  // namespace

std::span<const SqueezeExciteVariant> squeeze_excite_variants() { return kVariants; }

std::string_view name(SqueezeExciteVariant variant) { return entry_of(variant).name; }

bool supports(SqueezeExciteVariant variant, const SqueezeExciteParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;  // clusters
  if (static_cast<std::size_t>(variant) >= kVariants.size() || gpu.code < kOldest) return false;
  if (p.elem == Elem::F64) return false;
  const Entry& entry = entry_of(variant);
  if (entry.ranks > gpu.cluster_blocks) return false;
  if (p.n < 0 || p.pixels < 1 || p.pixels > kMostPixels || p.c < 8 || p.c > kMostChannels || p.c % 8 != 0) return false;
  constexpr int kMostColumns = 256;  // of a matrix
  if (p.squeezed < 1 || p.squeezed > kMostColumns || p.c / entry.ranks > kMostColumns) return false;
  const std::int64_t band_bytes =
      std::int64_t{ceil_div(p.pixels, entry.ranks)} * p.c * static_cast<std::int64_t>(size_of(p.elem));
  const auto most = static_cast<std::int64_t>(gpu.shared_bytes_per_block);
  return (!entry.held || band_bytes <= most) && layout_of(entry, p).all <= most;
}

std::size_t squeeze_excite_packed_bytes(SqueezeExciteVariant variant, const SqueezeExciteParams& p) {
  const Entry& entry = entry_of(variant);
  return static_cast<std::size_t>(entry.ranks) * slice_bytes(entry, p) +
         static_cast<std::size_t>(p.squeezed + p.c) * sizeof(float);
}

void squeeze_excite_pack(SqueezeExciteVariant variant, const SqueezeExciteParams& p,
                         const SqueezeExciteWeights& weights, void* packed) {
  const Entry& entry = entry_of(variant);
  auto* const bytes = static_cast<unsigned char*>(packed);
  std::memset(bytes, 0, squeeze_excite_packed_bytes(variant, p));
  if (p.elem == Elem::F32) {
    pack_slices<float>(entry, p, weights, bytes);
  } else {
    pack_slices<__half>(entry, p, weights, bytes);
  }
  auto* const biases = reinterpret_cast<float*>(bytes + static_cast<std::size_t>(entry.ranks) * slice_bytes(entry, p));
  if (weights.reduce_bias != nullptr) std::copy_n(weights.reduce_bias, p.squeezed, biases);
  if (weights.expand_bias != nullptr) std::copy_n(weights.expand_bias, p.c, biases + p.squeezed);
}

cudaError_t squeeze_excite(SqueezeExciteVariant variant, const SqueezeExciteParams& p, const void* x,
                           const void* packed, void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, p, gpu)) return cudaErrorInvalidValue;
  if (p.n == 0) return cudaSuccess;
  const Entry& entry = entry_of(variant);
  Arguments a{};
  a.x = x;
  a.packed = static_cast<const unsigned char*>(packed);
  a.y = y;
  a.n = p.n;
  a.pixels = p.pixels;
  a.c = p.c;
  a.squeezed = p.squeezed;
  a.ranks = entry.ranks;
  a.band = ceil_div(p.pixels, entry.ranks);
  a.channels = p.c / entry.ranks;
  a.slice_bytes = slice_bytes(entry, p);
  a.squeeze_activation = p.squeeze_activation;
  a.gate_activation = p.gate_activation;
  a.at = layout_of(entry, p);
  return p.elem == Elem::F32 ? launch_variant<float>(entry, gpu, a, where)
                             : launch_variant<__half>(entry, gpu, a, where);
}

// The kernel's table.
namespace {

OperandBytes operands(SqueezeExciteVariant variant, const SqueezeExciteParams& p) {
  OperandBytes bytes;
  bytes.x = bytes.y = table::bytes(p.elem, p.n, p.pixels, p.c);
  bytes.weights[0] = table::as_bytes(squeeze_excite_packed_bytes(variant, p));
  return bytes;
}

cudaError_t launch_on(SqueezeExciteVariant variant, const SqueezeExciteParams& p, const Operands& at,
                      const Launch& where) {
  return squeeze_excite(variant, p, at.x, at.weights[0], at.y, where);
}

std::string shape(const SqueezeExciteParams& p) {
  table::ShapeText text("squeeze_excite");
  text.with("n", p.n).with("pixels", p.pixels).with("c", p.c).with("squeezed", p.squeezed);
  text.with("squeeze_activation", p.squeeze_activation);
  return text.with("gate_activation", p.gate_activation).take();
}

}  // namespace

const KernelTable<SqueezeExciteParams, SqueezeExciteVariant>& kernel_of(const SqueezeExciteParams&) {
  static const KernelTable<SqueezeExciteParams, SqueezeExciteVariant> kTable{
      .name = "squeeze_excite",
      .variants = squeeze_excite_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packing = kernels::name,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<SqueezeExciteParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
