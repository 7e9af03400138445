// A GPU on the CPU, for tests of device code where there is none: the kernels' sources are compiled as C++
// (device_language.h stands for the language, ptx/ for the instructions), and each thread of a block is a fiber. What
// only hardware has is not here: times, caches, and how wide a race is.
//
// What goes wrong on a GPU now and then goes wrong here at once, where that is possible:
//   copies in the background (cp.async, bulk copies, st.async) arrive as late as they may, when somebody waits;
//   products in the background (wgmma) give their sums when they are waited for, and nobody touches operands before;
//   the order of warps and blocks is drawn anew in every launch;
//   shared memory begins as NaN, and its bounds are checked;
//   lanes that meet in a collective instruction must be at the same one; a kernel that cannot go on has failed.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace mobicuda::emulator {

/// Of the thread that runs; device_language.h has its indices.
unsigned lane();
unsigned rank_in_cluster();

struct WarpgroupProduct;

/// For loops over products: compiled for AVX2 too, and that is what runs where there is AVX2. Results are the same in
/// every bit.
#ifdef __x86_64__
#define MOBICUDA_WITH_AVX2 __attribute__((target_clones("default", "avx2")))
#else
#define MOBICUDA_WITH_AVX2
#endif

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  unsigned cluster_blocks = 1;
};
/// Runs a kernel; false where it did what a GPU ends a context for, as last_fault() says. One at a time.
bool run(const Configuration& configuration, const std::function<void()>& kernel);
const std::string& last_fault();
/// Addresses that kernels asked to have brought to L2, in their order, since it was last cleared.
std::vector<const void*>& lines_brought();
/// The runtime's launch, at once.
cudaError_t launch_as(const cudaLaunchConfig_t& config, const void* kernel, const std::function<void()>& body);
/// Ends the kernel that runs.
[[noreturn]] void fail(const std::string& why);

/// What a group of lanes does together: called once, when all of them have come, with what each brought.
using Meeting = void (*)(void* const* operands);
/// All lanes of the warp that have not ended; the operands of those that have are null.
void meet_in_warp(Meeting meeting, void* operand);

/// Barrier 0 is that of all threads that have not ended.
void sync_threads();
void sync_threads_of(int barrier, int threads);
void arrive_for_threads_of(int barrier, int threads);
/// Fails where the launch has no clusters: the GPU calls such instructions illegal.
void require_cluster(const std::string& what);
void arrive_at_cluster();
void wait_for_cluster();

/// The block's dynamic shared memory.
void* dynamic_shared();
std::uint32_t shared_address(const void* pointer);
/// What lies at a 32-bit address, in whichever block of the cluster; fails outside of shared memory.
void* shared_at(std::uint32_t address, std::size_t bytes);
/// The same in the own block, for wgmma and for the copy engine (the async proxy): fails where a thread has written
/// with no fence_async_proxy() behind it. Told are writes by functions of ptx/, not those by pointers.
void* shared_for_engine(std::uint32_t address, std::size_t bytes);
/// The thread writes there.
void note_write(std::uint32_t address, std::size_t bytes);
void fence_async_proxy();
std::uint32_t map_to_rank(std::uint32_t address, unsigned rank);

/// cp.async: `bytes`, and zeros behind them; done when the thread waits for it.
void copy_later(void* to, const void* from, std::size_t bytes, std::size_t zeros);
void close_copies();
/// Until at most `pending` of the thread's closed groups are left; -1: until all copies are done.
void wait_for_copies(int pending);
/// Done by the hardware some time before the cluster has ended.
void deliver_later(std::function<void()> delivery);
/// The same for a delivery that reads the block's shared memory; the thread waits for all of its own before it ends.
void deliver_from_shared_later(std::function<void()> delivery);
/// Until at most `pending` of the thread's latest copies from shared memory are left.
void wait_for_copies_from_shared(int pending);

/// d (16 x 8) += a (16 x k) * b (k x 8), rows one after the other.
void multiply(int k, const double* a, const double* b, double* d);
/// d (16 x columns) += a (16 x k) * b of halves, in double, rounded once. Rows of a and d, and columns of b, are one
/// after the other; there are 8 columns or a multiple of that, and k is 16 at most.
void multiply_halves(std::size_t k, std::size_t columns, const std::uint16_t* a, const std::uint16_t* b, float* d);
/// d (16 x 8) += a (16 x 32) * b, of which each column's 32 are one after the other; words of four bytes, which have
/// signs, but for those of a where it is unsigned. Sums wrap, as the GPU's do.
void multiply_bytes(bool unsigned_a, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* d);

/// Of the lower 16 bits. Without branches, for loops over many.
inline float float_of_half(std::uint32_t bits) {
  constexpr std::uint32_t kExponent = 0x7C00U;
  constexpr float kScale = 0x1p112F;  // 127 - 15: what the exponents of a float and of a half are above their own
  const auto magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>((bits & 0x7FFFU) << 13U) * kScale);
  const std::uint32_t infinity = (bits & kExponent) == kExponent ? 0x7F800000U : 0;  // or NaN
  return std::bit_cast<float>(magnitude | infinity | (bits & 0x8000U) << 16U);
}

/// wgmma.
void start_product(const WarpgroupProduct& product);
void fence_products();
void commit_products();
void wait_for_products(int pending);

void mbarrier_init(std::uint32_t barrier, int arrivals);
void mbarrier_arrive(std::uint32_t barrier, int announced_bytes = 0);
void mbarrier_bytes(std::uint32_t barrier, int bytes);
void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity);
bool mbarrier_test(std::uint32_t barrier, std::uint32_t parity);

}  // namespace mobicuda::emulator
