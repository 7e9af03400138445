// Probes of what a GPU reaches: a copy of device memory, chains of FFMA and of mma.sync with nothing between them.
#include "ceilings.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "bench_support.h"
#include "runtime/device_buffer.h"

namespace mobicuda::bench {
namespace {

bool ceilings_wanted = true;

constexpr int kThreads = 256;
constexpr int kBlocksOnMultiprocessor = 8;
constexpr int kSteps = 4096;
constexpr int kChains = 8;  // independent ones of a thread, so that latency does not count

__global__ void fma_probe(float factor, float* out) {
  float sum[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) sum[i] = static_cast<float>(threadIdx.x + static_cast<unsigned>(i));
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) sum[i] = fmaf(sum[i], factor, 0.5F);
  }
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kChains; ++i) total += sum[i];
  if (total == 0.125F) *out = total;  // never true, but the compiler does not know
}

__global__ void tensor_probe(unsigned operand, float* out) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float sum[kChains][4] = {};
  const unsigned a = operand;
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
          : "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
          : "r"(a));
    }
  }
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kChains; ++i) total += sum[i][0];
  if (total == 0.125F) *out = total;
#else
  static_cast<void>(operand);
  static_cast<void>(out);
#endif
}

/// Seconds of `work`, the least of several runs.
double seconds_of(const std::function<void()>& work) {
  constexpr int kRuns = 10;
  constexpr double kMillisecond = 1e-3;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check_cuda(cudaEventCreate(&begin));
  check_cuda(cudaEventCreate(&end));
  double least = 0;
  for (int run = 0; run < kRuns; ++run) {
    float elapsed = 0.0F;
    check_cuda(cudaEventRecord(begin));
    work();
    check_cuda(cudaEventRecord(end));
    check_cuda(cudaEventSynchronize(end));
    check_cuda(cudaEventElapsedTime(&elapsed, begin, end));
    const double seconds = static_cast<double>(elapsed) * kMillisecond;
    least = run == 0 ? seconds : std::min(least, seconds);
  }
  check_cuda(cudaEventDestroy(begin));
  check_cuda(cudaEventDestroy(end));
  return least;
}

Ceilings probe() {
  constexpr std::int64_t kCopied = std::int64_t{1} << 29U;  // bytes
  constexpr double kWarpSize = 32;
  constexpr double kMmaFlops = 2.0 * 16 * 8 * 16;
  const DeviceBuffer from(kCopied, "a copy's source");
  const DeviceBuffer to(kCopied, "a copy");
  check_cuda(cudaMemset(from.data(), 1, kCopied));
  int multiprocessors = 0;
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  const int blocks = multiprocessors * kBlocksOnMultiprocessor;
  const double threads = static_cast<double>(blocks) * kThreads;
  auto* out = static_cast<float*>(to.data());
  Ceilings found;
  found.bytes_per_second = 2.0 * static_cast<double>(kCopied) / seconds_of([&] {
                             check_cuda(cudaMemcpyAsync(to.data(), from.data(), kCopied, cudaMemcpyDeviceToDevice));
                           });
  found.fma_flops_per_second = 2.0 * kChains * kSteps * threads / seconds_of([&] {
                                 fma_probe<<<blocks, kThreads>>>(0.25F, out);
                                 check_cuda(cudaGetLastError());
                               });
  found.tensor_flops_per_second = kMmaFlops * kChains * kSteps * threads / kWarpSize / seconds_of([&] {
                                    tensor_probe<<<blocks, kThreads>>>(0U, out);
                                    check_cuda(cudaGetLastError());
                                  });
  return found;
}

}  // namespace

bool measures_ceilings() { return ceilings_wanted; }
void measure_ceilings(bool wanted) { ceilings_wanted = wanted; }

const Ceilings& ceilings() {
  static const Ceilings measured = probe();
  return measured;
}

}  // namespace mobicuda::bench
