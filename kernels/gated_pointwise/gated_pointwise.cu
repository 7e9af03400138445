// Squeeze and excite and the pointwise convolution behind it in one launch: mean, two small matrix products, gates,
// then products of the gated pixels by mma.sync. An image has a cluster of blocks that share its pixels; they exchange
// the sums, and where its matrices are heavy also share the gate's products. x stays in shared memory; the gate's
// weights are there before the predecessor ends. Shared memory: slice of weights | barriers | sums | received floats |
// x; see layout_of().
#include "kernels/gated_pointwise/gated_pointwise.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/common/gates.h"
#include "kernels/common/launch_cluster.h"
#include "kernels/common/resident_blocks.h"
#include "kernels/common/table_parts.h"
#include "kernels/common/variant_table.h"
#include "kernels/gated_pointwise/kernel.cuh"

namespace mobicuda::kernels {
namespace {

using gated::Arguments;
using gated::kPacket;
using gated::kStepBytes;
using gated::kThreads;
using gated::kTile;
using gated::kWarps;
using gated::Layout;
using gates::Columns;
using Variant = GatedPointwiseVariant;

constexpr int kMostPixels = 1 << 24;
constexpr int kMostChannels = 1 << 14;

struct Entry {
  Variant variant;
  std::string_view name;
  int bands;
};

constexpr Entry kEntries[] = {{Variant::Bands1, "bands1", 1},
                              {Variant::Bands2, "bands2", 2},
                              {Variant::Bands4, "bands4", 4},
                              {Variant::Bands8, "bands8", 8}};
constexpr auto kVariants = variants_of(kEntries);
static_assert(in_order_of_variants(kEntries), "entry_of() takes the variant for the index");

const Entry& entry_of(Variant variant) { return kEntries[static_cast<std::size_t>(variant)]; }

/// How a variant runs a shape. Depends on nothing else, nor do the bits of a result.
struct Plan {
  int packets;        ///< of the channels
  int slices;         ///< of the channels: ranks that share the products of the gate, or 1
  int slice_packets;  ///< at most
  int squeezed;       ///< channels, those behind the last whole packet as zeros
  int rows;
  int tiles;       ///< of 16 pixels of a band, at most
  int unit_tiles;  ///< of a unit, at most
  int steps;       ///< of 16 channels
  int pairs;       ///< of 8 output channels
  int row_bytes;   ///< of a pixel in shared memory
  Columns mean, reduce, expand;

  int channels() const { return slice_packets * kPacket; }  ///< of a slice
  int groups() const { return ceil_div(tiles, unit_tiles); }
};

/// Tiles of a unit that let the warps be done first, each with a unit for every kWarps. A step of a unit takes as long
/// as its tiles, and one more for the weights.
int unit_tiles(int tiles, int pairs) {
  const auto time = [&](int its) { return ceil_div(ceil_div(tiles, its) * pairs, kWarps) * (its + 1); };
  int best = 1;
  for (int its = 2; its <= gated::kMostTiles; ++its) {
    if (time(its) <= time(best)) best = its;
  }
  return best;
}

Plan plan_of(const Entry& entry, const GatedPointwiseParams& p) {
  constexpr std::int64_t kLight = 48 * 1024;  // bytes of both matrices, whose products a rank has to itself
  Plan plan{};
  plan.packets = p.c / kPacket;
  plan.squeezed = round_up(p.squeezed, kPacket);
  const std::int64_t bytes = std::int64_t{2} * p.c * plan.squeezed * static_cast<std::int64_t>(sizeof(__half));
  plan.slices = bytes <= kLight ? 1 : entry.bands;
  plan.slice_packets = ceil_div(plan.packets, plan.slices);
  const int pixels = ceil_div(p.pixels, entry.bands);
  plan.rows = std::min(kThreads / plan.packets, pixels);
  plan.tiles = ceil_div(pixels, kTile);
  plan.steps = ceil_div(p.c, kTile);
  plan.pairs = ceil_div(p.out, kTile);
  plan.unit_tiles = unit_tiles(plan.tiles, plan.pairs);
  plan.row_bytes = plan.steps * kTile * 2;
  plan.mean = gates::columns_of(plan.rows, p.c / 4, kThreads);
  plan.reduce = gates::columns_of(plan.slice_packets, plan.squeezed, kThreads);
  plan.expand = gates::columns_of(plan.squeezed / kPacket, plan.channels(), kThreads);
  return plan;
}

constexpr std::int64_t kMostBytes = 1 << 30;  // that a layout tells apart; more than any block has

Layout layout_of(const Entry& entry, const Plan& plan) {
  std::int64_t end = 0;
  const auto take = [&](std::int64_t bytes) {
    return static_cast<int>(std::exchange(end, std::min<std::int64_t>(end + bytes, kMostBytes)));
  };
  const auto take_received = [&](bool comes, int parts, int floats) {
    return take(comes ? std::int64_t{2} * parts * floats * 4 : 0);
  };
  const int c = plan.packets * kPacket;
  const bool shares = plan.slices > 1;
  Layout at{};
  take(gates::bytes_of(plan.reduce));
  at.expand = take(gates::bytes_of(plan.expand));
  at.reduce_bias = take(plan.squeezed * 4);
  at.expand_bias = take(plan.channels() * 4);
  at.bias = take(plan.pairs * kTile * 4);
  at.barriers = take(64);  // of the weights, and of two buffers of each exchange; whole packets
  at.sums = take(gates::bytes_of(plan.mean));
  at.mean = take(plan.channels() * 4);
  at.squeezed = take(plan.squeezed * 4);
  at.gate = take(shares ? 0 : c * 4);
  at.received_sums = take_received(entry.bands > 1, entry.bands, plan.channels());
  at.received_products = take_received(shares, entry.bands, plan.squeezed);
  at.received_gates = take_received(shares, 1, c);
  at.x = take(std::int64_t{plan.tiles} * kTile * plan.row_bytes);
  at.all = static_cast<int>(end);
  return at;
}

/// As many clusters as the GPU holds at once, all with the same number of images but for the last.
template <int kTiles>
cudaError_t launch_tiles(const Entry& entry, const DeviceTraits& gpu, const Arguments& a, const Launch& where) {
  const auto kernel = gated::gated_pointwise_kernel<kTiles>;
  const auto ranks = static_cast<unsigned>(entry.bands);
  const auto bytes = static_cast<std::size_t>(a.at.all);
  int at_once = 0;
  const cudaError_t status = resident_clusters(kernel, ranks, kThreads, bytes, gpu.shared_bytes_per_block, at_once);
  if (status != cudaSuccess) return status;
  const int rounds = ceil_div(a.n, at_once);
  const auto clusters = static_cast<unsigned>(ceil_div(a.n, rounds));
  return launch_clusters(kernel, dim3(clusters * ranks), dim3(kThreads), bytes, ranks, where, a);
}

cudaError_t launch_variant(const Entry& entry, int tiles, const DeviceTraits& gpu, const Arguments& a,
                           const Launch& where) {
  static_assert(gated::kMostTiles == 4);
  if (tiles == 1) return launch_tiles<1>(entry, gpu, a, where);
  if (tiles == 2) return launch_tiles<2>(entry, gpu, a, where);
  if (tiles == 3) return launch_tiles<3>(entry, gpu, a, where);
  return launch_tiles<4>(entry, gpu, a, where);
}

}  // namespace

std::span<const GatedPointwiseVariant> gated_pointwise_variants() { return kVariants; }

std::string_view name(GatedPointwiseVariant variant) { return entry_of(variant).name; }

bool supports(GatedPointwiseVariant variant, const GatedPointwiseParams& p, const DeviceTraits& gpu) {
  constexpr int kOldest = 90;  // clusters, barriers that count bytes
  if (static_cast<std::size_t>(variant) >= kVariants.size() || gpu.code < kOldest) return false;
  if (p.elem != Elem::F16) return false;
  const Entry& entry = entry_of(variant);
  if (entry.bands > gpu.cluster_blocks) return false;
  if (p.n < 0 || p.pixels < 1 || p.pixels > kMostPixels || p.c < kPacket || p.c > kThreads * kPacket) return false;
  if (p.squeezed < 1 || p.squeezed > kMostChannels || p.out < kPacket || p.out > kMostChannels) return false;
  if (p.c % kPacket != 0 || p.out % kPacket != 0) return false;
  const Plan plan = plan_of(entry, p);
  if (plan.slices > plan.packets) return false;
  return static_cast<std::size_t>(layout_of(entry, plan).all) <= gpu.shared_bytes_per_block;
}

std::size_t gated_pointwise_packed_bytes(GatedPointwiseVariant variant, const GatedPointwiseParams& p) {
  const Entry& entry = entry_of(variant);
  const Plan plan = plan_of(entry, p);
  const Layout at = layout_of(entry, plan);
  return static_cast<std::size_t>(plan.slices) * static_cast<std::size_t>(at.barriers);
}

void gated_pointwise_pack(GatedPointwiseVariant variant, const GatedPointwiseParams& p,
                          const GatedPointwiseWeights& weights, void* packed) {
  const Entry& entry = entry_of(variant);
  const Plan plan = plan_of(entry, p);
  const Layout at = layout_of(entry, plan);
  auto* to = static_cast<unsigned char*>(packed);
  std::memset(to, 0, gated_pointwise_packed_bytes(variant, p));
  const gates::Matrices from{weights.reduce, weights.reduce_bias, weights.expand, weights.expand_bias, p.c, p.squeezed};
  const gates::Places places{plan.reduce, plan.expand, at.expand, at.reduce_bias, at.expand_bias};
  const auto first_channel = [&](int slice) { return slice * plan.packets / plan.slices * kPacket; };
  for (int slice = 0; slice < plan.slices; ++slice, to += at.barriers) {
    const int first = first_channel(slice);
    gates::pack_slice<__half>(from, places, first, first_channel(slice + 1) - first, to);
    if (weights.bias != nullptr) std::copy_n(weights.bias, p.out, reinterpret_cast<float*>(to + at.bias));
  }
}

std::size_t gated_pointwise_projection_bytes(int out, int c) {
  return static_cast<std::size_t>(ceil_div(out, kTile)) * static_cast<std::size_t>(ceil_div(c, kTile)) * kStepBytes;
}

// Pairs of tiles of 8 output channels, steps, lanes: two words of each tile. Lanes have four neighbouring output
// channels of the two tiles' columns.
void gated_pointwise_pack_projection(int out, int c, const float* weight, void* packed) {
  auto* to = static_cast<__half*>(packed);
  for (int pair = 0; pair < ceil_div(out, kTile); ++pair) {
    for (int step = 0; step < ceil_div(c, kTile); ++step) {
      for (int i = 0; i < kStepBytes / 2; ++i, ++to) {
        const int lane = i / 8;
        const int column = lane / 4;
        const int o = pair * kTile + column / 2 * 4 + i / 4 % 2 * 2 + column % 2;
        const int from = step * kTile + i / 2 % 2 * 8 + lane % 4 * 2 + i % 2;
        *to = __half(o < out && from < c ? weight[static_cast<std::size_t>(o) * c + from] : 0.0F);
      }
    }
  }
}

cudaError_t gated_pointwise(GatedPointwiseVariant variant, const GatedPointwiseParams& p, const void* x,
                            const void* packed, const void* projection, const void* residual, void* y,
                            const Launch& where) {
  DeviceTraits gpu;
  if (const cudaError_t status = current_device_traits(gpu); status != cudaSuccess) return status;
  if (!supports(variant, p, gpu) || (p.residual && residual == nullptr)) return cudaErrorInvalidValue;
  if (p.n == 0) return cudaSuccess;
  const Entry& entry = entry_of(variant);
  const Plan plan = plan_of(entry, p);
  Arguments a{};
  a.x = x;
  a.gate = static_cast<const unsigned char*>(packed);
  a.projection = static_cast<const unsigned char*>(projection);
  a.residual = p.residual ? residual : nullptr;
  a.y = y;
  a.n = p.n;
  a.pixels = p.pixels;
  a.c = p.c;
  a.out = p.out;
  a.ranks = entry.bands;
  a.slices = plan.slices;
  a.packets = plan.packets;
  a.slice_packets = plan.slice_packets;
  a.rows = plan.rows;
  a.tiles = plan.tiles;
  a.groups = plan.groups();
  a.row_bytes = plan.row_bytes;
  a.swizzle = swizzle_of(plan.row_bytes / 16);
  a.inverse = 1.0F / static_cast<float>(p.pixels);
  a.squeeze_activation = p.squeeze_activation;
  a.gate_activation = p.gate_activation;
  a.activation = p.activation;
  a.mean = plan.mean;
  a.reduce = plan.reduce;
  a.expand = plan.expand;
  a.at = layout_of(entry, plan);
  return launch_variant(entry, plan.unit_tiles, gpu, a, where);
}

// The kernel's table.
namespace {

OperandBytes operands(GatedPointwiseVariant variant, const GatedPointwiseParams& p) {
  OperandBytes bytes;
  bytes.x = table::bytes(p.elem, p.n, p.pixels, p.c);
  bytes.weights[0] = table::as_bytes(gated_pointwise_packed_bytes(variant, p));
  bytes.weights[1] = table::as_bytes(gated_pointwise_projection_bytes(p.out, p.c));
  bytes.y = table::bytes(p.elem, p.n, p.pixels, p.out);
  if (p.residual) bytes.residual = bytes.y;
  return bytes;
}

cudaError_t launch_on(GatedPointwiseVariant variant, const GatedPointwiseParams& p, const Operands& at,
                      const Launch& where) {
  return gated_pointwise(variant, p, at.x, at.weights[0], at.weights[1], at.residual, at.y, where);
}

std::string shape(const GatedPointwiseParams& p) {
  table::ShapeText text("gated_pointwise");
  text.with("n", p.n).with("pixels", p.pixels).with("c", p.c).with("squeezed", p.squeezed).with("out", p.out);
  text.with("residual", p.residual).with("squeeze_activation", p.squeeze_activation);
  return text.with("gate_activation", p.gate_activation).with("activation", p.activation).take();
}

}  // namespace

const KernelTable<GatedPointwiseParams, GatedPointwiseVariant>& kernel_of(const GatedPointwiseParams&) {
  static const KernelTable<GatedPointwiseParams, GatedPointwiseVariant> kTable{
      .name = "gated_pointwise",
      .variants = gated_pointwise_variants(),
      .variant_name = kernels::name,
      .supports = kernels::supports,
      .packing = kernels::name,
      .operands = operands,
      .launch = launch_on,
      .with_batch = with_images<GatedPointwiseParams>,
      .shape = shape,
  };
  return kTable;
}

}  // namespace mobicuda::kernels
