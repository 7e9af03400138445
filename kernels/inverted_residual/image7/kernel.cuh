// An inverted residual block of images of up to 7x7 pixels, a warpgroup for each or for a part of its hidden
// channels.
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
    ptx::copy_bulk(slot_.stage(), from_, S::kStageBytes, slot_.full());
    from_ += S::kLayout.bytes;
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

/// The sums of an image over a part's chunks. Expand runs a chunk ahead of the other two, in the background of
/// depthwise; project in that of what follows.
template <class S>
__device__ __forceinline__ void run_chunks(const Arguments& a, const Pixels<S>& pixels, Fetch<S>& fetch, int part,
                                           int chunks, std::uint32_t shared, std::uint32_t patch, Sums<S>& sums) {
  const int warpgroup = static_cast<int>(threadIdx.x / kWarpgroup);
  Expand<S> expand(a, patch);
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
  ptx::sync_threads_of<kWarpgroup>(1 + warpgroup);
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
    ptx::sync_threads_of<kWarpgroup>(1 + warpgroup);
  }
  ptx::wgmma_wait<0>();
  depthwise.run(a.depthwise_hi, next.stage(), (chunks - 1) % 2, filtered);
  begin_project<S>(filtered, weights, sums);
  ptx::wgmma_wait<0>();
#pragma unroll
  for (int product = 0; product < S::kProducts; ++product) ptx::pin_accumulators(sums[product]);
}

/// Sends each row's partial sums to the block that finishes it.
template <class S>
__device__ __forceinline__ void send_sums(const Arguments& a, int sender, int picture, const Sums<S>& sums,
                                          std::uint32_t shared) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row_of(half);
    if (row >= a.h || column() >= kSide) break;
    const std::uint32_t to =
        shared + static_cast<std::uint32_t>(
                     S::kPartialAt + ((sender * S::kPictures + picture) * S::kRows + row / S::kBlocks) * S::kRowBytes +
                     lane() * 16);
#pragma unroll
    for (int block = 0; block < S::kConfig.c_out / 32; ++block) {
      float sum[8];
      gather<S>(sums, block, half, sum);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        ptx::send(to + (block * 2 + i) * S::kPieceBytes,
                  make_float4(sum[i * 4], sum[i * 4 + 1], sum[i * 4 + 2], sum[i * 4 + 3]), shared + S::kArrivedAt,
                  row % S::kBlocks);
      }
    }
  }
}

/// Adds up the parts' sums of every kBlocks-th row.
template <class S>
__device__ __forceinline__ void finish_rows(const Arguments& a, int rank, int first_picture, int rows,
                                            const unsigned char* x, unsigned char* y, std::uint32_t shared) {
  constexpr int kPieces = S::kConfig.c_out / 32;
  const int pieces = min(S::kPictures, a.n - first_picture) * rows * kPieces;
  bool arrived = false;
  for (int piece = ptx::as_int::warp(); piece < pieces; piece += S::kThreads / 32) {
    const int block = piece % kPieces;
    const int picture = piece / kPieces / rows;
    const int row = piece / kPieces % rows;
    const int channel = block * 32 + lane() % 4 * 8;
    const bool present = column() < a.w;
    std::uint32_t residual[4] = {};
    const std::size_t at =
        offset_of<S::kConfig.c_out>(a, first_picture + picture, row * S::kBlocks + rank, column(), channel);
    if constexpr (S::kMayAdd) ptx::load_global_words_if<4>(a.residual && present, x + at, residual);
    if (!arrived) ptx::mbarrier_wait(shared + S::kArrivedAt, 0);
    arrived = true;
    if (!present) continue;
    const std::uint32_t from =
        shared + static_cast<std::uint32_t>(S::kPartialAt + (picture * S::kRows + row) * S::kRowBytes +
                                            block * 2 * S::kPieceBytes + lane() * 16);
    float sum[8] = {};
#pragma unroll
    for (int sender = 0; sender < S::kSenders; ++sender) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 v =
            ptx::load_shared<float4>(from + sender * (S::kPictures * S::kRows * S::kRowBytes) + i * S::kPieceBytes);
        sum[i * 4] += v.x;
        sum[i * 4 + 1] += v.y;
        sum[i * 4 + 2] += v.z;
        sum[i * 4 + 3] += v.w;
      }
    }
    finish(a, sum, shared + static_cast<std::uint32_t>(S::kBiasAt + channel * 4), residual, y + at);
  }
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
  const int first_picture = cluster * S::kPictures;
  const int rows = (a.h - rank + S::kBlocks - 1) / S::kBlocks;  // of each image, which this block finishes
  const int warpgroup = static_cast<int>(threadIdx.x / kWarpgroup);
  const int part = warpgroup % S::kParts;
  const int sender = rank * S::kParts + part;
  const int first_chunk = sender * S::kChunks / S::kSenders;
  const int chunks = (sender + 1) * S::kChunks / S::kSenders - first_chunk;

  Fetch<S> fetch(packed + S::kBiasBytes + static_cast<std::size_t>(first_chunk) * S::kLayout.bytes, part, chunks,
                 shared);
  if (fetches<S>()) {
    for (int stage = part * S::kStages; stage < (part + 1) * S::kStages; ++stage) {
      ptx::mbarrier_init(shared + static_cast<std::uint32_t>(stage * 16), 1);
      ptx::mbarrier_init(shared + static_cast<std::uint32_t>(stage * 16 + 8), S::kPictures * kWarpgroup);
    }
    if (part == 0) ptx::mbarrier_init(shared + S::kArrivedAt, 1);
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
    if (part == 0 && rows > 0) {  // else nobody would wait for the bias
      const int sums =
          S::kSenders == 1 ? 0 : S::kSenders * min(S::kPictures, a.n - first_picture) * rows * S::kRowBytes;
      ptx::mbarrier_arrive_expect(shared + S::kArrivedAt, S::kBiasBytes + sums);
      ptx::copy_bulk(shared + S::kBiasAt, packed, S::kBiasBytes, shared + S::kArrivedAt);
    }
    fetch.fill();
  }
  if constexpr (S::kBlocks > 1) arrive_at_cluster_begin();
  for (int at = S::kPatchesAt + static_cast<int>(threadIdx.x) * 16; at < S::kBiasAt; at += S::kThreads * 16) {
    ptx::clear_shared(shared + static_cast<std::uint32_t>(at));
  }
  __syncthreads();
  if constexpr (S::kBlocks > 1) wait_for_cluster_begin();

  const int picture = warpgroup / S::kParts;  // of the block's
  Pixels<S> pixels(shared + static_cast<std::uint32_t>(S::kPixelsAt + warpgroup * S::kPixelBytes));
  wait_for_predecessor();
  pixels.load(a, x, min(first_picture + picture, a.n - 1));
  if constexpr (S::kSharedPixels) ptx::sync_threads_of<kWarpgroup>(1 + warpgroup);
  Sums<S> sums = {};
  run_chunks<S>(a, pixels, fetch, part, chunks, shared,
                shared + static_cast<std::uint32_t>(S::kPatchesAt + warpgroup * 2 * S::kPatchBytes), sums);

  if constexpr (S::kSenders > 1) {
    if (first_picture + picture < a.n) send_sums<S>(a, sender, picture, sums, shared);
    finish_rows<S>(a, rank, first_picture, rows, x, y, shared);
  } else {
    if (first_picture + picture >= a.n) return;
    ptx::mbarrier_wait(shared + S::kArrivedAt, 0);
#pragma unroll
    for (int block = 0; block < S::kConfig.c_out / 32; ++block) {
      const int channel = block * 32 + lane() % 4 * 8;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!inside(a, half)) continue;
        std::uint32_t residual[4] = {};
        if constexpr (S::kMayAdd) {
          for (int i = 0; i < 4; ++i) residual[i] = a.residual ? pixels.pair(block, half, i) : 0U;
        }
        float sum[8];
        gather<S>(sums, block, half, sum);
        finish(a, sum, shared + static_cast<std::uint32_t>(S::kBiasAt + channel * 4), residual,
               y + offset_of<S::kConfig.c_out>(a, first_picture + picture, row_of(half), column(), channel));
      }
    }
  }
#endif
}

}  // namespace mobicuda::kernels::inverted_image7
