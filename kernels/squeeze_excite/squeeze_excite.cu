// Squeeze and excite in one launch: mean, two small matrix products, gates, product. An image has a block, or a cluster
// of blocks that share its channels or its pixels and exchange sums once. x stays in registers, where it fits; the
// weights are in shared memory before the predecessor ends. Shared memory: slice of weights | barriers | sums |
// received sums; see layout_of().
#include "kernels/squeeze_excite/squeeze_excite.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/common/gates.h"
#include "kernels/common/launch_cluster.h"
#include "kernels/common/resident_blocks.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/squeeze_excite/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using gates::Columns;
using squeeze::Arguments;
using squeeze::Block;
using squeeze::kBlocks;
using squeeze::Layout;
using Variant = SqueezeExciteVariant;

constexpr int kMostPixels = 1 << 24;
constexpr int kMostChannels = 1 << 14;

struct Entry {
  Variant variant;
  std::string_view name;
  int slices, bands;

  constexpr int ranks() const { return slices * bands; }
};

constexpr Entry kEntries[] = {{Variant::Slices1, "slices1", 1, 1}, {Variant::Slices2, "slices2", 2, 1},
                              {Variant::Slices4, "slices4", 4, 1}, {Variant::Slices8, "slices8", 8, 1},
                              {Variant::Bands2, "bands2", 1, 2},   {Variant::Bands4, "bands4", 1, 4},
                              {Variant::Bands8, "bands8", 1, 8}};
constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

const Entry& entry_of(Variant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

/// How a variant runs a shape. Depends on nothing else, nor do the bits of a result.
struct Plan {
  int wide;      ///< elements of a packet
  int packets;   ///< of channels of a slice, at most
  int squeezed;  ///< channels, those behind the last whole packet as zeros
  int form;      ///< of kBlocks
  int rows;
  Columns mean, reduce, expand;

  int channels() const { return packets * wide; }
};

/// The smallest block that keeps its part of x in registers.
Plan plan_of(const Entry& entry, const SqueezeExciteParams& p) {
  Plan plan{};
  plan.wide = static_cast<int>(16 / size_of(p.elem));
  plan.packets = ceil_div(p.c / plan.wide, entry.slices);
  plan.squeezed = round_up(p.squeezed, plan.wide);
  const int pixels = ceil_div(p.pixels, entry.bands);
  const auto holds = [&](const Block& block) { return block.threads / plan.packets * block.held >= pixels; };
  const auto smallest = std::find_if(std::begin(kBlocks), std::end(kBlocks) - 1, holds);
  plan.form = static_cast<int>(smallest - std::begin(kBlocks));
  const int threads = smallest->threads;
  plan.rows = std::min(threads / plan.packets, pixels);
  plan.mean = gates::columns_of(plan.rows, plan.channels() / 4, threads);
  plan.reduce = gates::columns_of(plan.packets, plan.squeezed, threads);
  plan.expand = gates::columns_of(plan.squeezed / plan.wide, plan.channels(), threads);
  return plan;
}

/// Floats that a rank sends to each: sums of its channels, or products of the first matrix.
int exchanged(const Entry& entry, const Plan& plan) { return entry.bands > 1 ? plan.channels() : plan.squeezed; }

constexpr std::int64_t kMostBytes = 1 << 30;  // that a layout tells apart; more than any block has

Layout layout_of(const Entry& entry, const Plan& plan) {
  std::int64_t end = 0;
  const auto take = [&](std::int64_t bytes) {
    return static_cast<int>(std::exchange(end, std::min<std::int64_t>(end + bytes, kMostBytes)));
  };
  Layout at{};
  take(gates::bytes_of(plan.reduce));
  at.expand = take(gates::bytes_of(plan.expand));
  at.reduce_bias = take(plan.squeezed * 4);
  at.expand_bias = take(plan.channels() * 4);
  at.barriers = take(32);  // of the weights, and of two buffers; whole packets
  at.sums = take(gates::bytes_of(plan.mean));
  at.mean = take(plan.channels() * 4);
  at.squeezed = take(plan.squeezed * 4);
  at.gate = take(plan.channels() * 4);
  at.received = take(entry.ranks() == 1 ? 0 : std::int64_t{2} * entry.ranks() * exchanged(entry, plan) * 4);
  at.all = static_cast<int>(end);
  return at;
}

/// As many clusters as the GPU holds at once, all with the same number of images but for the last.
template <class T, int kForm>
cudaError_t launch_form(const Entry& entry, const DeviceTraits& gpu, const Arguments& a, const Launch& where) {
  const auto kernel = squeeze::squeeze_excite_kernel<T, kForm>;
  const dim3 threads(kBlocks[kForm].threads);
  const auto ranks = static_cast<unsigned>(entry.ranks());
  const auto bytes = static_cast<std::size_t>(a.at.all);
  int at_once = 0;
  const cudaError_t status =
      resident_clusters(kernel, ranks, kBlocks[kForm].threads, bytes, gpu.shared_bytes_per_block, at_once);
  if (status != cudaSuccess) return status;
  const int rounds = ceil_div(a.n, at_once);
  const auto clusters = static_cast<unsigned>(ceil_div(a.n, rounds));
  return launch_clusters(kernel, dim3(clusters * ranks), threads, bytes, ranks, where, a);
}

template <class T>
cudaError_t launch_variant(const Entry& entry, int form, const DeviceTraits& gpu, const Arguments& a,
                           const Launch& where) {
  static_assert(std::size(kBlocks) == 3);
  if (form == 0) return launch_form<T, 0>(entry, gpu, a, where);
  if (form == 1) return launch_form<T, 1>(entry, gpu, a, where);
  return launch_form<T, 2>(entry, gpu, a, where);
}

}  // namespace

std::span<const SqueezeExciteVariant> squeeze_excite_variants() { return kVariants; }

std::string_view name(SqueezeExciteVariant variant) { return entry_of(variant).name; }

bool supports(SqueezeExciteVariant variant, const SqueezeExciteParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;  // clusters, barriers that count bytes
  if (static_cast<std::size_t>(variant) >= kVariants.size() || gpu.code < kOldest) return false;
  if (p.elem == Elem::F64) return false;
  const Entry& entry = entry_of(variant);
  if (entry.ranks() > gpu.cluster_blocks) return false;
  if (p.n < 0 || p.pixels < 1 || p.pixels > kMostPixels || p.c < 8 || p.c > kMostChannels || p.c % 8 != 0) return false;
  if (p.squeezed < 1 || p.squeezed > kMostChannels) return false;
  const int all_packets = p.c * static_cast<int>(size_of(p.elem)) / 16;
  constexpr int kMostPackets = std::end(kBlocks)[-1].threads;  // of a block
  if (entry.slices > all_packets || ceil_div(all_packets, entry.slices) > kMostPackets) return false;
  return static_cast<std::size_t>(layout_of(entry, plan_of(entry, p)).all) <= gpu.shared_bytes_per_block;
}

std::int64_t squeeze_excite_small_bytes() { return std::int64_t{kBlocks[0].threads} * kBlocks[0].held * 16; }

std::size_t squeeze_excite_packed_bytes(SqueezeExciteVariant variant, const SqueezeExciteParams& p) {
  const Entry& entry = entry_of(variant);
  const Layout at = layout_of(entry, plan_of(entry, p));
  return static_cast<std::size_t>(entry.slices) * static_cast<std::size_t>(at.barriers);
}

void squeeze_excite_pack(SqueezeExciteVariant variant, const SqueezeExciteParams& p,
                         const SqueezeExciteWeights& weights, void* packed) {
  const Entry& entry = entry_of(variant);
  const Plan plan = plan_of(entry, p);
  const Layout at = layout_of(entry, plan);
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, squeeze_excite_packed_bytes(variant, p));
  const gates::Matrices from{weights.reduce, weights.reduce_bias, weights.expand, weights.expand_bias, p.c, p.squeezed};
  const gates::Places places{plan.reduce, plan.expand, at.expand, at.reduce_bias, at.expand_bias};
  const auto first_channel = [&](int slice) { return slice * (p.c / plan.wide) / entry.slices * plan.wide; };
  for (int slice = 0; slice < entry.slices; ++slice, to += at.barriers) {
    const int first = first_channel(slice);
    const int channels = first_channel(slice + 1) - first;
    if (p.elem == Elem::F32) {
      gates::pack_slice<float>(from, places, first, channels, to);
    } else {
      gates::pack_slice<__half>(from, places, first, channels, to);
    }
  }
}

cudaError_t squeeze_excite(SqueezeExciteVariant variant, const SqueezeExciteParams& p, const void* x,
                           const void* packed, void* y, const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, p, gpu)) return cudaErrorInvalidValue;
  if (p.n == 0) return cudaSuccess;
  const Entry& entry = entry_of(variant);
  const Plan plan = plan_of(entry, p);
  Arguments a{};
  a.x = x;
  a.packed = static_cast<const unsigned char*>(packed);
  a.y = y;
  a.n = p.n;
  a.pixels = p.pixels;
  a.c = p.c;
  a.slices = entry.slices;
  a.bands = entry.bands;
  a.packets = plan.packets;
  a.rows = plan.rows;
  a.exchanged = exchanged(entry, plan);
  a.inverse = 1.0F / static_cast<float>(p.pixels);
  a.squeeze_activation = p.squeeze_activation;
  a.gate_activation = p.gate_activation;
  a.mean = plan.mean;
  a.reduce = plan.reduce;
  a.expand = plan.expand;
  a.at = layout_of(entry, plan);
  return p.elem == Elem::F32 ? launch_variant<float>(entry, plan.form, gpu, a, where)
                             : launch_variant<__half>(entry, plan.form, gpu, a, where);
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
