#pragma once

#include <cstdint>

#include <benchmark/benchmark.h>

#include "bench_support.h"
#include "ceilings.h"
#include "choose/timed_kernel.h"

namespace mobicuda::bench {

/// What one call reads and writes (each tensor once), and its operations (a multiply-add is two).
struct Work {
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
  Pipe pipe = Pipe::Fma;
};

inline Pipe matrix_pipe(Elem elem) { return elem == Elem::F16 ? Pipe::Tensor : Pipe::Fma; }

/// Where the data of a call is when it begins.
enum class Cache : std::uint8_t {
  Warm,  ///< in the L2 cache as far as it fits: all calls work on the same memory
  Cold,  ///< in device memory: each call has operands of its own, and L2 is swept before
};

inline constexpr Cache kCaches[] = {Cache::Warm, Cache::Cold};
inline const char* to_string(Cache cache) { return cache == Cache::Warm ? "warm" : "cold"; }

/// Times a kernel by CUDA events around a graph of many calls, so that the host's launch cost stays out; the boundary
/// between two kernels (about 0.9 us on an H100) is in. Reports bytes/s and FLOP/s and their share of ceilings() in
/// percent, where these are measured: more than 100 % of bytes/s come from the L2 cache. Random operands, as power and
/// clock depend on the data.
void measure(benchmark::State& state, const TimedKernel& kernel, const Work& work, kernels::Elem elem, Cache cache);

/// What is measured is enqueued on it.
cudaStream_t measuring_stream();

/// The work of one call: each operand once.
Work work_of(const TimedKernel& kernel, std::int64_t flops, Pipe pipe);

}  // namespace mobicuda::bench
