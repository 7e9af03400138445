// y[r, first_i + j] = x_i[r, j]: rows of several matrices into columns of one.
//
// A copy of bytes, in the largest words (16, 8, 4 or 2 bytes) that divide all columns, pitches and addresses. A thread
// keeps its word of the joined columns, for which it looks up the part once, and goes down the rows, kRowsPerThread
// loads before the first store. A block is as wide as the joined columns, up to kThreads words, and as high as kThreads
// threads allow: they are consecutive in memory however few columns there are.
#include "kernels/streaming/concat.h"

#include <algorithm>

#include "kernels/common/packet.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kRowsPerThread = 4;

/// ConcatParams in words, with the addresses; `end` counts the words of this part and of those before it.
struct Copies {
  struct Part {
    const void* x;
    std::int64_t end;
    std::int64_t pitch;
    std::int64_t to;  ///< from a word of the joined columns to its column of y
  };
  std::int64_t rows;
  std::int64_t pitch;
  std::int64_t words;
  int parts;
  Part part[kMostConcatParts];
};

// block (words, rows); grid (words, rows)
template <class Word>
__global__ void __launch_bounds__(kThreads) concat_kernel(const __grid_constant__ Copies p, Word* y) {
  const std::int64_t word = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  int i = 0;
  while (i + 1 < p.parts && word >= p.part[i].end) ++i;
  const std::int64_t x_pitch = p.part[i].pitch;
  const Word* from = static_cast<const Word*>(p.part[i].x) + word - (i == 0 ? 0 : p.part[i - 1].end);
  Word* to = y + word + p.part[i].to;
  wait_for_predecessor();
  if (word >= p.words) return;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; row < p.rows; row += stride * kRowsPerThread) {
    Word values[kRowsPerThread];
#pragma unroll
    for (int j = 0; j < kRowsPerThread; ++j) {
      if (row + j * stride < p.rows) values[j] = from[(row + j * stride) * x_pitch];
    }
#pragma unroll
    for (int j = 0; j < kRowsPerThread; ++j) {
      if (row + j * stride < p.rows) to[(row + j * stride) * p.pitch] = values[j];
    }
  }
}

/// Bytes of the largest word that all addresses and distances are multiples of.
std::int64_t word_bytes(const ConcatParams& p, const void* const* x, const void* y) {
  const auto element = static_cast<std::int64_t>(size_of(p.elem));
  std::uint64_t all = reinterpret_cast<std::uintptr_t>(y) | static_cast<std::uint64_t>(p.pitch * element);
  for (int i = 0; i < p.parts; ++i) {
    const ConcatParams::Part& part = p.part[i];
    all |= reinterpret_cast<std::uintptr_t>(x[i]);
    all |= static_cast<std::uint64_t>((part.columns | part.pitch | part.first) * element);
  }
  constexpr std::uint64_t kLargest = 16;
  all |= kLargest;
  return static_cast<std::int64_t>(all & (~all + 1));
}

template <class Word>
cudaError_t launch_concat(const Copies& copies, void* y, const Launch& where) {
  const int width = static_cast<int>(std::min<std::int64_t>(copies.words, kThreads));
  const int height = kThreads / width;
  const std::int64_t across = ceil_div(copies.words, std::int64_t{width});
  if (across > kMaxGridX) return cudaErrorInvalidValue;
  const std::int64_t down = ceil_div(copies.rows, std::int64_t{height} * kRowsPerThread);
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(std::min<std::int64_t>(down, kMaxGridYz)));
  return launch(concat_kernel<Word>, grid, dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)), 0, where,
                copies, static_cast<Word*>(y));
}

bool valid(const ConcatParams& p) {
  if (p.rows < 0 || p.parts < 0 || p.parts > kMostConcatParts) return false;
  return std::all_of(p.part, p.part + p.parts, [&](const ConcatParams::Part& part) {
    return part.columns >= 0 && part.pitch >= part.columns && part.first >= 0 && p.pitch - part.first >= part.columns;
  });
}

}  // namespace

cudaError_t concat(const ConcatParams& p, const void* const* x, void* y, const Launch& where) {
  if (!valid(p)) return cudaErrorInvalidValue;
  const std::int64_t bytes = word_bytes(p, x, y);
  const auto element = static_cast<std::int64_t>(size_of(p.elem));
  Copies copies{p.rows, p.pitch * element / bytes, 0, 0, {}};
  for (int i = 0; i < p.parts; ++i) {
    const ConcatParams::Part& part = p.part[i];
    if (part.columns == 0) continue;
    const std::int64_t to = part.first * element / bytes - copies.words;
    copies.words += part.columns * element / bytes;
    copies.part[copies.parts++] = {x[i], copies.words, part.pitch * element / bytes, to};
  }
  if (copies.rows == 0 || copies.words == 0) return cudaSuccess;
  switch (bytes) {
    case 16:
      return launch_concat<uint4>(copies, y, where);
    case 8:
      return launch_concat<uint2>(copies, y, where);
    case 4:
      return launch_concat<std::uint32_t>(copies, y, where);
    default:
      return launch_concat<std::uint16_t>(copies, y, where);
  }
}

}  // namespace mobicuda::kernels
