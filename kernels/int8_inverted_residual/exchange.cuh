// From sums of project to outputs. Blocks of a cluster add theirs up: each piece of sums has an owner, to which all
// blocks send theirs. They are integers, so that the order changes no bit.
#pragma once

#include "kernels/int8_inverted_residual/stages.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace mobicuda::kernels::int8_block {

template <class S, bool kInCluster = (S::kCluster > 1)>
class Exchange;

/// Of a block by itself. Registers cannot be counted through, so that code which stores sums from them is repeated for
/// each unit, and fetching code that runs once takes longer than running it. Many sums pass through shared memory,
/// where threads share them evenly, in rounds of some output channels.
template <class S>
class Exchange<S, false> {
 public:
  __device__ __forceinline__ Exchange(unsigned char* shared, int /*rank*/) : shared_(shared) {}
  __device__ __forceinline__ void meet() const {}

  __device__ __forceinline__ void finish(const Project<S>& project, const Store<S>& store) const {
    if constexpr (!S::kInRounds) {
      project.for_each_piece([&](const Piece& piece, const std::int32_t(&sums)[kRun]) {
        const Aimed<S> aimed(store, piece);
        store.store(aimed.output, aimed.scales, aimed.residual, sums);
      });
    } else {
#pragma unroll 1
      for (int round = 0; round < S::kRounds; ++round) {
        __syncthreads();  // what was there has been read
        project.leave(round, shared_);
        __syncthreads();
        store_round(round, store);
      }
    }
  }

 private:
  /// A thread has the same 8 channels of two pixels, r and r + 8 of every kTiles-th 16.
  __device__ __forceinline__ void store_round(int round, const Store<S>& store) const {
    constexpr int kTiles = S::kTilesAtOnce;
    const int run = thread() % S::kRoundRuns;
    const int octet_pixel = thread() / S::kRoundRuns % kOctet;
    int tile = thread() / (S::kRoundRuns * kOctet);
    const int channel = (round * S::kRoundGroups * 4 + run) * kRun;
    if (tile >= kTiles || channel >= S::kOutPitch) return;
    const auto scales = store.scales(channel);
    typename Store<S>::Output outputs[2] = {output_at(store, tile, octet_pixel, channel),
                                            output_at(store, tile, octet_pixel + kOctet, channel)};
    const auto* from = reinterpret_cast<const int4*>(shared_ + S::kSumsAt) +
                       (tile * S::kRoundGroups + run / 4) * (4 * 32) + octet_pixel * 4 + run % 4;
#pragma unroll 1
    for (; tile < S::kOutTiles; tile += kTiles, from += kTiles * S::kRoundGroups * (4 * 32)) {
      std::int32_t sums[2][kRun];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int4 four = from[k * 32];
        sums[0][k * 2] = four.x;
        sums[0][k * 2 + 1] = four.y;
        sums[1][k * 2] = four.z;
        sums[1][k * 2 + 1] = four.w;
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        store.store(outputs[half], scales, store.residual(outputs[half]), sums[half]);
        store.move_down(outputs[half], kTiles * S::kRows);
      }
    }
  }

  /// A pixel of 16.
  __device__ __forceinline__ static auto output_at(const Store<S>& store, int tile, int pixel, int channel) {
    return store.at(tile * S::kRows + pixel / S::kColumns, pixel % S::kColumns, channel);
  }

  unsigned char* shared_;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Of a block of a cluster. The block may end when finish() has: all bytes that others send it have arrived.
template <class S>
class Exchange<S, true> {
 public:
  /// Begins the cluster.
  __device__ __forceinline__ Exchange(unsigned char* shared, int rank)
      : received_(ptx::shared_address(shared + S::kReceivedAt) + static_cast<std::uint32_t>(lane()) * 16),
        barrier_(ptx::shared_address(shared + S::kBarrierAt)),
        rank_(rank) {
    if (thread() == 0) {
      ptx::mbarrier_init(barrier_, 1);
      ptx::fence_mbarrier_init();
    }
    arrive_at_cluster_begin();
  }

  /// Until all blocks run; before finish(). The barrier's one arrival keeps its phase open, whenever sums come.
  __device__ __forceinline__ void meet() const {
    wait_for_cluster_begin();
    if (thread() == 0) ptx::mbarrier_arrive_expect(barrier_, owned() * S::kCluster * kPieceBytes);
  }

  /// Sends the sums of this block, waits for those of all, and stores the block's own pieces, which its warps share.
  __device__ __forceinline__ void finish(const Project<S>& project, const Store<S>& store) const {
    project.for_each_piece([&](const Piece& piece, const std::int32_t(&sums)[8]) { send(piece, sums); });
    int mine = warp();
    Aimed<S> aimed(store, piece_of(mine));
    ptx::mbarrier_wait(barrier_, 0);
#pragma unroll 1
    while (mine < owned()) {
      std::int32_t sums[kRun];
      receive(mine, sums);
      store.store(aimed.output, aimed.scales, aimed.residual, sums);
      mine += S::kWarps;
      if (mine < owned()) aimed = Aimed<S>(store, piece_of(mine));
    }
  }

 private:
  /// Pieces: every kCluster-th from the rank's on.
  __device__ __forceinline__ int owned() const { return (S::kPieces - rank_ + S::kCluster - 1) / S::kCluster; }

  __device__ __forceinline__ Piece piece_of(int mine) const {
    const int number = mine * S::kCluster + rank_;
    return {number / S::kGroups, number % S::kGroups};
  }

  /// Where a block has its `mine`-th piece as block `from` sends it: the lane's first four sums.
  __device__ __forceinline__ std::uint32_t place(int mine, int from) const {
    return received_ + static_cast<std::uint32_t>((mine * S::kCluster + from) * kPieceBytes);
  }

  /// To the owner, which may be this block.
  __device__ __forceinline__ void send(const Piece& piece, const std::int32_t (&sums)[8]) const {
    const int number = piece.octet * S::kGroups + piece.group;
    const std::uint32_t to = place(number / S::kCluster, rank_);
    const int owner = number % S::kCluster;
    ptx::send_integers(to, int4{sums[0], sums[1], sums[2], sums[3]}, barrier_, owner);
    ptx::send_integers(to + kPieceBytes / 2, int4{sums[4], sums[5], sums[6], sums[7]}, barrier_, owner);
  }

  /// Adds up what the blocks sent.
  __device__ __forceinline__ void receive(int mine, std::int32_t (&sums)[8]) const {
#pragma unroll
    for (std::int32_t& sum : sums) sum = 0;
#pragma unroll
    for (int from = 0; from < S::kCluster; ++from) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto words = ptx::load_shared<uint4>(place(mine, from) + half * (kPieceBytes / 2));
        sums[half * 4] = add_wrapping(sums[half * 4], static_cast<std::int32_t>(words.x));
        sums[half * 4 + 1] = add_wrapping(sums[half * 4 + 1], static_cast<std::int32_t>(words.y));
        sums[half * 4 + 2] = add_wrapping(sums[half * 4 + 2], static_cast<std::int32_t>(words.z));
        sums[half * 4 + 3] = add_wrapping(sums[half * 4 + 3], static_cast<std::int32_t>(words.w));
      }
    }
  }

  std::uint32_t received_, barrier_;
  int rank_;
};

#endif

}  // namespace mobicuda::kernels::int8_block
