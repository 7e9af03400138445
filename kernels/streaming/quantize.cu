// A thread takes four channels of a pixel. Where numbers are NCHW, neighbouring threads take neighbouring pixels, so
// that they read or write rows of a plane; else neighbouring channels. A picture, NCHW and with pixels of four bytes,
// is read and written 16 bytes at a time, four pixels a thread.
#include "kernels/streaming/quantize.h"

#include "kernels/common/fast_division.cuh"
#include "kernels/common/packet.cuh"
#include "kernels/common/requantize.cuh"
#include "kernels/ptx/dependent_launch.cuh"

namespace mobicuda::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWord = 4;
constexpr std::int64_t kMostWords = 1LL << 30;

/// Where a thread's word lies.
struct Words {
  FastDivision words;   ///< of a pixel
  FastDivision pixels;  ///< of an image
  std::uint32_t count;
  bool pixels_first;
};

struct Place {
  std::uint32_t image, pixel, word;
};

__device__ __forceinline__ Place place_of(const Words& at, std::uint32_t index) {
  Place place;
  if (at.pixels_first) {
    const std::uint32_t rest = at.pixels.divide(index, place.pixel);
    place.image = at.words.divide(rest, place.word);
  } else {
    const std::uint32_t rest = at.words.divide(index, place.word);
    place.image = at.pixels.divide(rest, place.pixel);
  }
  return place;
}

/// Of c channels with a pitch, calls body(words, first image) for as many images at a time as a launch holds.
template <class Body>
cudaError_t for_words(int n, int pixels, int pitch, bool pixels_first, const Body& body) {
  const std::int64_t each = std::int64_t{pixels} * (pitch / kWord);
  if (n == 0 || each == 0) return cudaSuccess;
  const std::int64_t images = kMostWords / each;
  for (std::int64_t first = 0; first < n; first += images) {
    const std::int64_t count = (n - first < images ? n - first : images) * each;
    const Words words{FastDivision(static_cast<std::uint32_t>(pitch / kWord)),
                      FastDivision(static_cast<std::uint32_t>(pixels)), static_cast<std::uint32_t>(count),
                      pixels_first};
    if (const cudaError_t status = body(words, first); status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

dim3 grid_of(const Words& words) { return {(words.count + kThreads - 1) / kThreads}; }

bool has_pitch(int pitch, int c) { return pitch >= c && pitch % kWord == 0; }
bool has_sizes(int n, int pixels, int c, int pitch) {
  return n >= 0 && pixels >= 0 && c >= 1 && has_pitch(pitch, c) && std::int64_t{pixels} * (pitch / kWord) <= kMostWords;
}

/// The offset of channel c of a pixel of numbers.
__device__ __forceinline__ std::size_t number_at(bool nchw, const Place& place, std::uint32_t c, std::uint32_t channels,
                                                 std::uint32_t pixels) {
  const auto image = static_cast<std::size_t>(place.image) * channels * pixels;
  return image + (nchw ? static_cast<std::size_t>(c) * pixels + place.pixel
                       : static_cast<std::size_t>(place.pixel) * channels + c);
}

struct Numbers {
  bool nchw;
  std::uint32_t channels, pixels;
  int pitch;
};

__device__ __forceinline__ std::size_t word_at(const Place& place, std::uint32_t pixels, int pitch) {
  return (static_cast<std::size_t>(place.image) * pixels + place.pixel) * static_cast<std::size_t>(pitch) +
         static_cast<std::size_t>(place.word) * kWord;
}

__global__ void __launch_bounds__(kThreads) quantize_kernel(const Words words, const Numbers numbers, float scale,
                                                            Requantize to, const float* x, std::int8_t* y) {
  wait_for_predecessor();
  const std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= words.count) return;
  const Place place = place_of(words, index);
  float rounded[kWord];
#pragma unroll
  for (int i = 0; i < kWord; ++i) {
    const std::uint32_t c = place.word * kWord + static_cast<std::uint32_t>(i);
    const float value =
        c < numbers.channels ? x[number_at(numbers.nchw, place, c, numbers.channels, numbers.pixels)] : 0.0F;
    rounded[i] = round_clipped(to, ptx::divide_rounded(value, scale));
  }
  *reinterpret_cast<std::uint32_t*>(y + word_at(place, numbers.pixels, numbers.pitch)) =
      pack_bytes(to, rounded[0], rounded[1], rounded[2], rounded[3]);
}

/// Of images of kWord * `groups` pixels of four bytes.
template <int kChannels>
__global__ void __launch_bounds__(kThreads)
    quantize_picture_kernel(const FastDivision groups, std::uint32_t count, std::uint32_t pixels, float scale,
                            Requantize to, const float* x, std::int8_t* y) {
  wait_for_predecessor();
  const std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= count) return;
  std::uint32_t group;
  const std::uint32_t image = groups.divide(index, group);
  const float* const from = x + static_cast<std::size_t>(image) * kChannels * pixels + group * kWord;
  Packet<float, kWord> planes[kWord]{};
#pragma unroll
  for (int c = 0; c < kChannels; ++c) planes[c] = load<kWord>(from + static_cast<std::size_t>(c) * pixels);
  Packet<std::uint32_t, kWord> bytes;
#pragma unroll
  for (int pixel = 0; pixel < kWord; ++pixel) {
    float rounded[kWord];
#pragma unroll
    for (int c = 0; c < kWord; ++c) {
      const float v = c < kChannels ? ptx::divide_rounded(planes[c].item[pixel], scale) : 0.0F;
      rounded[c] = round_clipped(to, v);
    }
    bytes.item[pixel] = pack_bytes(to, rounded[0], rounded[1], rounded[2], rounded[3]);
  }
  const std::size_t at = (static_cast<std::size_t>(image) * pixels + group * kWord) * kWord;
  store(reinterpret_cast<std::uint32_t*>(y + at), bytes);
}

__global__ void __launch_bounds__(kThreads) dequantize_kernel(const Words words, const Numbers numbers, float scale,
                                                              float offset, const std::int8_t* x, float* y) {
  wait_for_predecessor();
  const std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= words.count) return;
  const Place place = place_of(words, index);
  const std::uint32_t biased =
      *reinterpret_cast<const std::uint32_t*>(x + word_at(place, numbers.pixels, numbers.pitch)) ^ kSignsOfBytes;
  const float wholes[kWord] = {whole_of_byte<0>(biased, offset), whole_of_byte<1>(biased, offset),
                               whole_of_byte<2>(biased, offset), whole_of_byte<3>(biased, offset)};
#pragma unroll
  for (int i = 0; i < kWord; ++i) {
    const std::uint32_t c = place.word * kWord + static_cast<std::uint32_t>(i);
    if (c >= numbers.channels) break;
    y[number_at(numbers.nchw, place, c, numbers.channels, numbers.pixels)] = ptx::multiply_rounded(wholes[i], scale);
  }
}

__global__ void __launch_bounds__(kThreads)
    requantize_kernel(const Words words, std::uint32_t pixels, int c, int x_pitch, int y_pitch, float scale,
                      float offset, Requantize to, const std::int8_t* x, std::int8_t* y) {
  wait_for_predecessor();
  const std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= words.count) return;
  const Place place = place_of(words, index);
  const bool has_channels = static_cast<int>(place.word) * kWord < c;
  const std::uint32_t biased =
      has_channels ? *reinterpret_cast<const std::uint32_t*>(x + word_at(place, pixels, x_pitch)) ^ kSignsOfBytes : 0;
  const float wholes[kWord] = {whole_of_byte<0>(biased, offset), whole_of_byte<1>(biased, offset),
                               whole_of_byte<2>(biased, offset), whole_of_byte<3>(biased, offset)};
  float rounded[kWord];
#pragma unroll
  for (int i = 0; i < kWord; ++i) {
    const bool is_channel = static_cast<int>(place.word) * kWord + i < c;
    rounded[i] = round_clipped(to, is_channel ? ptx::multiply_rounded(wholes[i], scale) : 0.0F);
  }
  *reinterpret_cast<std::uint32_t*>(y + word_at(place, pixels, y_pitch)) =
      pack_bytes(to, rounded[0], rounded[1], rounded[2], rounded[3]);
}

cudaError_t quantize_pictures(const QuantizeParams& p, const float* x, std::int8_t* y, const Launch& where) {
  constexpr decltype(&quantize_picture_kernel<1>) kKernels[] = {quantize_picture_kernel<1>, quantize_picture_kernel<2>,
                                                                quantize_picture_kernel<3>, quantize_picture_kernel<4>};
  const int groups = p.pixels / kWord;
  return for_words(p.n, groups, kWord, true, [&](const Words& words, std::int64_t first) {
    return launch(kKernels[p.c - 1], grid_of(words), dim3(kThreads), 0, where,
                  FastDivision(static_cast<std::uint32_t>(groups)), words.count, static_cast<std::uint32_t>(p.pixels),
                  p.scale, requantize_to(p.result), x + first * p.pixels * p.c, y + first * p.pixels * kWord);
  });
}

}  // namespace

cudaError_t quantize(const QuantizeParams& p, const float* x, void* y, const Launch& where) {
  if (!has_sizes(p.n, p.pixels, p.c, p.y_pitch) || !is_scale(p.scale) || !is_valid(p.result)) {
    return cudaErrorInvalidValue;
  }
  if (p.nchw && p.y_pitch == kWord && p.pixels % kWord == 0 && aligned_16(x, static_cast<const std::int8_t*>(y))) {
    return quantize_pictures(p, x, static_cast<std::int8_t*>(y), where);
  }
  const Numbers numbers{p.nchw, static_cast<std::uint32_t>(p.c), static_cast<std::uint32_t>(p.pixels), p.y_pitch};
  return for_words(p.n, p.pixels, p.y_pitch, p.nchw, [&](const Words& words, std::int64_t first) {
    return launch(quantize_kernel, grid_of(words), dim3(kThreads), 0, where, words, numbers, p.scale,
                  requantize_to(p.result), x + first * p.pixels * p.c,
                  static_cast<std::int8_t*>(y) + first * p.pixels * p.y_pitch);
  });
}

cudaError_t dequantize(const DequantizeParams& p, const void* x, float* y, const Launch& where) {
  if (!has_sizes(p.n, p.pixels, p.c, p.x_pitch) || !is_scale(p.scale) || !is_byte(p.zero_point)) {
    return cudaErrorInvalidValue;
  }
  const Numbers numbers{p.nchw, static_cast<std::uint32_t>(p.c), static_cast<std::uint32_t>(p.pixels), p.x_pitch};
  return for_words(p.n, p.pixels, p.x_pitch, p.nchw, [&](const Words& words, std::int64_t first) {
    return launch(dequantize_kernel, grid_of(words), dim3(kThreads), 0, where, words, numbers, p.scale,
                  offset_of_zero(p.zero_point), static_cast<const std::int8_t*>(x) + first * p.pixels * p.x_pitch,
                  y + first * p.pixels * p.c);
  });
}

cudaError_t requantize(const RequantizeParams& p, const void* x, void* y, const Launch& where) {
  if (!has_sizes(p.n, p.pixels, p.c, p.y_pitch) || !has_pitch(p.x_pitch, p.c) || !is_scale(p.scale) ||
      !is_byte(p.x_zero) || !is_valid(p.result)) {
    return cudaErrorInvalidValue;
  }
  return for_words(p.n, p.pixels, p.y_pitch, false, [&](const Words& words, std::int64_t first) {
    return launch(requantize_kernel, grid_of(words), dim3(kThreads), 0, where, words,
                  static_cast<std::uint32_t>(p.pixels), p.c, p.x_pitch, p.y_pitch, p.scale, offset_of_zero(p.x_zero),
                  requantize_to(p.result), static_cast<const std::int8_t*>(x) + first * p.pixels * p.x_pitch,
                  static_cast<std::int8_t*>(y) + first * p.pixels * p.y_pitch);
  });
}

}  // namespace mobicuda::kernels
