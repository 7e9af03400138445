// Four channels a thread, or, of maps that have enough of them, sixteen. dp4a with 1 at one of four places adds one
// byte to a sum. Of a global average kSlices threads share a word's pixels, so that a small map is read in fewer round
// trips.
#include "kernels/streaming/int8_pooling.h"

#include <algorithm>
#include <limits>

#include "kernels/common/conv_chunks.h"
#include "kernels/common/packet.cuh"
#include "kernels/common/requantize.cuh"
#include "kernels/common/resident_blocks.h"
#include "kernels/ptx/dependent_launch.cuh"
#include "kernels/ptx/int8.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kWord = 4;
constexpr int kWideWords = 4;
constexpr int kLeastThreads = 512;  // of a multiprocessor, where each has kWideWords words
constexpr int kThreads = 128;
constexpr int kSlices = 8;  // of a global average's pixels
constexpr int kWordsOfBlock = kThreads / kSlices;
constexpr int kTogether = 8;      // loads of a thread that are under way: all of a map of 8x8
constexpr int kMostOfByte = 255;  // |q - zero point|

struct Arguments {
  ItemGrid grid;
  const std::int8_t* x;
  std::int8_t* y;
  int h, w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
  int x_pitch, y_pitch, words;
  int x_zero;
  bool count_padding;
  float x_scale, y_scale;
  Requantize result;
};

__device__ __forceinline__ void add_word(std::uint32_t word, std::int32_t (&sums)[kWord]) {
#pragma unroll
  for (int i = 0; i < kWord; ++i) sums[i] = ptx::dp4a(word, 1U << (8 * i), sums[i]);
}

/// `count` pixels have been added, the average is one of `divisor`.
__device__ __forceinline__ std::uint32_t average(const Arguments& a, const std::int32_t (&sums)[kWord], int count,
                                                 int divisor) {
  const float factor = ptx::divide_rounded(a.x_scale, ptx::multiply_rounded(a.y_scale, ptx::float_of(divisor)));
  float rounded[kWord];
#pragma unroll
  for (int i = 0; i < kWord; ++i) {
    const float sum = ptx::float_of(sums[i] - count * a.x_zero);
    rounded[i] = round_clipped(a.result, ptx::multiply_rounded(sum, factor));
  }
  return pack_bytes(a.result, rounded[0], rounded[1], rounded[2], rounded[3]);
}

/// The largest of each of four bytes. Pairs of bytes are compared as 16 bits, in which the lower byte decides between
/// equal upper ones only; the other two bytes are compared a byte further up.
class LargestBytes {
 public:
  __device__ __forceinline__ void add(std::uint32_t word) {
    odd_ = ptx::larger_pairs(odd_, word);
    even_ = ptx::larger_pairs(even_, word << 8U);
  }
  __device__ __forceinline__ std::uint32_t word() const { return __byte_perm(even_, odd_, 0x7351U); }

 private:
  static constexpr std::uint32_t kLowest = 0x80008000U;

  std::uint32_t even_ = kLowest, odd_ = kLowest;
};

/// A thread has kWords words of an output pixel.
template <bool kMax, int kWords>
__global__ void __launch_bounds__(kMaxItemThreads) window_kernel(const Arguments a) {
  wait_for_predecessor();
  const std::uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= a.grid.items) return;
  const Item item = decode(a.grid, index);
  const int y0 = static_cast<int>(item.tile_y) * a.stride_h - a.pad_top;
  const int x0 = static_cast<int>(item.tile_x) * a.stride_w - a.pad_left;
  const int top = max(y0, 0);
  const int left = max(x0, 0);
  const int bottom = min(y0 + a.kernel_h, a.h);
  const int right = min(x0 + a.kernel_w, a.w);
  const std::int64_t image = static_cast<std::int64_t>(item.n) * a.h;
  const std::int64_t first = static_cast<std::int64_t>(item.vector) * (kWords * kWord);
  LargestBytes largest[kWords];
  std::int32_t sums[kWords][kWord] = {};
  for (int y = top; y < bottom; ++y) {
    const std::int8_t* from = a.x + ((image + y) * a.w + left) * a.x_pitch + first;
#pragma unroll 4
    for (int x = left; x < right; ++x, from += a.x_pitch) {
      const auto words = load<kWords>(reinterpret_cast<const std::uint32_t*>(from));
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        if constexpr (kMax) {
          largest[i].add(words.item[i]);
        } else {
          add_word(words.item[i], sums[i]);
        }
      }
    }
  }
  const int count = (bottom - top) * (right - left);
  const std::int64_t pixel =
      (static_cast<std::int64_t>(item.n) * a.out_h + item.tile_y) * a.out_w + static_cast<std::int64_t>(item.tile_x);
  Packet<std::uint32_t, kWords> results;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    results.item[i] =
        kMax ? largest[i].word() : average(a, sums[i], count, a.count_padding ? a.kernel_h * a.kernel_w : count);
  }
  store(reinterpret_cast<std::uint32_t*>(a.y + pixel * a.y_pitch + first), results);
}

/// A block has kWordsOfBlock words of an image.
__global__ void __launch_bounds__(kThreads) global_kernel(const Arguments a) {
  __shared__ std::int32_t partial[kSlices][kWordsOfBlock][kWord];
  const int word = static_cast<int>(threadIdx.x) % kWordsOfBlock;
  const int slice = static_cast<int>(threadIdx.x) / kWordsOfBlock;
  const int of_pixel = static_cast<int>(blockIdx.y) * kWordsOfBlock + word;
  const int pixels = a.h * a.w;
  wait_for_predecessor();
  std::int32_t sums[kWord] = {};
  if (of_pixel < a.words) {
    const std::int8_t* const from = a.x + static_cast<std::int64_t>(blockIdx.x) * pixels * a.x_pitch + of_pixel * kWord;
    for (int first = slice; first < pixels; first += kSlices * kTogether) {
      std::uint32_t words[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int pixel = first + i * kSlices;
        const std::int8_t* const at = from + static_cast<std::int64_t>(pixel) * a.x_pitch;
        words[i] = pixel < pixels ? *reinterpret_cast<const std::uint32_t*>(at) : 0;
      }
#pragma unroll
      for (const std::uint32_t word_of_pixel : words) add_word(word_of_pixel, sums);
    }
  }
#pragma unroll
  for (int i = 0; i < kWord; ++i) partial[slice][word][i] = sums[i];
  __syncthreads();
  if (slice != 0 || of_pixel >= a.words) return;
  for (int other = 1; other < kSlices; ++other) {
#pragma unroll
    for (int i = 0; i < kWord; ++i) sums[i] += partial[other][word][i];
  }
  *reinterpret_cast<std::uint32_t*>(a.y + static_cast<std::int64_t>(blockIdx.x) * a.y_pitch + of_pixel * kWord) =
      average(a, sums, pixels, pixels);
}

/// Whether each of `out` windows along an axis has a pixel inside.
bool meets_image(int out, int size, int kernel, int stride, int pad) {
  return pad < kernel && std::int64_t{out - 1} * stride - pad < size;
}

bool is_supported(const Int8PoolingParams& p) {
  if (p.n < 0 || p.h < 1 || p.w < 1 || p.c < 1 || p.out_h < 1 || p.out_w < 1 || p.kernel_h < 1 || p.kernel_w < 1 ||
      p.stride_h < 1 || p.stride_w < 1 || p.pad_top < 0 || p.pad_left < 0) {
    return false;
  }
  const auto has_pitch = [&](int pitch) { return pitch >= p.c && pitch % kWord == 0; };
  if (!has_pitch(p.x_pitch) || !has_pitch(p.y_pitch)) return false;
  if (!meets_image(p.out_h, p.h, p.kernel_h, p.stride_h, p.pad_top) ||
      !meets_image(p.out_w, p.w, p.kernel_w, p.stride_w, p.pad_left)) {
    return false;
  }
  if (std::int64_t{p.out_h} * p.out_w > kMaxItems / ceil_div(p.c, kWord)) return false;
  if (std::max(std::int64_t{p.h} + p.kernel_h, std::int64_t{p.w} + p.kernel_w) > kMaxItems) return false;
  if (p.is_max) return true;
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / kMostOfByte;
  return std::int64_t{p.kernel_h} * p.kernel_w <= most && is_scale(p.x_scale) && is_scale(p.y_scale) &&
         is_byte(p.x_zero) && is_valid(p.result);
}

bool is_global(const Int8PoolingParams& p) {
  return !p.is_max && p.out_h == 1 && p.out_w == 1 && p.kernel_h == p.h && p.kernel_w == p.w && p.pad_top == 0 &&
         p.pad_left == 0 && ceil_div(p.c, kWord * kWordsOfBlock) <= kMaxGridYz;
}

}  // namespace

cudaError_t int8_pooling(const Int8PoolingParams& p, const void* x, void* y, const Launch& where) {
  if (!is_supported(p)) return cudaErrorInvalidValue;
  if (p.n == 0) return cudaSuccess;
  Arguments a{};
  a.x = static_cast<const std::int8_t*>(x);
  a.y = static_cast<std::int8_t*>(y);
  a.h = p.h;
  a.w = p.w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.kernel_h = p.kernel_h;
  a.kernel_w = p.kernel_w;
  a.stride_h = p.stride_h;
  a.stride_w = p.stride_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.x_pitch = p.x_pitch;
  a.y_pitch = p.y_pitch;
  a.words = std::min(p.x_pitch, p.y_pitch) / kWord;
  a.words = std::min(a.words, round_up(p.c, kChannelStep) / kWord);
  a.x_zero = p.x_zero;
  a.count_padding = p.count_padding;
  a.x_scale = p.x_scale;
  a.y_scale = p.y_scale;
  a.result = requantize_to(p.result);
  if (is_global(p)) {
    return launch(global_kernel,
                  dim3(static_cast<unsigned>(p.n), static_cast<unsigned>(ceil_div(a.words, kWordsOfBlock))),
                  dim3(kThreads), 0, where, a);
  }
  int multiprocessors = 0;
  if (const cudaError_t status = count_multiprocessors(multiprocessors); status != cudaSuccess) return status;
  const std::int64_t wide_threads = std::int64_t{p.n} * p.out_h * p.out_w * (a.words / kWideWords);
  const bool wide = a.words % kWideWords == 0 && p.x_pitch % (kWideWords * kWord) == 0 &&
                    p.y_pitch % (kWideWords * kWord) == 0 && aligned_16(x, y) &&
                    wide_threads >= std::int64_t{multiprocessors} * kLeastThreads;
  const auto kernel = wide ? (p.is_max ? window_kernel<true, kWideWords> : window_kernel<false, kWideWords>)
                           : (p.is_max ? window_kernel<true, 1> : window_kernel<false, 1>);
  return for_each_chunk(p.n, p.out_h, p.out_w, wide ? a.words / kWideWords : a.words,
                        [&](const ItemGrid& items, std::int64_t first) {
                          Arguments of_chunk = a;
                          of_chunk.grid = items;
                          of_chunk.x = a.x + first * p.h * p.w * p.x_pitch;
                          of_chunk.y = a.y + first * p.out_h * p.out_w * p.y_pitch;
                          const auto blocks = (items.items + kMaxItemThreads - 1) / kMaxItemThreads;
                          return launch(kernel, dim3(blocks), dim3(kMaxItemThreads), 0, where, of_chunk);
                        });
}

}  // namespace mobicuda::kernels
