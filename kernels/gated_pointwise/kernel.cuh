#pragma once

#include "kernels/common/activation.cuh"
#include "kernels/common/gates.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/common/swizzle.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace mobicuda::kernels::gated {

using gates::Columns;

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kResident = 2;     // blocks that the registers of an SM hold
inline constexpr int kPacket = 8;       // channels of a packet
inline constexpr int kTile = 16;        // pixels, channels and output channels of a step of a tile
inline constexpr int kMostTiles = 4;    // of pixels, of a unit
inline constexpr int kStepBytes = 512;  // of the weights of 16 output channels

/// Steps whose weights a warp loads at once, while it works on as many: those of few tiles take less time, and leave
/// more registers. (A ring, each step's loaded that many steps ahead, took twice as long: README.md.)
template <int kTiles>
inline constexpr int kStepsAtOnce = kTiles <= 2 ? 8 : 4;

/// Where things lie in a block's shared memory, in bytes. At 0 the first matrix; in front of `barriers` what is a
/// slice of the packed gate.
struct Layout {
  int expand, reduce_bias, expand_bias, bias, barriers, sums, mean, squeezed, gate, received_sums, received_products,
      received_gates, x, all;
};

/// x (n, pixels, c), y and residual (n, pixels, out). Each rank of a cluster has a band of the pixels.
struct Arguments {
  const void* x;
  const unsigned char* gate;        ///< of each slice, as in shared memory
  const unsigned char* projection;  ///< in fragment order
  const void* residual;             ///< may be null
  void* y;
  int n, pixels, c, out;
  int ranks;
  int slices;         ///< of the channels: ranks that share the products of the gate, or 1: each has them all
  int packets;        ///< of the channels
  int slice_packets;  ///< of the channels of a slice; the last ones of some slices are absent
  int rows;           ///< threads that share a packet of channels, each with every rows-th pixel
  int tiles;          ///< of 16 pixels of a band
  int groups;         ///< of the tiles, a unit's each
  int row_bytes;      ///< of a pixel in shared memory: whole steps of 16 channels
  Swizzle swizzle;    ///< of these rows
  float inverse;      ///< 1 / pixels
  Activation squeeze_activation, gate_activation, activation;
  Columns mean;    ///< packets of four floats: from each row, the four sums of all its packets, half after half
  Columns reduce;  ///< (channels of a slice / packet, squeezed, packet)
  Columns expand;  ///< (squeezed / packet, channels of a slice, packet)
  Layout at;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// The products of a warp's units: each is some tiles of 16 pixels times 16 output channels, and walks over all steps
/// of 16 channels. Weights lie in fragment order, and lanes have four neighbouring output channels.
template <int kTiles>
class Products {
 public:
  /// x lies at `x` in shared memory; of the image's pixels from the block's first one on, `y` and `residual` are
  /// y and residual.
  __device__ __forceinline__ Products(const Arguments& a, std::uint32_t x, const float* bias)
      : a_(a),
        row_(x + static_cast<std::uint32_t>(ptx::as_int::lane() % kTile * a.row_bytes)),
        half_(ptx::lane() / kTile * 16),
        swizzle_(static_cast<std::uint32_t>(a.swizzle.of(ptx::as_int::lane()))),
        bias_(bias),
        weights_(a.projection + ptx::lane() * 16),
        steps_((a.c + kTile - 1) / kTile),
        units_((a.out + kTile - 1) / kTile * a.groups) {}

  /// The first weights of the first unit. As early as registers permit.
  __device__ __forceinline__ void begin() { load_first(ptx::as_int::warp()); }

  /// Of a band of `pixels` of an image; `before` are the pixels of y before it.
  __device__ __forceinline__ void run(int pixels, std::size_t before) {
    for (int unit = ptx::as_int::warp(); unit < units_; unit += kWarps) {
      const int pair = unit / a_.groups;
      const int tile = unit % a_.groups * kTiles;
      float sums[kTiles][2][4] = {};
      multiply(pair, tile, sums);
      load_first(unit + kWarps);
      finish(pair, tile, pixels, before, sums);
    }
  }

 private:
  static constexpr int kAtOnce = kStepsAtOnce<kTiles>;

  __device__ __forceinline__ const unsigned char* weights_of(int pair) const {
    return weights_ + static_cast<std::size_t>(pair) * steps_ * kStepBytes;
  }

  __device__ __forceinline__ void load_first(int unit) {
    if (unit < units_) load_steps(weights_of(unit / a_.groups), 0);
  }

  /// Those behind the last one are the last one, in vain.
  __device__ __forceinline__ void load_steps(const unsigned char* from, int first) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      next_[i] = ptx::load_global_nc<uint4>(from + static_cast<std::size_t>(min(first + i, steps_ - 1)) * kStepBytes);
    }
  }

  __device__ __forceinline__ void multiply(int pair, int tile, float (&sums)[kTiles][2][4]) {
    const unsigned char* const from = weights_of(pair);
    std::uint32_t rows[kTiles];  // of the tiles; the last group's that are not there are the last one, in vain
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      rows[i] = row_ + static_cast<std::uint32_t>(min(tile + i, a_.tiles - 1) * kTile * a_.row_bytes);
    }
    for (int first = 0; first < steps_; first += kAtOnce) {
      uint4 weights[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) weights[i] = next_[i];
      if (first + kAtOnce < steps_) load_steps(from, first + kAtOnce);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int step = first + i;
        if (step >= steps_) break;
        const std::uint32_t at = (static_cast<std::uint32_t>(step * kTile * 2) + half_) ^ swizzle_;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          std::uint32_t x[4];
          ptx::ldmatrix_x4(x, rows[t] + at);
          ptx::mma_16x8x16(sums[t][0], x, weights[i].x, weights[i].y);
          ptx::mma_16x8x16(sums[t][1], x, weights[i].z, weights[i].w);
        }
      }
    }
  }

  /// Bias, residual, activation, and to y.
  __device__ __forceinline__ void finish(int pair, int tile, int pixels, std::size_t before,
                                         const float (&sums)[kTiles][2][4]) const {
    const int channel = pair * kTile + ptx::as_int::lane() % 4 * 4;
    const auto biases = load<4>(bias_ + channel);
    const int row = tile * kTile + ptx::as_int::lane() / 4;
    const auto present = [&](int r) { return r < pixels && channel < a_.out; };
    const auto place = [&](int r) { return ((before + static_cast<std::size_t>(r)) * a_.out + channel) * 2; };
    uint2 residual[kTiles][2] = {};
    if (a_.residual != nullptr) {
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        const int r = row + i * (kTile / 2);
        ptx::load_global_or_zero(static_cast<const unsigned char*>(a_.residual) + place(r),
                                 static_cast<unsigned>(present(r)), residual[i / 2][i % 2]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const auto& of = sums[i / 2];
      const int at = i % 2 * 2;
      float values[4] = {of[0][at], of[0][at + 1], of[1][at], of[1][at + 1]};
      float more[4];
      ptx::to_floats_volatile(residual[i / 2][i % 2].x, more[0], more[1]);
      ptx::to_floats_volatile(residual[i / 2][i % 2].y, more[2], more[3]);
#pragma unroll
      for (int j = 0; j < 4; ++j) values[j] += biases.item[j] + more[j];
      apply(a_.activation, values);
      const std::uint32_t halves[2] = {ptx::to_half2(values[0], values[1]), ptx::to_half2(values[2], values[3])};
      const int r = row + i * (kTile / 2);
      ptx::store_global_if(present(r), static_cast<unsigned char*>(a_.y) + place(r), halves);
    }
  }

  const Arguments& a_;
  std::uint32_t row_;             // of the first tile, that this lane gives the address of
  std::uint32_t half_, swizzle_;  // of a step, which of its two chunks; the row's
  const float* bias_;
  const unsigned char* weights_;  // of this lane
  int steps_, units_;
  uint4 next_[kAtOnce];
};

#endif

/// A cluster takes every so-manieth image.
template <int kTiles>
__global__ void __launch_bounds__(kThreads, kResident) gated_pointwise_kernel([[maybe_unused]] const Arguments a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, shared);
  const std::uint32_t base = ptx::shared_address(shared);
  const int thread = static_cast<int>(threadIdx.x);
  const int rank = static_cast<int>(blockIdx.x) % a.ranks;
  const bool shares = a.slices > 1;
  const int slice = shares ? rank : 0;
  const auto floats = [&](int at) { return reinterpret_cast<float*>(shared + at); };
  const auto* const reduce = reinterpret_cast<const __half*>(shared);
  const auto* const expand = reinterpret_cast<const __half*>(shared + a.at.expand);
  float* const mean = floats(a.at.mean);
  float* const squeezed = floats(a.at.squeezed);
  const std::uint32_t weights_arrived = base + static_cast<std::uint32_t>(a.at.barriers);
  const auto first_packet_of = [&](int which) { return which * a.packets / a.slices; };
  const int first_packet = first_packet_of(slice);
  const int channels = (first_packet_of(slice + 1) - first_packet) * kPacket;  // of the slice
  const int all_channels = a.slice_packets * kPacket;                          // those that are absent too

  const auto exchange_at = [&](int which, int received, const gates::Parts& comes, int own) {
    return gates::Exchange(weights_arrived + 8 + static_cast<std::uint32_t>(which * 16),
                           base + static_cast<std::uint32_t>(received), comes, own, a.ranks);
  };
  // To each rank the sums of its slice, from each; the products of all slices to all ranks; and all slices' gates.
  const auto sums_exchange = exchange_at(0, a.at.received_sums, {all_channels, a.ranks, a.ranks * channels * 4}, rank);
  const int products = a.reduce.columns;
  const auto products_exchange =
      exchange_at(1, a.at.received_products, {products, a.ranks, a.ranks * products * 4}, rank);
  const auto gates_exchange = exchange_at(2, a.at.received_gates, {a.c, 1, a.c * 4}, 0);
  const auto announce = [&](int image) {
    sums_exchange.announce(image);
    if (!shares) return;
    products_exchange.announce(image);
    gates_exchange.announce(image);
  };

  if (thread == 0) {
    ptx::mbarrier_init(weights_arrived, 1);
    sums_exchange.begin();
    products_exchange.begin();
    gates_exchange.begin();
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
    const int slice_bytes = a.at.barriers;
    ptx::mbarrier_arrive_expect(weights_arrived, slice_bytes);
    ptx::copy_bulk(base, a.gate + static_cast<std::size_t>(slice) * slice_bytes, slice_bytes, weights_arrived);
    announce(0);
    announce(1);
  }
  if (a.ranks > 1) arrive_at_cluster_begin();

  // A thread has a packet of channels of every rows-th pixel.
  const int first_pixel = static_cast<int>(static_cast<std::int64_t>(rank) * a.pixels / a.ranks);
  const int pixels = static_cast<int>(static_cast<std::int64_t>(rank + 1) * a.pixels / a.ranks) - first_pixel;
  const int row = thread / a.packets;
  const int packet = thread % a.packets;
  const int count = row < a.rows && row < pixels ? (pixels - row + a.rows - 1) / a.rows : 0;
  const std::uint32_t memory = base + static_cast<std::uint32_t>(a.at.x);
  const auto packet_at = [&](int r, int p) {
    return memory + static_cast<std::uint32_t>(r * a.row_bytes + (p * 16 ^ a.swizzle.of(r)));
  };
  const auto own_at = [&](int i) { return packet_at(row + i * a.rows, packet); };
  // Zeros for the pixels and channels that are not there. Nobody writes there again.
  for (int at = pixels * a.row_bytes + thread * 16; at < a.tiles * kTile * a.row_bytes; at += kThreads * 16) {
    ptx::clear_shared(memory + static_cast<std::uint32_t>(at));
  }
  if (a.c % kTile != 0) {
    for (int r = thread; r < pixels; r += kThreads) ptx::clear_shared(packet_at(r, a.packets));
  }
  Products<kTiles> projection(a, memory, floats(a.at.bias));
  __syncthreads();  // the barriers are there
  wait_for_predecessor();

  const int clusters = static_cast<int>(gridDim.x) / a.ranks;
  int image = 0;  // of this cluster's
  for (int n = static_cast<int>(blockIdx.x) / a.ranks; n < a.n; n += clusters, ++image) {
    const std::size_t before = static_cast<std::size_t>(n) * a.pixels + static_cast<std::size_t>(first_pixel);
    const unsigned char* const x = static_cast<const unsigned char*>(a.x) +
                                   ((before + static_cast<std::size_t>(row)) * a.c + packet * kPacket) * 2;
    const std::size_t step = static_cast<std::size_t>(a.rows) * a.c * 2;
    if (image > 0) __syncthreads();  // the products of the image before are there
    float sum[kPacket] = {};
    constexpr int kLoads = 14;  // under way; maps of 7x7 to 112x112 are whole multiples of 7 pixels in both directions
    for (int first = 0; first < count; first += kLoads) {
      uint4 held[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        ptx::load_global_or_zero(x + static_cast<std::size_t>(first + i) * step,
                                 static_cast<unsigned>(first + i < count), held[i]);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        float values[kPacket];
        gates::unpack(held[i], values);
#pragma unroll
        for (int j = 0; j < kPacket; ++j) sum[j] += values[j];
        const std::uint32_t words[4] = {held[i].x, held[i].y, held[i].z, held[i].w};
        if (first + i < count) ptx::store_shared(own_at(first + i), words);
      }
    }

    // The mean: the rows' sums are added up, then those of the bands.
    auto* const sums = reinterpret_cast<float4*>(shared + a.at.sums);
    if (row < a.rows) {
#pragma unroll
      for (int j = 0; j < kPacket; j += 4) {
        sums[row * a.mean.pitch + j / 4 * a.packets + packet] = make_float4(sum[j], sum[j + 1], sum[j + 2], sum[j + 3]);
      }
    }
    __syncthreads();
    if (a.ranks > 1 && image == 0) wait_for_cluster_begin();
    gates::for_each_column<kThreads>(a.mean, [&](int column, int lane) {
      const float4 total = gates::add_lanes(a.mean, gates::add_rows(a.mean, sums, column, lane));
      if (column >= a.mean.columns) return;
      const int its_packet = column < a.packets ? column : column - a.packets;
      const int half = column < a.packets ? 0 : 4;
      if (shares) {
        const int owner = ((its_packet + 1) * a.slices - 1) / a.packets;  // the last slice that begins here or before
        const int channel = (its_packet - first_packet_of(owner)) * kPacket + half;
        if (lane == 0) sums_exchange.send_to(owner, image, channel, total);
      } else if (a.ranks > 1) {
        sums_exchange.send(image, its_packet * kPacket + half, total, lane, 1 << a.mean.lane_bits);
      } else if (lane == 0) {
        *reinterpret_cast<float4*>(mean + its_packet * kPacket + half) =
            make_float4(total.x * a.inverse, total.y * a.inverse, total.z * a.inverse, total.w * a.inverse);
      }
    });
    if (a.ranks > 1) {
      for (int i = thread; i < all_channels; i += kThreads) {
        mean[i] = i < channels ? sums_exchange.receive(image, i, floats(a.at.received_sums)) * a.inverse : 0.0F;
      }
    }
    __syncthreads();
    if (image == 0) ptx::mbarrier_wait(weights_arrived, 0);

    // Each slice multiplies its channels' part of the first matrix.
    const auto squeeze = [&](int i, float product) {
      squeezed[i] = apply(a.squeeze_activation, product + floats(a.at.reduce_bias)[i]);
    };
    gates::for_each_column<kThreads>(a.reduce, [&](int column, int lane) {
      const float product = gates::add_lanes(a.reduce, gates::multiply(a.reduce, reduce, mean, column, lane));
      if (shares) {  // the lanes of four columns send all four
        const gates::FourColumns four(a.reduce);
        const float4 values = four.values(product);
        if (column < products) products_exchange.send(image, four.first(column), values, four.lane, four.lanes);
      } else if (lane == 0 && column < products) {
        squeeze(column, product);
      }
    });
    if (shares) {
      for (int i = thread; i < products; i += kThreads) {
        squeeze(i, products_exchange.receive(image, i, floats(a.at.received_products)));
      }
    }
    __syncthreads();

    // Its channels' part of the second one.
    gates::for_each_column<kThreads>(a.expand, [&](int column, int lane) {
      const float product = gates::add_lanes(a.expand, gates::multiply(a.expand, expand, squeezed, column, lane));
      const float gate =
          apply(a.gate_activation, product + (column < all_channels ? floats(a.at.expand_bias)[column] : 0.0F));
      if (shares) {
        const gates::FourColumns four(a.expand);
        const float4 values = four.values(gate);
        if (column < channels) {
          gates_exchange.send(image, first_packet * kPacket + four.first(column), values, four.lane, four.lanes);
        }
      } else if (lane == 0 && column < channels) {
        floats(a.at.gate)[column] = gate;
      }
    });
    projection.begin();
    const float* gate = floats(a.at.gate);
    if (shares) {
      gate = gates_exchange.wait(image, floats(a.at.received_gates));
    } else {
      __syncthreads();
    }
    if (a.ranks > 1 && thread == 0) announce(image + 2);

    // x times the gates, in its place.
    const auto factors = load<kPacket>(gate + packet * kPacket);
    constexpr int kAtOnce = 4;
    for (int first = 0; first < count; first += kAtOnce) {
      uint4 held[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        held[i] = ptx::load_shared<uint4>(own_at(min(first + i, count - 1)));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float values[kPacket];
        gates::unpack(held[i], values);
#pragma unroll
        for (int j = 0; j < kPacket; ++j) values[j] *= factors.item[j];
        std::uint32_t gated[4];
        gates::pack(values, gated);
        if (first + i < count) ptx::store_shared(own_at(first + i), gated);
      }
    }
    __syncthreads();
    projection.run(pixels, before);
  }
#endif
}

}  // namespace mobicuda::kernels::gated
