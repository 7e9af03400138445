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
constexpr int kRowBytes = kThreads;
constexpr int kStoredRows = 64;  // filtered rows in shared memory at a time: all of a tile for reductions up to 3.5
constexpr int kMarks = 32;       // that are looked at of a picture: a warp
constexpr int kFillThreads = 256;
constexpr int kFillBytes = 16;

static_assert(kThreads >= kTileColumns + kTileRows, "a thread makes a window");

struct Tile {
  Window columns[kTileColumns];
  Window rows[kTileRows];
  alignas(16) std::uint8_t filtered[kStoredRows * kRowBytes];
};

/// Bytes behind the Tile: weight k of column x at [k][x], then that of row y at [k][y].
constexpr std::size_t weight_bytes(int taps) {
  return static_cast<std::size_t>(taps) * (kTileColumns + kTileRows) * sizeof(std::int32_t);
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

/// A byte of a source row, filtered along the row; `weights` are the window's, if taps > 0.
__device__ __forceinline__ std::uint8_t filtered(const ResizeTask& task, const Window& window, int row, int channel,
                                                 int taps, const std::int32_t* weights) {
  std::int32_t sum = kHalf;
  const std::uint8_t* pixel = task.origin + row * task.step_y + window.first * task.step_x + channel;
  for (int k = 0; k < window.count; ++k, pixel += task.step_x) {
    sum += __ldg(pixel) * (taps > 0 ? weights[k * kTileColumns] : weight_of(window, k));
  }
  return to_byte(sum);
}

// grid (tiles, tasks); taps: weights that are stored for each window, 0 where they are computed at each use
template <ResizeOutput kOutput>
__global__ void __launch_bounds__(kThreads)
    resize_batch_kernel(ResizeParams p, int tiles_across, int taps, const ResizeTask* tasks) {
  MOBICUDA_DYNAMIC_SHARED(unsigned char, 16, resize_memory);
  Tile& tile = *reinterpret_cast<Tile*>(resize_memory);
  std::int32_t* const column_weights = reinterpret_cast<std::int32_t*>(resize_memory + sizeof(Tile));
  std::int32_t* const row_weights = column_weights + taps * kTileColumns;
  const int thread = static_cast<int>(threadIdx.x);
  const int tile_y = static_cast<int>(blockIdx.x) / tiles_across;
  const int first_x = (static_cast<int>(blockIdx.x) - tile_y * tiles_across) * kTileColumns;
  const int first_y = tile_y * kTileRows;
  const int columns = min(kTileColumns, p.crop_width - first_x);
  const int rows = min(kTileRows, p.crop_height - first_y);
  const int x = thread / kChannels;
  const int channel = thread - x * kChannels;

  for (int index = static_cast<int>(blockIdx.y); index < p.tasks; index += static_cast<int>(gridDim.y)) {
    const ResizeTask task = tasks[index];
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
    for (int from = begin; from < end && x < columns; from += kStoredRows) {
      const int to = min(from + kStoredRows, end);
      for (int row = from; row < to; ++row) {
        tile.filtered[(row - from) * kRowBytes + thread] =
            filtered(task, window, row, channel, taps, column_weights + x);
      }
      // Each thread reads what it wrote itself, and nothing else.
#pragma unroll
      for (int y = 0; y < kTileRows; ++y) {
        if (y >= rows) break;
        const int first = tile.rows[y].first;
        const int last = min(first + tile.rows[y].count, to);
        for (int row = max(first, from); row < last; ++row) {
          const std::int32_t weight =
              taps > 0 ? row_weights[(row - first) * kTileRows + y] : weight_of(tile.rows[y], row - first);
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
  config.dynamicSmemBytes = sizeof(Tile) + weight_bytes(taps);
  config.stream = stream;
  static_assert(sizeof(Tile) + weight_bytes(kMostStoredTaps) <= 48 << 10, "what a block has without being asked");
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

// A thread looks at a pixel; a block, one warp, at a picture. The pixels are spread over all rows, the last one among
// them, as a decoder that gives up leaves the end.
__global__ void __launch_bounds__(kMarks) check_marks_kernel(const MarkedPicture* pictures, std::uint32_t* missing) {
  const MarkedPicture picture = pictures[blockIdx.x];
  const std::int64_t pixels = static_cast<std::int64_t>(picture.width) * picture.height;
  const std::uint8_t* const pixel = picture.pixels + (pixels - 1) * (threadIdx.x + 1) / kMarks * kChannels;
  int kept = 1;
  for (int channel = 0; channel < kChannels; ++channel) {
    if (pixel[channel] != mark_of(pixel + channel - picture.memory)) kept = 0;
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
