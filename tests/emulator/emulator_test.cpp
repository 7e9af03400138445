// The emulator finds what is wrong in device code, and lets pass what is right. Compiled as device code.
#include <vector>

#include "kernels/common/launch_cluster.h"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/named_barrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "support/catch.h"
#include "support/contains.h"

namespace mobicuda::test {
namespace {

using kernels::Launch;
namespace ptx = kernels::ptx;

constexpr int kThreads = 64;

/// What a kernel leaves in its output of floats; requires that it ends as told.
std::vector<float> run(void (*kernel)(const float*, float*), std::size_t shared_bytes, cudaError_t expected,
                       unsigned cluster_blocks = 1) {
  std::vector<float> x(kThreads);
  for (int i = 0; i < kThreads; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i);
  std::vector<float> y(x.size() * cluster_blocks, -1.0F);
  const cudaError_t status = kernels::launch_clusters(kernel, dim3(cluster_blocks), dim3(kThreads), shared_bytes,
                                                      cluster_blocks, Launch{}, x.data(), y.data());
  INFO(emulator::last_fault());
  REQUIRE(status == expected);
  return y;
}

bool is_reversed(const std::vector<float>& y) {
  for (int i = 0; i < kThreads; ++i) {
    if (y[static_cast<std::size_t>(i)] != static_cast<float>(kThreads - 1 - i)) return false;
  }
  return true;
}

template <bool kSynchronised>
void reverse(const float* x, float* y) {
  MOBICUDA_DYNAMIC_SHARED(float, 16, shared);
  shared[threadIdx.x] = x[threadIdx.x];
  if (kSynchronised) __syncthreads();
  y[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

template <bool kWaits>
void reverse_by_copies(const float* x, float* y) {
  MOBICUDA_DYNAMIC_SHARED(float, 16, shared);
  ptx::copy_async_ca_or_zero<4>(ptx::shared_address(shared + threadIdx.x), x + threadIdx.x, true);
  ptx::copy_async_commit();
  if (kWaits) ptx::copy_async_wait<0>();
  __syncthreads();
  y[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

void read_outside(const float* /*x*/, float* y) {
  MOBICUDA_DYNAMIC_SHARED(float, 16, shared);
  y[threadIdx.x] = ptx::load_shared<float2>(ptx::shared_address(shared) + threadIdx.x * 8).x;
}

void read_unaligned(const float* x, float* y) { y[threadIdx.x] = ptx::load_global<uint2>(x + threadIdx.x).x; }

void wait_for_nobody(const float* /*x*/, float* /*y*/) {
  if (threadIdx.x < 32) ptx::sync_threads_of(1, kThreads);
}

void part_ways(const float* /*x*/, float* y) {
  if (threadIdx.x % 2 == 0) {
    y[threadIdx.x] = __shfl_xor_sync(~0U, y[threadIdx.x], 1);
  } else {
    __syncwarp();
  }
}

/// Each block sends its x to the other one, which waits for kAnnounced bytes.
template <int kAnnounced>
void exchange(const float* x, float* y) {
  MOBICUDA_DYNAMIC_SHARED(float, 16, shared);
  const std::uint32_t barrier = ptx::shared_address(shared + kThreads);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::mbarrier_arrive_expect(barrier, kAnnounced);
  }
  kernels::sync_cluster();
  const int other = 1 - ptx::rank_in_cluster();
  ptx::send(ptx::map_to_rank(ptx::shared_address(shared + threadIdx.x), other),
            x[threadIdx.x] + static_cast<float>(other), ptx::map_to_rank(barrier, other));
  ptx::mbarrier_wait(barrier, 0);
  y[blockIdx.x * kThreads + threadIdx.x] = shared[threadIdx.x];
}

/// Rows 0 to 15 and 8 columns of 1 at (row, row % 8), times a matrix whose element is its number, k first.
void multiply_by_mma(const float* x, float* y) {
  const unsigned row = ptx::lane() / 4;
  const unsigned k = ptx::lane() % 4 * 2;
  const auto one = [&](unsigned column) { return column == row ? 1.0F : 0.0F; };
  const std::uint32_t a = ptx::to_half2(one(k), one(k + 1));
  const std::uint32_t b = ptx::to_half2(x[k * 8 + ptx::lane() / 4], x[(k + 1) * 8 + ptx::lane() / 4]);
  float d[4]{};
  const std::uint32_t both[] = {a, a};
  ptx::mma_16x8x8(d, both, b, d);
  if (threadIdx.x < 32) {
    for (unsigned i = 0; i < 2; ++i) y[row * 8 + k + i] = d[i] == d[2 + i] ? d[i] : -2.0F;
  }
}

}  // namespace

TEST_CASE("emulator: threads meet in barriers, and do not where there is none") {
  CHECK(is_reversed(run(reverse<true>, kThreads * sizeof(float), cudaSuccess)));
  CHECK_FALSE(is_reversed(run(reverse<false>, kThreads * sizeof(float), cudaSuccess)));
}

TEST_CASE("emulator: copies arrive when they are waited for, not earlier") {
  CHECK(is_reversed(run(reverse_by_copies<true>, kThreads * sizeof(float), cudaSuccess)));
  CHECK_FALSE(is_reversed(run(reverse_by_copies<false>, kThreads * sizeof(float), cudaSuccess)));
}

TEST_CASE("emulator: accesses stay within shared memory and are aligned") {
  run(read_outside, kThreads * sizeof(float), cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_fault(), contains("256 bytes of shared memory"));
  run(read_outside, 2 * kThreads * sizeof(float), cudaSuccess);
  run(read_unaligned, 0, cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_fault(), contains("not aligned"));
}

TEST_CASE("emulator: a kernel that cannot go on has failed") {
  run(wait_for_nobody, 0, cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_fault(), contains("32 threads wait for what never comes"));
  run(part_ways, 0, cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_fault(), contains("different collective instructions"));
}

TEST_CASE("emulator: blocks of a cluster send to each other, and count bytes") {
  constexpr int kBytes = kThreads * sizeof(float);
  const std::vector<float> y = run(exchange<kBytes>, kBytes + 8, cudaSuccess, 2);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t block = i / kThreads;
    CHECK(y[i] == static_cast<float>(i % kThreads + block));
  }
  run(exchange<kBytes + 4>, kBytes + 8, cudaErrorLaunchFailure, 2);
  CHECK_THAT(emulator::last_fault(), contains("wait for what never comes"));
}

TEST_CASE("emulator: mma has the GPU's fragments") {
  const std::vector<float> y = run(multiply_by_mma, 0, cudaSuccess);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == static_cast<float>(i));
}

TEST_CASE("emulator: a kernel asks for much shared memory before it has it") {
  constexpr std::size_t kMuch = 50 * 1024;
  run(reverse<true>, kMuch, cudaErrorInvalidValue);
  REQUIRE(kernels::allow_shared_memory(reverse<true>, kMuch) == cudaSuccess);
  CHECK(is_reversed(run(reverse<true>, kMuch, cudaSuccess)));
}

}  // namespace mobicuda::test
