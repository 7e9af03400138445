// What kernels of squeeze-and-excite blocks share: sums of columns by several lanes, and the exchange of floats between
// the blocks of a cluster. gates.h has the host's side.
#pragma once

#include "kernels/common/packet.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/half2.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace mobicuda::kernels::gates {

/// `columns` sums of `terms` packets of 16 bytes each: packet t of a column lies at [t * pitch + column]. 2^lane_bits
/// neighbouring threads share a column, each has every 2^lane_bits-th packet.
struct Columns {
  int terms, columns, pitch, lane_bits;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/// The elements of a packet.
__device__ __forceinline__ void unpack(const uint4& words, float (&values)[4]) {
  values[0] = __uint_as_float(words.x);
  values[1] = __uint_as_float(words.y);
  values[2] = __uint_as_float(words.z);
  values[3] = __uint_as_float(words.w);
}
__device__ __forceinline__ void unpack(const uint4& halves, float (&values)[8]) {
  ptx::to_floats_volatile(halves.x, values[0], values[1]);
  ptx::to_floats_volatile(halves.y, values[2], values[3]);
  ptx::to_floats_volatile(halves.z, values[4], values[5]);
  ptx::to_floats_volatile(halves.w, values[6], values[7]);
}

/// The other way, rounded.
__device__ __forceinline__ void pack(const float (&values)[4], std::uint32_t (&words)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = __float_as_uint(values[i]);
}
__device__ __forceinline__ void pack(const float (&values)[8], std::uint32_t (&halves)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) halves[i] = ptx::to_half2(values[2 * i], values[2 * i + 1]);
}

/// The sum over the lanes that share a column, in all of them.
__device__ __forceinline__ float add_lanes(const Columns& s, float value) {
  for (int distance = 1; distance < 1 << s.lane_bits; distance *= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// Calls body(column, lane) in whole warps, for columns that are not there too.
template <int kThreads, class Body>
__device__ __forceinline__ void for_each_column(const Columns& s, const Body& body) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread & ((1 << s.lane_bits) - 1);
  for (int first = 0; first < s.columns; first += kThreads >> s.lane_bits) body(first + (thread >> s.lane_bits), lane);
}

/// The lanes of four neighbouring columns, from a multiple of four on: all of them in one warp.
struct FourColumns {
  int lane_bits, lanes, lane;

  __device__ __forceinline__ explicit FourColumns(const Columns& s)
      : lane_bits(s.lane_bits), lanes(4 << s.lane_bits), lane(ptx::as_int::lane() & (lanes - 1)) {}

  /// The first of them, in the lanes of `column`.
  __device__ __forceinline__ int first(int column) const { return column - (lane >> lane_bits); }

  /// The values of all four in all lanes, where those of a column have the same.
  __device__ __forceinline__ float4 values(float value) const {
    const auto of = [&](int i) { return __shfl_sync(kAllLanes, value, ptx::as_int::lane() - lane + (i << lane_bits)); };
    return make_float4(of(0), of(1), of(2), of(3));
  }
};

/// A lane's part of a column of packets of four floats.
__device__ __forceinline__ float4 add_rows(const Columns& s, const float4* sums, int column, int lane) {
  float4 total{};
  if (column < s.columns) {
#pragma unroll 4
    for (int term = lane; term < s.terms; term += 1 << s.lane_bits) {
      const float4 value = sums[term * s.pitch + column];
      total = make_float4(total.x + value.x, total.y + value.y, total.z + value.z, total.w + value.w);
    }
  }
  return total;
}

/// add_lanes() of each.
__device__ __forceinline__ float4 add_lanes(const Columns& s, float4 value) {
  return make_float4(add_lanes(s, value.x), add_lanes(s, value.y), add_lanes(s, value.z), add_lanes(s, value.w));
}

/// A lane's part of a column of matrix * vector.
template <class T>
__device__ __forceinline__ float multiply(const Columns& s, const T* matrix, const float* vector, int column,
                                          int lane) {
  constexpr int kN = kWide<T>;
  float sums[4] = {};
  if (column < s.columns) {
#pragma unroll 2
    for (int term = lane; term < s.terms; term += 1 << s.lane_bits) {
      const auto factors = load<kN>(matrix + (term * s.pitch + column) * kN);
      const auto values = load<kN>(vector + term * kN);
#pragma unroll
      for (int i = 0; i < kN; ++i) sums[i % 4] = fmaf(values.item[i], to_float(factors.item[i]), sums[i % 4]);
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// What comes to a rank for an image: `parts` of `floats` floats, of which `bytes` are sent.
struct Parts {
  int floats, parts, bytes;
};

/// Floats from all ranks: buffers of an image each, in turn, and the barriers that count their bytes. No rank sends for
/// an image before it has all of the image before, hence none before all have read the one before that.
class Exchange {
 public:
  /// The barriers lie at `barriers`, the buffers, (2, parts, floats), at `received`. This rank sends part `own`.
  __device__ __forceinline__ Exchange(std::uint32_t barriers, std::uint32_t received, const Parts& comes, int own,
                                      int ranks)
      : barriers_(barriers), received_(received), comes_(comes), own_(own), ranks_(ranks) {}

  /// In one thread.
  __device__ __forceinline__ void begin() const {
    for (int buffer = 0; buffer < 2; ++buffer) {
      ptx::mbarrier_init(barriers_ + static_cast<std::uint32_t>(buffer * 8), 1);
    }
  }

  /// Awaits what comes into an image's buffer. In one thread, before this rank sends for the image before.
  __device__ __forceinline__ void announce(int image) const {
    ptx::mbarrier_arrive_expect(barrier(image), comes_.bytes);
  }

  /// Four floats, from `at` on, to a rank.
  __device__ __forceinline__ void send_to(int rank, int image, int at, float4 value) const {
    ptx::send(place(image, own_) + static_cast<std::uint32_t>(at * 4), value, barrier(image), rank);
  }

  /// To all; one of `lanes` threads sends to every lanes-th rank.
  __device__ __forceinline__ void send(int image, int at, float4 value, int lane, int lanes) const {
    for (int rank = lane; rank < ranks_; rank += lanes) send_to(rank, image, at, value);
  }

  /// The first part. Waits.
  __device__ __forceinline__ const float* wait(int image, const float* received) const {
    ptx::mbarrier_wait(barrier(image), static_cast<std::uint32_t>(image / 2 % 2));
    return received + image % 2 * comes_.parts * comes_.floats;
  }

  /// The sum of the parts' floats at `at`. Waits.
  __device__ __forceinline__ float receive(int image, int at, const float* received) const {
    const float* const from = wait(image, received) + at;
    float sum = 0.0F;
#pragma unroll 8
    for (int part = 0; part < comes_.parts; ++part) sum += from[part * comes_.floats];
    return sum;
  }

 private:
  __device__ __forceinline__ std::uint32_t barrier(int image) const {
    return barriers_ + static_cast<std::uint32_t>(image % 2 * 8);
  }
  __device__ __forceinline__ std::uint32_t place(int image, int part) const {
    return received_ + static_cast<std::uint32_t>((image % 2 * comes_.parts + part) * comes_.floats * 4);
  }

  std::uint32_t barriers_, received_;
  Parts comes_;
  int own_, ranks_;
};

#endif

}  // namespace mobicuda::kernels::gates
