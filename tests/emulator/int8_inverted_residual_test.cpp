// The kernel of int8 blocks for configurations that no variant has. Compiled as device code.
#include <string>
#include <vector>

#include "kernels/int8_inverted_residual/kernel.cuh"
#include "kernels/int8_inverted_residual_case.h"

namespace mobicuda::test {
namespace {

using namespace int8_inverted_residual_case;
using kernels::int8_block::Config;

/// A specialised variant, whose code is the function.
template <Config kConfig>
Int8InvertedResidualVariant variant_of() {
  const auto& kernel = kernels::kernel_of(Int8InvertedResidualParams{});
  std::string name = "int8_block";
  for (const int value : {kConfig.stride, kConfig.c_in, kConfig.c_hidden, kConfig.c_out, kConfig.tile_h, kConfig.tile_w,
                          kConfig.warps, kConfig.parts, kConfig.min_blocks, kConfig.cluster}) {
    name += "_" + std::to_string(value);
  }
  const auto variant = kernel.specialised_by_name(name);
  INFO(name);
  REQUIRE(variant);
  const auto function = kernels::int8_block::block_kernel<kernels::int8_block::Shape<kConfig>>;
  kernel.provide(*variant, gpu_traits().capability, reinterpret_cast<const void*>(function));
  return *variant;
}

template <Config kConfig>
void check_config(Choice& choose) {
  const Int8InvertedResidualVariant variant = variant_of<kConfig>();
  Int8InvertedResidualParams p = block(1 + choose.upto(2), 1 + choose.upto(16), 1 + choose.upto(16), kConfig.c_in,
                                       kConfig.c_hidden, kConfig.c_out, kConfig.stride);
  p.pad_top = choose.upto(2);
  p.pad_left = choose.upto(2);
  p.residual = p.residual && choose.flip();
  const Data data = make_data(p, ByteData::Random, static_cast<std::uint32_t>(choose.upto(1000)));
  CAPTURE(p, name(variant));
  REQUIRE(kernels::supports(variant, p, gpu_traits()));
  REQUIRE(run(p, data, variant) == oracle(p, data));
}

template <Config... kConfigs>
void check_configs() {
  Choice choose(1);
  for (int i = 0; i < 3; ++i) (check_config<kConfigs>(choose), ...);
}

}  // namespace

TEST_CASE("emulator: int8_inverted_residual equals the integer oracle for clusters of every size") {
  check_configs<Config{1, 16, 64, 16, 4, 4, 2, 2, 1, 1}, Config{1, 16, 64, 16, 4, 4, 2, 2, 1, 2},
                Config{1, 16, 64, 16, 4, 4, 2, 1, 1, 3}, Config{1, 16, 64, 16, 4, 4, 3, 3, 1, 4},
                Config{1, 16, 64, 16, 4, 4, 1, 1, 1, 5}, Config{2, 16, 64, 16, 4, 4, 2, 2, 1, 7},
                Config{1, 16, 64, 16, 4, 4, 4, 2, 1, 8}, Config{1, 16, 64, 16, 4, 4, 2, 2, 1, 16}>();
}

TEST_CASE("emulator: int8_inverted_residual equals the integer oracle where blocks of a cluster own no sums") {
  check_configs<Config{1, 8, 96, 8, 2, 4, 1, 1, 1, 3}, Config{2, 8, 96, 40, 1, 3, 3, 3, 1, 4}>();
}

TEST_CASE("emulator: int8_inverted_residual equals the integer oracle for several chunks of a block") {
  // One buffer and two of hidden pixels, fewer stages than chunks and as many.
  check_configs<Config{1, 24, 144, 24, 4, 4, 1, 1, 1, 1}, Config{1, 24, 144, 24, 4, 4, 2, 2, 1, 1},
                Config{2, 24, 144, 32, 4, 4, 1, 1, 1, 2}, Config{2, 40, 320, 48, 4, 6, 4, 2, 1, 2},
                Config{1, 40, 320, 40, 3, 5, 2, 2, 1, 1}, Config{1, 40, 320, 40, 3, 5, 1, 1, 1, 3}>();
}

TEST_CASE("emulator: int8_inverted_residual equals the integer oracle where warps have no pixels or no sums") {
  check_configs<Config{1, 32, 64, 32, 4, 4, 4, 1, 1, 1}, Config{1, 32, 64, 32, 4, 4, 8, 2, 1, 1},
                Config{2, 32, 64, 32, 4, 4, 8, 2, 1, 2}, Config{1, 32, 96, 96, 7, 7, 6, 3, 1, 1},
                Config{2, 64, 96, 200, 7, 7, 2, 2, 1, 1}>();
}

TEST_CASE("emulator: int8_inverted_residual equals the integer oracle where sums pass through shared memory") {
  // In one round and several, of as many groups of channels and fewer in the last; rows of 4, 8 and 16 outputs; more
  // bytes of sums than the chunks had.
  check_configs<Config{1, 16, 64, 160, 7, 7, 1, 1, 1, 1}, Config{2, 16, 96, 72, 9, 5, 3, 1, 1, 1},
                Config{1, 64, 64, 104, 12, 4, 1, 1, 1, 1}, Config{1, 32, 64, 64, 14, 14, 2, 2, 1, 1},
                Config{1, 16, 32, 16, 16, 16, 4, 1, 1, 1}, Config{1, 24, 64, 24, 14, 14, 2, 1, 1, 1},
                Config{1, 80, 64, 80, 6, 7, 2, 1, 1, 1}>();
}

}  // namespace mobicuda::test
