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

/// Of a block by itself.
template <class S>
class Exchange<S, false> {
 public:
  __device__ __forceinline__ Exchange(const unsigned char* /*shared*/, int /*rank*/) {}
  __device__ __forceinline__ void meet() const {}
  __device__ __forceinline__ void finish(const Project<S>& project, const Store<S>& store) const {
    project.for_each_piece(
        [&](const Piece& piece, const std::int32_t(&sums)[8]) { store.store(store.aim(piece), sums); });
  }
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
    auto target = store.aim(piece_of(mine));
    ptx::mbarrier_wait(barrier_, 0);
#pragma unroll 1
    while (mine < owned()) {
      std::int32_t sums[8];
      receive(mine, sums);
      store.store(target, sums);
      mine += S::kWarps;
      if (mine < owned()) target = store.aim(piece_of(mine));
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
