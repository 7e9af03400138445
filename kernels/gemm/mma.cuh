// The fp16 tile on tensor cores: mma.sync m16n8k16, half inputs, float sums. sm_80 and newer.
#pragma once

#include "kernels/common/block_mma.cuh"
#include "kernels/common/product_pipeline.cuh"

namespace mobicuda::kernels::products {

template <MmaConfig kConfig>
struct MmaTile : BlockMma<kConfig> {
  using Tile = BlockMma<kConfig>;
  static constexpr int kStages = kConfig.stages;
  static constexpr bool kResident = kConfig.resident;
  static constexpr int kMinBlocks = kConfig.min_blocks;
  static constexpr bool kAnyShape = false;
  static constexpr bool kPlainApart = false;
  static_assert(kStages >= 2);

  class Sums : public Tile::Accumulators {
    using Base = typename Tile::Accumulators;

   public:
    __device__ __forceinline__ void finish(const ProductArgs& args, int m0, int n0, const float* bias) const {
      constexpr int kBatch = Base::kRuns % 4 == 0 ? 4 : 2;  // residuals under way at once
#pragma unroll
      for (int first = 0; first < Base::kRuns; first += kBatch) {
        Packet<__half, Tile::kRun> residual[kBatch] = {};
        if (args.residual != nullptr) {
#pragma unroll
          for (int i = 0; i < kBatch; ++i) {
            residual[i] =
                load_residual<__half, Tile::kRun>(args, m0 + Base::row(first + i), n0 + Base::column(first + i));
          }
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int run = first + i;
          Packet<float, Tile::kRun> sums = this->gather(run);
          finish_run<__half, Tile::kRun>(args, m0 + Base::row(run), n0 + Base::column(run), sums.item,
                                         bias + Base::column(run), residual[i]);
        }
      }
    }
  };
};

}  // namespace mobicuda::kernels::products
