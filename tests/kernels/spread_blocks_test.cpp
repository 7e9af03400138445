// Shared memory with which a multiprocessor holds one block: kernels/common/spread_blocks.h.
#include "kernels/common/spread_blocks.h"

#include "support/catch.h"
#include "support/run_kernel.h"

namespace mobicuda::test {
namespace {

using kernels::lone_block_bytes;

TEST_CASE("spread_blocks: two lone blocks are more than a multiprocessor has, by as little as can be") {
  constexpr std::size_t kReserved = 1024;
  for (const std::size_t kilobytes : {100, 164, 228}) {
    const std::size_t multiprocessor = kilobytes * 1024;
    const std::size_t bytes = lone_block_bytes(multiprocessor, kReserved);
    CAPTURE(kilobytes, bytes);
    CHECK(bytes % 128 == 0);
    CHECK(2 * (bytes + kReserved) > multiprocessor);
    CHECK(2 * (bytes - 128 + kReserved) <= multiprocessor);
  }
}

TEST_CASE("spread_blocks: a block may have what a lone block of this GPU takes") {
  std::size_t bytes = 0;
  REQUIRE(lone_block_bytes(bytes) == cudaSuccess);
  int most = 0;
  REQUIRE(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess);
  CHECK(bytes > 0);
  CHECK(bytes <= static_cast<std::size_t>(most));
}

}  // namespace
}  // namespace mobicuda::test
