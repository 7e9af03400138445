#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/common/gates.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::squeeze {

using gates::Columns;

/// A form of the kernel's blocks.
struct Block {
  int threads;
  int held;      ///< packets of x that a thread keeps in registers
  int resident;  ///< blocks that the registers of an SM hold
  bool rereads;  ///< packets beyond `held`
};
inline constexpr Block kBlocks[] = {{256, 7, 4, false}, {512, 7, 2, false}, {512, 14, 1, true}};

/// Where things lie in a block's shared memory, in bytes. At 0 the first matrix; in front of `barriers` what is a
/// slice of the packed weights.
struct Layout {
  int expand, reduce_bias, expand_bias, barriers, sums, mean, squeezed, gate, received, all;
};

/// x (n, pixels, c), y alike. Of the ranks of a cluster each has all pixels of a slice of the channels, or a band of
/// the pixels: slices or bands is 1.
struct Arguments {
  const void* x;
  const unsigned char* packed;  ///< of each slice, as in shared memory
  void* y;
  int n, pixels, c;
  int slices, bands;
  int packets;    ///< of the channels of a rank; the last ones of some ranks are absent
  int rows;       ///< threads that share a packet of channels, each with every rows-th pixel
  int exchanged;  ///< floats that a rank sends to each
  float inverse;  ///< 1 / pixels
  Activation squeeze_activation, gate_activation;
  Columns mean;    ///< packets of four floats: from each row, the four sums of all its packets, half after half
  Columns reduce;  ///< (channels / packet, squeezed, packet)
  Columns expand;  ///< (squeezed / packet, channels, packet)
  Layout at;
};

/// A cluster takes every so-manieth image.
template <class T, int kForm>
__global__ void __launch_bounds__(kBlocks[kForm].threads, kBlocks[kForm].resident)
    squeeze_excite_kernel([[maybe_unused]] const Arguments a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr Block kBlock = kBlocks[kForm];
  constexpr int kN = kWide<T>;
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, shared);
  const std::uint32_t base = ptx::shared_address(shared);
  const int thread = static_cast<int>(threadIdx.x);
  const int ranks = a.slices * a.bands;
  const int rank = static_cast<int>(blockIdx.x) % ranks;
  const int slice = a.slices > 1 ? rank : 0;
  const int band = a.bands > 1 ? rank : 0;
  const auto floats = [&](int at) { return reinterpret_cast<float*>(shared + at); };
  const auto* const reduce = reinterpret_cast<const T*>(shared);
  const auto* const expand = reinterpret_cast<const T*>(shared + a.at.expand);
  float* const mean = floats(a.at.mean);
  float* const squeezed = floats(a.at.squeezed);
  float* const gate = floats(a.at.gate);
  const std::uint32_t weights_arrived = base + static_cast<std::uint32_t>(a.at.barriers);
  const gates::Exchange exchange(weights_arrived + 8, base + static_cast<std::uint32_t>(a.at.received),
                                 {a.exchanged, ranks, ranks * a.exchanged * 4}, rank, ranks);

  if (thread == 0) {
    ptx::mbarrier_init(weights_arrived, 1);
    exchange.begin();
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
    const int slice_bytes = a.at.barriers;
    ptx::mbarrier_arrive_expect(weights_arrived, slice_bytes);
    ptx::copy_bulk(base, a.packed + static_cast<std::size_t>(slice) * slice_bytes, slice_bytes, weights_arrived);
    exchange.announce(0);
    exchange.announce(1);
  }
  if (ranks > 1) arrive_at_cluster_begin();

  // A thread has a packet of channels of every rows-th pixel.
  const int first_packet = slice * (a.c / kN) / a.slices;
  const int packets = (slice + 1) * (a.c / kN) / a.slices - first_packet;
  const int first_pixel = band * a.pixels / a.bands;
  const int row = thread / a.packets;
  const int packet = thread % a.packets;
  const int pixels = (band + 1) * a.pixels / a.bands - first_pixel;
  const bool has_pixels = row < min(a.rows, pixels) && packet < packets;
  const int count = has_pixels ? (pixels - row + a.rows - 1) / a.rows : 0;
  const int step = a.rows * a.c * static_cast<int>(sizeof(T));  // bytes from one to the next
  // Bytes in front of the first one, of an image.
  const std::size_t own =
      (static_cast<std::size_t>(first_pixel + row) * a.c + static_cast<std::size_t>((first_packet + packet) * kN)) *
      sizeof(T);
  __syncthreads();  // the barriers are there
  wait_for_predecessor();

  const int clusters = static_cast<int>(gridDim.x) / ranks;
  int image = 0;  // of this cluster's
  for (int n = static_cast<int>(blockIdx.x) / ranks; n < a.n; n += clusters, ++image) {
    const std::size_t start = (static_cast<std::size_t>(n) * a.pixels * a.c) * sizeof(T) + own;
    const unsigned char* const x = static_cast<const unsigned char*>(a.x) + start;
    const auto offset = [&](int i) { return static_cast<std::size_t>(i) * static_cast<std::size_t>(step); };
    uint4 held[kBlock.held];
#pragma unroll
    for (int i = 0; i < kBlock.held; ++i) {
      ptx::load_global_or_zero(x + offset(i), static_cast<unsigned>(i < count), held[i]);
    }
    float sum[kN] = {};
    const auto add = [&](const uint4& words) {
      float values[kN];
      gates::unpack(words, values);
#pragma unroll
      for (int j = 0; j < kN; ++j) sum[j] += values[j];
    };
#pragma unroll
    for (int i = 0; i < kBlock.held; ++i) add(held[i]);
    if constexpr (kBlock.rereads) {
#pragma unroll 4
      for (int i = kBlock.held; i < count; ++i) add(ptx::load_global<uint4>(x + offset(i)));
    }

    // The mean: the rows' sums are added up, then those of the bands.
    auto* const sums = reinterpret_cast<float4*>(shared + a.at.sums);
    if (row < a.rows) {
#pragma unroll
      for (int j = 0; j < kN; j += 4) {
        sums[row * a.mean.pitch + j / 4 * a.packets + packet] = make_float4(sum[j], sum[j + 1], sum[j + 2], sum[j + 3]);
      }
    }
    __syncthreads();
    if (ranks > 1 && image == 0) wait_for_cluster_begin();
    gates::for_each_column<kBlock.threads>(a.mean, [&](int column, int lane) {
      const float4 total = gates::add_lanes(a.mean, gates::add_rows(a.mean, sums, column, lane));
      if (column >= a.mean.columns) return;
      const int channel = column < a.packets ? column * kN : (column - a.packets) * kN + 4;
      if (a.bands > 1) {
        exchange.send(image, channel, total, lane, 1 << a.mean.lane_bits);
      } else if (lane == 0) {
        *reinterpret_cast<float4*>(mean + channel) =
            make_float4(total.x * a.inverse, total.y * a.inverse, total.z * a.inverse, total.w * a.inverse);
      }
    });
    if (a.bands > 1) {
      for (int i = thread; i < a.exchanged; i += kBlock.threads) {
        mean[i] = exchange.receive(image, i, floats(a.at.received)) * a.inverse;
      }
    }
    __syncthreads();
    if (image == 0) ptx::mbarrier_wait(weights_arrived, 0);

    // Each slice multiplies its channels' part of the first matrix.
    const auto squeeze = [&](int i, float product) {
      squeezed[i] = apply(a.squeeze_activation, product + floats(a.at.reduce_bias)[i]);
    };
    gates::for_each_column<kBlock.threads>(a.reduce, [&](int column, int lane) {
      const float product = gates::add_lanes(a.reduce, gates::multiply(a.reduce, reduce, mean, column, lane));
      if (a.slices > 1) {  // the lanes of four columns send all four
        const gates::FourColumns four(a.reduce);
        const float4 products = four.values(product);
        if (column < a.reduce.columns) exchange.send(image, four.first(column), products, four.lane, four.lanes);
      } else if (lane == 0 && column < a.reduce.columns) {
        squeeze(column, product);
      }
    });
    if (a.slices > 1) {
      for (int i = thread; i < a.exchanged; i += kBlock.threads) {
        squeeze(i, exchange.receive(image, i, floats(a.at.received)));
      }
    }
    __syncthreads();
    if (ranks > 1 && thread == 0) exchange.announce(image + 2);

    gates::for_each_column<kBlock.threads>(a.expand, [&](int column, int lane) {
      const float product = gates::add_lanes(a.expand, gates::multiply(a.expand, expand, squeezed, column, lane));
      if (lane == 0 && column < a.expand.columns) {
        gate[column] = apply(a.gate_activation, product + floats(a.at.expand_bias)[column]);
      }
    });
    __syncthreads();

    const auto factors = load<kN>(gate + packet * kN);
    unsigned char* const y = static_cast<unsigned char*>(a.y) + (x - static_cast<const unsigned char*>(a.x));
    const auto store_gated = [&](int i, const uint4& words) {
      float values[kN];
      gates::unpack(words, values);
#pragma unroll
      for (int j = 0; j < kN; ++j) values[j] *= factors.item[j];
      std::uint32_t gated[4];
      gates::pack(values, gated);
      ptx::store_global_if(i < count, y + offset(i), gated);
    };
#pragma unroll
    for (int i = 0; i < kBlock.held; ++i) store_gated(i, held[i]);
    if constexpr (kBlock.rereads) {
#pragma unroll 4
      for (int i = kBlock.held; i < count; ++i) store_gated(i, ptx::load_global<uint4>(x + offset(i)));
    }
  }
#endif
}

}  // namespace mobicuda::kernels::squeeze
