#include "pictures/gpu/resize_batch.h"

#include <algorithm>

#include <cuda_runtime.h>

#include "kernels/ptx/shared_memory.cuh"
#include "pictures/prepare/channels.h"
#include "pictures/prepare/window.h"

namespace mobicuda::pictures {
namespace {

constexpr int kTileColumns = 64;
constexpr int kTileRows = 16;
constexpr int kThreads = kTileColumns * kChannels;  // each has one channel of one column
constexpr int kLeastBlocks = 4;                     // of an SM, which hide each other's waits
constexpr int kRowBytes = kThreads;
constexpr int kStoredRows = 64;  // filtered rows in shared memory at a time: all of a tile for reductions up to 3.5
constexpr int kStagedBytes = 12 << 10;  // of source pixels in shared memory at a time, of pictures in planes
constexpr int kWarp = 32;
constexpr int kMarks = kWarp;  // places that are looked at of a picture
constexpr int kFillThreads = 256;
constexpr int kFillBytes = 16;

static_assert(kThreads >= kTileColumns + kTileRows, "a thread makes a window");

struct Tile {
  Window columns[kTileColumns];
  Window rows[kTileRows];
  alignas(16) std::uint8_t filtered[kStoredRows * kRowBytes];
};

/// Bytes behind the Tile: weight k of column x at [k][x], then that of row y at [k][y]; then source pixels, of pictures
/// in planes.
constexpr std::size_t bytes_behind(int taps, bool planar) {
  return static_cast<std::size_t>(taps) * (kTileColumns + kTileRows) * sizeof(std::int32_t) +
         (planar ? kStagedBytes : 0);
}

template <ResizeOutput kOutput>
__device__ void store(const ResizeParams& p, void* out, int x, int y, int channel, std::uint8_t byte) {
  const std::int64_t pixel = static_cast<std::int64_t>(y) * p.crop_width + x;
  if constexpr (kOutput == ResizeOutput::Bytes) {
    static_cast<std::uint8_t*>(out)[pixel * kChannels + channel] = byte;
  } else {
    const std::int64_t plane = static_cast<std::int64_t>(p.crop_width) * p.crop_height;
    const std::int64_t at = kOutput == ResizeOutput::FloatsNchw ? channel * plane + pixel : pixel * kChannels + channel;
    static_cast<float*>(out)[at] = pixel_value(byte, p.scale, channel);
  }
}

// What is seldom needed is called, so that it takes no registers of what is computed all the time.
__device__ __noinline__ std::int32_t weight_at_use(const Window& window, int k) { return weight_of(window, k); }
__device__ __noinline__ std::uint8_t colour_at_use(const PlanesView& view, int x, int y, int channel) {
  const Rgb rgb = rgb_at(view, x, y);
  return channel == 0 ? rgb.red : channel == 1 ? rgb.green : rgb.blue;
}

/// A byte of a source row, filtered along the row; `weights` are the window's, if taps > 0. read(k) is the byte of the
/// window's pixel k.
template <class Read>
__device__ __forceinline__ std::uint8_t filtered(const Window& window, int taps, const std::int32_t* weights,
                                                 const Read& read) {
  std::int32_t sum = kHalf;
  for (int k = 0; k < window.count; ++k) {
    sum += read(k) * (taps > 0 ? weights[k * kTileColumns] : weight_at_use(window, k));
  }
  return to_byte(sum);
}

/// Pixels [first, first + count) of the rows [from, to) into shared memory, a row after the other. By all threads.
__device__ __forceinline__ void stage(const PlanesView& view, int first, int count, int from, int to,
                                      std::uint8_t* pixels) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int row = from + thread / kWarp; row < to; row += kThreads / kWarp) {
    std::uint8_t* const out = pixels + (row - from) * count * kChannels;
    for (int x = thread % kWarp; x < count; x += kWarp) {
      const Rgb rgb = rgb_at(view, first + x, row);
      out[x * kChannels] = rgb.red;
      out[x * kChannels + 1] = rgb.green;
      out[x * kChannels + 2] = rgb.blue;
    }
  }
}

// grid (tiles, tasks); taps: weights that are stored for each window, 0 where they are computed at each use
template <ResizeOutput kOutput>
__global__ void __launch_bounds__(kThreads, kLeastBlocks)
    resize_batch_kernel(ResizeParams p, int tiles_across, int taps, const ResizeTask* tasks) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, resize_memory);
  Tile& tile = *reinterpret_cast<Tile*>(resize_memory);
  std::int32_t* const column_weights = reinterpret_cast<std::int32_t*>(resize_memory + sizeof(Tile));
  std::int32_t* const row_weights = column_weights + taps * kTileColumns;
  std::uint8_t* const staged = reinterpret_cast<std::uint8_t*>(row_weights + taps * kTileRows);
  const int thread = static_cast<int>(threadIdx.x);
  const int tile_y = static_cast<int>(blockIdx.x) / tiles_across;
  const int first_x = (static_cast<int>(blockIdx.x) - tile_y * tiles_across) * kTileColumns;
  const int first_y = tile_y * kTileRows;
  const int columns = min(kTileColumns, p.crop_width - first_x);
  const int rows = min(kTileRows, p.crop_height - first_y);
  const int x = thread / kChannels;
  const int channel = thread - x * kChannels;

  for (int index = static_cast<int>(blockIdx.y); index < p.tasks; index += static_cast<int>(gridDim.y)) {
    const ResizeTask& task = tasks[index];
    if (thread < columns) {
      const Window window = make_window(task.left + first_x + thread, task.source_width, task.width);
      tile.columns[thread] = window;
      const int stored = min(taps, window.count);
      for (int k = 0; k < stored; ++k) column_weights[k * kTileColumns + thread] = weight_of(window, k);
    } else if (thread >= kTileColumns && thread < kTileColumns + rows) {
      const int y = thread - kTileColumns;
      const Window window = make_window(task.top + first_y + y, task.source_height, task.height);
      tile.rows[y] = window;
      const int stored = min(taps, window.count);
      for (int k = 0; k < stored; ++k) row_weights[k * kTileRows + y] = weight_of(window, k);
    }
    __syncthreads();

    const int begin = tile.rows[0].first;
    const int end = tile.rows[rows - 1].first + tile.rows[rows - 1].count;
    std::int32_t sums[kTileRows];
#pragma unroll
    for (int y = 0; y < kTileRows; ++y) sums[y] = kHalf;
    const Window window = tile.columns[min(x, columns - 1)];
    const std::int32_t* const weights = column_weights + x;
    const bool planar = task.origin == nullptr;
    const int first = tile.columns[0].first;
    const int span = tile.columns[columns - 1].first + tile.columns[columns - 1].count - first;
    const int staged_rows = min(kStoredRows, kStagedBytes / (span * kChannels));  // 0: not even one fits
    for (int from = begin; from < end; from += kStoredRows) {
      const int to = min(from + kStoredRows, end);
      if (planar && staged_rows > 0) {
        for (int part = from; part < to; part += staged_rows) {
          const int stop = min(part + staged_rows, to);
          stage(task.planes, first, span, part, stop, staged);
          __syncthreads();
          for (int row = part; row < stop && x < columns; ++row) {
            const std::uint8_t* const pixel =
                staged + ((row - part) * span + window.first - first) * kChannels + channel;
            tile.filtered[(row - from) * kRowBytes + thread] =
                filtered(window, taps, weights, [&](int k) { return pixel[k * kChannels]; });
          }
          __syncthreads();
        }
      } else if (planar) {
        for (int row = from; row < to && x < columns; ++row) {
          tile.filtered[(row - from) * kRowBytes + thread] = filtered(
              window, taps, weights, [&](int k) { return colour_at_use(task.planes, window.first + k, row, channel); });
        }
      } else {
        for (int row = from; row < to && x < columns; ++row) {
          const std::uint8_t* const pixel = task.origin + row * task.step_y + window.first * task.step_x + channel;
          tile.filtered[(row - from) * kRowBytes + thread] =
              filtered(window, taps, weights, [&](int k) { return __ldg(pixel + k * task.step_x); });
        }
      }
      // Each thread reads what it wrote itself, and nothing else.
#pragma unroll
      for (int y = 0; y < kTileRows; ++y) {
        if (y >= rows || x >= columns) break;
        const int top = tile.rows[y].first;
        const int last = min(top + tile.rows[y].count, to);
        for (int row = max(top, from); row < last; ++row) {
          const std::int32_t weight =
              taps > 0 ? row_weights[(row - top) * kTileRows + y] : weight_at_use(tile.rows[y], row - top);
          sums[y] += tile.filtered[(row - from) * kRowBytes + thread] * weight;
        }
      }
    }
    if (x < columns) {
#pragma unroll
      for (int y = 0; y < kTileRows; ++y) {
        if (y < rows) store<kOutput>(p, task.out, first_x + x, first_y + y, channel, to_byte(sums[y]));
      }
    }
    __syncthreads();  // before the next task's windows
  }
}

template <ResizeOutput kOutput>
cudaError_t launch(const ResizeParams& p, const ResizeTask* tasks, cudaStream_t stream) {
  constexpr int kMostTasksAtOnce = 65535;  // a grid's second extent
  const int tiles_across = (p.crop_width + kTileColumns - 1) / kTileColumns;
  const int tiles_down = (p.crop_height + kTileRows - 1) / kTileRows;
  const int taps = p.most_taps <= kMostStoredTaps ? p.most_taps : 0;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(tiles_across * tiles_down),
                        static_cast<unsigned>(std::min(p.tasks, kMostTasksAtOnce)));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = sizeof(Tile) + bytes_behind(taps, p.planar);
  config.stream = stream;
  static_assert(sizeof(Tile) + bytes_behind(kMostStoredTaps, true) <= 48 << 10, "what a block has without being asked");
  return cudaLaunchKernelEx(&config, resize_batch_kernel<kOutput>, p, tiles_across, taps, tasks);
}

__device__ __forceinline__ std::uint8_t mark_of(std::int64_t offset) {
  constexpr std::int64_t kStep = 151;
  constexpr std::int64_t kFirst = 89;
  return static_cast<std::uint8_t>(offset * kStep + kFirst);
}

// A thread writes 16 bytes.
__global__ void __launch_bounds__(kFillThreads) fill_marks_kernel(std::uint8_t* memory, std::int64_t bytes) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kFillThreads + threadIdx.x) * kFillBytes;
  if (at >= bytes) return;
  alignas(16) std::uint8_t marks[kFillBytes];
#pragma unroll
  for (int i = 0; i < kFillBytes; ++i) marks[i] = mark_of(at + i);
  *reinterpret_cast<uint4*>(memory + at) = *reinterpret_cast<const uint4*>(marks);
}

// A thread looks at a place of each plane; a block, one warp, at a picture. The places are spread over all rows, the
// last bytes among them, as a decoder that gives up leaves the end.
__global__ void __launch_bounds__(kMarks) check_marks_kernel(const MarkedPicture* pictures, std::uint32_t* missing) {
  constexpr int kBytes = 4;  // of a place
  const MarkedPicture& picture = pictures[blockIdx.x];
  int kept = 0;
  for (int i = 0; i < picture.count; ++i) {
    const MarkedPlane plane = picture.planes[i];
    const std::int64_t last = static_cast<std::int64_t>(plane.row_bytes) * plane.rows - 1;
    const std::int64_t at = last * (static_cast<int>(threadIdx.x) + 1) / kMarks;
    const std::int64_t row = at / plane.row_bytes;
    const int count = min(kBytes, plane.row_bytes);
    const int column = min(static_cast<int>(at - row * plane.row_bytes), plane.row_bytes - count);
    const std::uint8_t* const bytes = plane.bytes + row * plane.pitch + column;
    int same = 1;
    for (int k = 0; k < count; ++k) {
      if (bytes[k] != mark_of(bytes + k - picture.memory)) same = 0;
    }
    kept |= same;
  }
  for (int other = kMarks / 2; other > 0; other /= 2) kept += __shfl_xor_sync(~0U, kept, other);
  if (threadIdx.x == 0) missing[blockIdx.x] = static_cast<std::uint32_t>(kept);
}

}  // namespace

cudaError_t resize_batch(const ResizeParams& params, const ResizeTask* tasks, cudaStream_t stream) {
  if (params.tasks < 0 || params.crop_width < 1 || params.crop_height < 1 || params.most_taps < 1) {
    return cudaErrorInvalidValue;
  }
  if (params.tasks == 0) return cudaSuccess;
  switch (params.output) {
    case ResizeOutput::Bytes:
      return launch<ResizeOutput::Bytes>(params, tasks, stream);
    case ResizeOutput::FloatsNchw:
      return launch<ResizeOutput::FloatsNchw>(params, tasks, stream);
    case ResizeOutput::FloatsNhwc:
      return launch<ResizeOutput::FloatsNhwc>(params, tasks, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t fill_marks(std::uint8_t* memory, std::int64_t bytes, cudaStream_t stream) {
  if (bytes < 0 || bytes % kFillBytes != 0) return cudaErrorInvalidValue;
  if (bytes == 0) return cudaSuccess;
  constexpr std::int64_t kBlockBytes = std::int64_t{kFillThreads} * kFillBytes;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((bytes + kBlockBytes - 1) / kBlockBytes));
  config.blockDim = dim3(kFillThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, fill_marks_kernel, memory, bytes);
}

cudaError_t check_marks(int count, const MarkedPicture* pictures, std::uint32_t* missing, cudaStream_t stream) {
  if (count <= 0) return count == 0 ? cudaSuccess : cudaErrorInvalidValue;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(count));
  config.blockDim = dim3(kMarks);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, check_marks_kernel, pictures, missing);
}

}  // namespace mobicuda::pictures
