// The emulator finds what is wrong in device code, and lets pass what is right. Compiled as device code.
#include <cmath>
#include <string>
#include <vector>

#include "kernels/common/driver_function.h"
#include "kernels/common/launch_cluster.h"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/named_barrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"
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

/// A block sends to itself.
void keep(const float* x, float* /*y*/) {
  MOBICUDA_DYNAMIC_SHARED(float, 16, shared);
  const std::uint32_t barrier = ptx::shared_address(shared + kThreads);
  ptx::send(ptx::shared_address(shared + threadIdx.x), x[threadIdx.x], barrier);
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

/// What a kernel with wgmma does wrong.
enum class Slip { None, NoFence, NoWait, NoProxyFence, EarlyWrite, EarlyOperand, TwoProducts };

/// d = a * b of a warpgroup, n = 32: a is the unit matrix in 16 of 64 rows, those of each warp, b (k, column) = 32 k +
/// column.
template <Slip kSlip>
void multiply_by_wgmma(const float* /*x*/, float* y) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 128, shared);
  const std::uint32_t operand = ptx::shared_address(shared);
  for (unsigned at = threadIdx.x; at < 32 * 16; at += 128) {
    const unsigned column = at / 16;
    const unsigned k = at % 16;
    ptx::store_shared_half(operand + column / 8 * 256 + k / 8 * 128 + column % 8 * 16 + k % 8 * 2,
                           ptx::to_half2(static_cast<float>(32 * k + column), 0.0F));
  }
  if (kSlip != Slip::NoProxyFence) ptx::fence_proxy_async();
  __syncthreads();
  const unsigned row = ptx::lane() / 4;
  const unsigned k = ptx::lane() % 4 * 2;
  std::uint32_t diagonal = ptx::to_half2(row == k ? 1.0F : 0.0F, row == k + 1 ? 1.0F : 0.0F);
  const std::uint32_t zeros = 0;
  float d[16]{};
  if (kSlip != Slip::NoFence) ptx::wgmma_fence();
  const std::uint64_t b = ptx::wgmma_operand(operand + (kSlip == Slip::TwoProducts && threadIdx.x >= 64 ? 1024 : 0));
  ptx::start_wgmma(d, diagonal, zeros, zeros, diagonal, b, false);
  ptx::wgmma_commit();
  if (kSlip == Slip::EarlyWrite) d[0] = 0;
  if (kSlip == Slip::EarlyOperand) diagonal = 0;
  ptx::wgmma_wait<kSlip == Slip::NoWait ? 1 : 0>();
  for (unsigned i = 0; i < 16; ++i) {
    y[(ptx::warp() * 16 + row + i / 2 % 2 * 8) * 32 + i / 4 * 8 + k + i % 2] = d[i];
  }
  ptx::wgmma_wait<0>();
}

std::vector<float> run_wgmma(void (*kernel)(const float*, float*), cudaError_t expected) {
  std::vector<float> y(64 * 32);
  const cudaError_t status =
      kernels::launch(kernel, dim3(1), dim3(128), 4096, Launch{}, static_cast<const float*>(nullptr), y.data());
  INFO(emulator::last_fault());
  REQUIRE(status == expected);
  return y;
}

/// A block of 8 x 64 halves out of a matrix through shared memory into another one, where a thread writes meanwhile.
template <bool kWaits>
void copy_by_maps(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 1024, shared);
  const std::uint32_t box = ptx::shared_address(shared);
  const std::uint32_t barrier = box + 1024;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::mbarrier_arrive_expect(barrier, 1024);
    ptx::copy_box<1>(box, from, 8, 1, 0, barrier);
  }
  __syncthreads();
  ptx::mbarrier_wait(barrier, 0);
  if (threadIdx.x == 0) {
    ptx::copy_box_out(to, 0, 0, 0, box);
    if (kWaits) ptx::copy_out_wait_read<0>();
  }
}

/// A matrix of `rows` x `columns` halves.
CUtensorMap map_of_matrix(std::vector<__half>& matrix, unsigned rows, unsigned columns) {
  const auto encode = kernels::find_driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  REQUIRE(encode != nullptr);
  CUtensorMap map;
  const cuuint64_t extents[] = {columns, rows, 1};
  const cuuint64_t pitches[] = {columns * 2, columns * rows * 2};
  const cuuint32_t box[] = {64, 8, 1};
  const cuuint32_t steps[] = {1, 1, 1};
  REQUIRE(encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, matrix.data(), extents, pitches, box, steps,
                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
  return map;
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

TEST_CASE("emulator: launches without clusters have no instructions of clusters") {
  run(keep, kThreads * sizeof(float) + 8, cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_fault(), contains("st.async in a launch without clusters"));
}

TEST_CASE("emulator: mma has the GPU's fragments") {
  const std::vector<float> y = run(multiply_by_mma, 0, cudaSuccess);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == static_cast<float>(i));
}

TEST_CASE("emulator: wgmma has the GPU's fragments and operands, and gives its sums when it is waited for") {
  const std::vector<float> y = run_wgmma(multiply_by_wgmma<Slip::None>, cudaSuccess);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == static_cast<float>(i % 512));
  for (const float early : run_wgmma(multiply_by_wgmma<Slip::NoWait>, cudaSuccess)) CHECK(std::isnan(early));
}

TEST_CASE("emulator: wgmma's operands and sums are fenced, and left alone until it is waited for") {
  const auto fails = [](void (*kernel)(const float*, float*), const std::string& why) {
    run_wgmma(kernel, cudaErrorLaunchFailure);
    CHECK_THAT(emulator::last_fault(), contains(why));
  };
  fails(multiply_by_wgmma<Slip::NoFence>, "no wgmma_fence()");
  fails(multiply_by_wgmma<Slip::NoProxyFence>, "no fence.proxy.async");
  fails(multiply_by_wgmma<Slip::EarlyWrite>, "sums of wgmma were written");
  fails(multiply_by_wgmma<Slip::EarlyOperand>, "operand of wgmma changed");
  fails(multiply_by_wgmma<Slip::TwoProducts>, "at different products");
}

TEST_CASE("emulator: copies by tensor maps stay within the tensor, and are waited for") {
  constexpr unsigned kRows = 5;
  constexpr unsigned kColumns = 64;
  std::vector<__half> from(kRows * kColumns);
  std::vector<__half> to(from.size(), __float2half_rn(-1.0F));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = __float2half_rn(static_cast<float>(i));
  const CUtensorMap source = map_of_matrix(from, kRows, kColumns);
  const CUtensorMap target = map_of_matrix(to, kRows, kColumns);
  const auto copy = [&](auto kernel) {
    return kernels::launch(kernel, dim3(1), dim3(kThreads), 2048, Launch{}, source, target);
  };
  REQUIRE(copy(copy_by_maps<true>) == cudaSuccess);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool outside = i / kColumns + 1 >= kRows || i % kColumns + 8 >= kColumns;
    CHECK(__half2float(to[i]) == (outside ? 0.0F : static_cast<float>(i + kColumns + 8)));
  }
  CHECK(copy(copy_by_maps<false>) == cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_fault(), contains("before its copies from shared memory did"));
  CHECK(kernels::launch(copy_by_maps<true>, dim3(1), dim3(kThreads), 2048, Launch{}, CUtensorMap{}, target) ==
        cudaErrorLaunchFailure);
  CHECK_THAT(emulator::last_fault(), contains("nobody has encoded"));
}

TEST_CASE("emulator: halves are the floats that they stand for") {
  for (unsigned bits = 0; bits <= 0xFFFFU; ++bits) {
    const float expected = __half(__half_raw{static_cast<unsigned short>(bits)});  // by the toolkit
    const float got = emulator::float_of_half(bits);
    INFO("half " << bits << ": " << got << ", not " << expected);
    REQUIRE((std::isnan(expected) ? std::isnan(got) : __float_as_uint(got) == __float_as_uint(expected)));
  }
}

TEST_CASE("emulator: a kernel asks for much shared memory before it has it") {
  constexpr std::size_t kMuch = 50 * 1024;
  run(reverse<true>, kMuch, cudaErrorInvalidValue);
  REQUIRE(kernels::allow_shared_memory(reverse<true>, kMuch) == cudaSuccess);
  CHECK(is_reversed(run(reverse<true>, kMuch, cudaSuccess)));
}

}  // namespace mobicuda::test
