// An inverted residual block of small images, a warpgroup for each tile, which is an image or several, or for a part of
// its hidden channels.
#pragma once

#include "kernels/inverted_residual/image7/stages.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/named_barrier.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace mobicuda::kernels::inverted_image7 {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The stages of a part's weights, one after another.
template <class S>
class Slot {
 public:
  __device__ __forceinline__ Slot(std::uint32_t shared, int part)
      : stage_(shared + static_cast<std::uint32_t>(S::kStagesAt + part * S::kStages * S::kStageBytes)),
        full_(shared + static_cast<std::uint32_t>(part * S::kStages * 16)),
        last_full_(full_ + (S::kStages - 1) * 16) {}

  __device__ __forceinline__ std::uint32_t stage() const { return stage_; }
  __device__ __forceinline__ std::uint32_t full() const { return full_; }
  __device__ __forceinline__ std::uint32_t empty() const { return full_ + 8; }
  __device__ __forceinline__ std::uint32_t parity() const { return parity_; }

  /// Without waiting.
  __device__ __forceinline__ std::uint32_t is_next_full() const {
    Slot<S> next = *this;
    next.advance();
    return ptx::mbarrier_test(next.full_, next.parity_);
  }

  __device__ __forceinline__ void advance() {
    const bool wrap = full_ == last_full_;
    stage_ = wrap ? stage_ - (S::kStages - 1) * S::kStageBytes : stage_ + S::kStageBytes;
    full_ = wrap ? full_ - (S::kStages - 1) * 16 : full_ + 16;
    if (wrap) parity_ ^= 1;
  }

 private:
  std::uint32_t stage_, full_, last_full_;
  std::uint32_t parity_ = 0;
};

/// Fetches a part's weights, chunk after chunk: one thread does.
template <class S>
class Fetch {
 public:
  __device__ __forceinline__ Fetch(const unsigned char* from, int part, int chunks, std::uint32_t shared)
      : slot_(shared, part), from_(from), left_(chunks) {}

  /// The first stages.
  __device__ __forceinline__ void fill() {
    for (int i = 0; i < S::kStages && left_ > 0; ++i) fetch();
  }

  /// Waits until the next stage is free.
  __device__ __forceinline__ void refill() {
    if (left_ == 0) return;
    ptx::mbarrier_wait(slot_.empty(), slot_.parity() ^ 1);
    fetch();
  }

 private:
  __device__ __forceinline__ void fetch() {
    ptx::mbarrier_arrive_expect(slot_.full(), S::kStageBytes);
    if constexpr (S::kCuts == 1) {
      ptx::copy_bulk(slot_.stage(), from_, S::kStageBytes, slot_.full());
    } else {
      constexpr int kCutBytes = S::kStageBytes - S::kSizes.project;
      const int own = S::kSizes.project + static_cast<int>(blockIdx.y) * kCutBytes;
      ptx::copy_bulk(slot_.stage(), from_, S::kSizes.project, slot_.full());
      ptx::copy_bulk(slot_.stage() + S::kSizes.project, from_ + own, kCutBytes, slot_.full());
    }
    from_ += S::kSizes.chunk_bytes;
    --left_;
    slot_.advance();
  }

  Slot<S> slot_;
  const unsigned char* from_;
  int left_;
};

/// The first thread of each part.
template <class S>
__device__ __forceinline__ bool fetches() {
  return threadIdx.x % kWarpgroup == 0 && threadIdx.x < S::kParts * kWarpgroup;
}

/// The number of a thread's team: the warpgroups of a tile and a part, which share patches and a barrier.
template <class S>
__device__ __forceinline__ int team() {
  const int warpgroup = static_cast<int>(threadIdx.x / kWarpgroup);
  if constexpr (S::kSpans == 1) return warpgroup;
  return warpgroup / (S::kParts * S::kSpans) * S::kParts + warpgroup % S::kParts;
}

/// The sums of a tile over a part's chunks. Expand runs a chunk ahead of the other two, in the background of
/// depthwise; project in that of what follows.
template <class S>
__device__ __forceinline__ void run_chunks(const Arguments& a, const Tile<S>& tile, const Pixels<S>& pixels,
                                           Fetch<S>& fetch, int part, int chunks, std::uint32_t shared,
                                           std::uint32_t patch, Sums<S>& sums) {
  const int barrier = 1 + team<S>();
  Expand<S> expand(a, tile, patch);
  const Depthwise<S> depthwise(patch);
  float hidden[kChunk / 2];
  std::uint32_t filtered[kChunk / 16][4];

  Slot<S> next(shared, part);
  std::uint64_t weights = ptx::wgmma_operand(next.stage());
  ptx::mbarrier_wait(next.full(), next.parity());
  Expand<S>::begin(pixels, weights, hidden);
  expand.load_bias(next.stage());
  ptx::wgmma_wait<0>();
  ptx::pin_accumulators(hidden);
  expand.store(0, hidden);
  ptx::sync_threads_of<S::kTeam>(barrier);
  std::uint32_t used = 0;
  std::uint32_t ready = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks - 1; ++chunk) {
    const Slot<S> current = next;
    const std::uint64_t current_weights = weights;
    next.advance();
    weights = ptx::wgmma_operand(next.stage());
    if (ready == 0) ptx::mbarrier_wait(next.full(), next.parity());
    Expand<S>::begin(pixels, weights, hidden);
    ptx::wgmma_wait<1>();                       // for the last chunk's in project
    if (chunk > 0) ptx::mbarrier_arrive(used);  // each lane: it has read its weights of depthwise
    if (chunk >= S::kRefillAfter && fetches<S>()) fetch.refill();
    used = current.empty();
    depthwise.run(a.depthwise_hi, current.stage(), chunk % 2, filtered);
    begin_project<S>(filtered, current_weights, sums);
    expand.load_bias(next.stage());
    ready = next.is_next_full();
    ptx::wgmma_wait<1>();
    ptx::pin_accumulators(hidden);
    expand.store((chunk + 1) % 2, hidden);
    ptx::sync_threads_of<S::kTeam>(barrier);
  }
  ptx::wgmma_wait<0>();
  depthwise.run(a.depthwise_hi, next.stage(), (chunks - 1) % 2, filtered);
  begin_project<S>(filtered, weights, sums);
  ptx::wgmma_wait<0>();
#pragma unroll
  for (int product = 0; product < S::kProducts; ++product) ptx::pin_accumulators(sums[product]);
}

/// Lines of a tile, those that have pixels first.
template <class S>
__device__ __forceinline__ int lines(const Arguments& a) {
  return S::kWarpColumns ? a.h : S::kSizes.lines;
}

/// Tiles of a block that have images.
template <class S>
__device__ __forceinline__ int tiles_of(const Arguments& a, int first) {
  return min(S::kTiles, (a.n - first + S::kImages - 1) / S::kImages);
}

/// Where a thread's sums of a line are put together, from a sending part.
template <class S>
__device__ __forceinline__ std::uint32_t partial_at(std::uint32_t shared, int sender, int tile, int row) {
  return shared + static_cast<std::uint32_t>(
                      S::kPartialAt + ((sender * S::kTiles + tile) * S::kRows + row) * S::kRowBytes + lane() * 16);
}

/// Sends each line's partial sums to the block that finishes it. Of one block they are stored: st.async is an illegal
/// instruction in a launch without clusters.
template <class S>
__device__ __forceinline__ void send_sums(const Arguments& a, int sender, int tile, const Sums<S>& sums,
                                          std::uint32_t shared) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int line = warp<S>() * 2 + half;
    if (line >= lines<S>(a) || lane() >= S::kSizes.line_lanes) break;
    const std::uint32_t to = partial_at<S>(shared, sender, tile, line / S::kBlocks);
    const auto send = [&](int piece, const float* sum) {
      const float4 sums4 = make_float4(sum[0], sum[1], sum[2], sum[3]);
      if constexpr (S::kBlocks == 1) {
        ptx::store_shared(to + piece * S::kPieceBytes, sums4);
      } else {
        ptx::send(to + piece * S::kPieceBytes, sums4, shared + S::kArrivedAt, line % S::kBlocks);
      }
    };
#pragma unroll
    for (int block = 0; block < S::kOut.blocks; ++block) {
      float sum[8];
      gather<S>(sums, block, half, sum);
      send(block * 2, sum);
      send(block * 2 + 1, sum + 4);
    }
    if constexpr (S::kOut.rests > 0) {
      float sum[4];
      gather<S>(sums, S::kOut.blocks, half, sum);
      send(S::kOut.blocks * 2, sum);
    }
  }
}

/// The first of a cut's output channels.
template <class S>
__device__ __forceinline__ int cut_channel() {
  return S::kCuts == 1 ? 0 : static_cast<int>(blockIdx.y) * S::kSizes.cut_out;
}

/// Adds up the parts' sums of a thread's kCount neighbouring channels, from `channel` of the cut on, of a pixel at
/// `from` in the partial sums.
template <class S, int kCount>
__device__ __forceinline__ void finish_pixel(const Arguments& a, bool present, std::size_t pixel, int channel,
                                             std::uint32_t from, const unsigned char* x, unsigned char* y,
                                             std::uint32_t shared, bool& arrived) {
  std::uint32_t residual[kCount / 2] = {};
  const std::size_t at = pixel + static_cast<std::size_t>(channel * 2);
  if constexpr (S::kMayAdd) ptx::load_global_words_if<kCount / 2>(a.residual && present, x + at, residual);
  if (!arrived) ptx::mbarrier_wait(shared + S::kArrivedAt, 0);
  arrived = true;
  if (!present) return;
  float sum[kCount] = {};
#pragma unroll
  for (int sender = 0; sender < S::kSenders; ++sender) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float4 v =
          ptx::load_shared<float4>(from + sender * (S::kTiles * S::kRows * S::kRowBytes) + i * S::kPieceBytes);
      sum[i * 4] += v.x;
      sum[i * 4 + 1] += v.y;
      sum[i * 4 + 2] += v.z;
      sum[i * 4 + 3] += v.w;
    }
  }
  finish(a, sum, shared + static_cast<std::uint32_t>(S::kBiasAt + channel * 4), residual, y + at);
}

/// Adds up the parts' sums of every kBlocks-th line.
template <class S>
__device__ __forceinline__ void finish_lines(const Arguments& a, int rank, int first, int rows, const unsigned char* x,
                                             unsigned char* y, std::uint32_t shared) {
  constexpr int kPieces = S::kOut.blocks + S::kOut.rests;
  constexpr int kChannels = S::kSizes.cut_out;
  const int pieces = tiles_of<S>(a, first) * rows * kPieces;
  bool arrived = false;
  for (int piece = ptx::as_int::warp(); piece < pieces; piece += S::kThreads / 32) {
    const int block = piece % kPieces;
    const int tile = piece / kPieces / rows;
    const int row = piece / kPieces % rows;
    const int line = row * S::kBlocks + rank;
    const Tile<S> images{first + tile * S::kImages};
    const Unit unit = unit_of<S>(line / 2, lane() / 4);
    const bool inside = images.has(a, unit, line % 2);
    const std::size_t pixel =
        offset_of<S::kConfig.c_out>(a, images.first + unit.image, unit.row + line % 2, unit.column, cut_channel<S>());
    const std::uint32_t from = partial_at<S>(shared, 0, tile, row) + block * 2 * S::kPieceBytes;
    if (S::kOut.rests == 0 || block < S::kOut.blocks) {
      const int channel = block * 32 + lane() % 4 * 8;
      finish_pixel<S, 8>(a, inside && has_channels<kChannels, 8>(block * 32), pixel, channel, from, x, y, shared,
                         arrived);
    } else {
      const int channel = block * 32 + lane() % 4 * 4;
      finish_pixel<S, 4>(a, inside && has_channels<kChannels, 4>(block * 32), pixel, channel, from, x, y, shared,
                         arrived);
    }
  }
}

/// Finishes neighbouring channels of a thread's pixel that no other part has sums of.
template <class S, int kCount>
__device__ __forceinline__ void finish_own(const Arguments& a, const Tile<S>& tile, const Pixels<S>& pixels,
                                           const Sums<S>& sums, int block, int half, unsigned char* y,
                                           std::uint32_t shared) {
  const int channel = block * 32 + lane() % 4 * kCount;
  const Unit unit = own_unit<S>();
  if (!tile.has(a, unit, half) || !has_channels<S::kSizes.cut_out, kCount>(block * 32)) return;
  std::uint32_t residual[kCount / 2] = {};
  if constexpr (S::kMayAdd) {
    for (int i = 0; i < kCount / 2; ++i) residual[i] = a.residual ? pixels.pair(block, half, i) : 0U;
  }
  float sum[kCount];
  gather<S>(sums, block, half, sum);
  finish(a, sum, shared + static_cast<std::uint32_t>(S::kBiasAt + channel * 4), residual,
         y + offset_of<S::kConfig.c_out>(a, tile.first + unit.image, unit.row + half, unit.column,
                                         cut_channel<S>() + channel));
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads)
    image7_kernel(const Arguments a, const unsigned char* x, const unsigned char* packed, unsigned char* y) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, dynamic_shared);
  const std::uint32_t shared = ptx::shared_address(dynamic_shared);
  const int rank = static_cast<int>(blockIdx.x % S::kBlocks);
  const int cluster = static_cast<int>(blockIdx.x / S::kBlocks);
  const int first = cluster * (S::kTiles * S::kImages);                 // image
  const int rows = (lines<S>(a) - rank + S::kBlocks - 1) / S::kBlocks;  // of each tile, which this block finishes
  const int warpgroup = static_cast<int>(threadIdx.x / kWarpgroup);
  const int part = warpgroup % S::kParts;
  const int sender = rank * S::kParts + part;
  const int first_chunk = sender * S::kChunks / S::kSenders;
  const int chunks = (sender + 1) * S::kChunks / S::kSenders - first_chunk;

  Fetch<S> fetch(packed + S::kCuts * S::kBiasBytes + static_cast<std::size_t>(first_chunk) * S::kSizes.chunk_bytes,
                 part, chunks, shared);
  if (fetches<S>()) {
    for (int stage = part * S::kStages; stage < (part + 1) * S::kStages; ++stage) {
      ptx::mbarrier_init(shared + static_cast<std::uint32_t>(stage * 16), 1);
      ptx::mbarrier_init(shared + static_cast<std::uint32_t>(stage * 16 + 8), S::kTiles * S::kTeam);
    }
    if (part == 0) ptx::mbarrier_init(shared + S::kArrivedAt, 1);
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
    if (part == 0 && rows > 0) {  // else nobody would wait for the bias
      const int sums = S::kBlocks == 1 ? 0 : S::kSenders * tiles_of<S>(a, first) * rows * S::kRowBytes;
      const unsigned char* const bias = packed + (S::kCuts == 1 ? 0 : blockIdx.y * S::kBiasBytes);
      ptx::mbarrier_arrive_expect(shared + S::kArrivedAt, S::kBiasBytes + sums);
      ptx::copy_bulk(shared + S::kBiasAt, bias, S::kBiasBytes, shared + S::kArrivedAt);
    }
    fetch.fill();
  }
  if constexpr (S::kBlocks > 1) arrive_at_cluster_begin();
  for (int at = S::kPatchesAt + static_cast<int>(threadIdx.x) * 16; at < S::kBiasAt; at += S::kThreads * 16) {
    ptx::clear_shared(shared + static_cast<std::uint32_t>(at));
  }
  __syncthreads();
  if constexpr (S::kBlocks > 1) wait_for_cluster_begin();

  const int tile = warpgroup / (S::kParts * S::kSpans);
  const Tile<S> images{S::kWarpColumns ? min(first + tile, a.n - 1) : first + tile * S::kImages};
  Pixels<S> pixels(shared + static_cast<std::uint32_t>(S::kPixelsAt + warpgroup * S::kPixelBytes));
  wait_for_predecessor();
  pixels.load(a, x, images);
  if constexpr (S::kSharedPixels) ptx::sync_threads_of<S::kTeam>(1 + team<S>());
  Sums<S> sums = {};
  run_chunks<S>(a, images, pixels, fetch, part, chunks, shared,
                shared + static_cast<std::uint32_t>(S::kPatchesAt + team<S>() * 2 * S::kPatchBytes), sums);

  if constexpr (S::kSenders > 1) {
    if (first + tile * S::kImages < a.n) send_sums<S>(a, sender, tile, sums, shared);
    if constexpr (S::kBlocks == 1) __syncthreads();
    finish_lines<S>(a, rank, first, rows, x, y, shared);
  } else {
    if (first + tile * S::kImages >= a.n) return;
    const Tile<S> own{first + tile * S::kImages};
    ptx::mbarrier_wait(shared + S::kArrivedAt, 0);
#pragma unroll
    for (int block = 0; block < S::kOut.blocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) finish_own<S, 8>(a, own, pixels, sums, block, half, y, shared);
    }
    if constexpr (S::kOut.rests > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) finish_own<S, 4>(a, own, pixels, sums, S::kOut.blocks, half, y, shared);
    }
  }
#endif
}

}  // namespace mobicuda::kernels::inverted_image7
