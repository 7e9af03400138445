// resize_batch: crop, antialiased bilinear resize and placement into a network's input, for pictures of any sizes in
// one launch; the arithmetic of pictures/prepare/resize.h, bit for bit. A block computes a tile of the result, 16 rows
// of 64 pixels:
//
//   windows   a thread each: which source pixels the tile's columns and rows are made of, in double, and their weights
//   colours   of a picture in YCbCr planes: the source rows that the tile is made of, as many as fit, become RGB in
//             shared memory (pictures/prepare/planes.h), each pixel once
//   rows      source rows of the tile, filtered along the row, as bytes into shared memory; a thread has one channel of
//             one column
//   columns   the same thread adds up its column's 16 sums; then the next rows, where not all fit into shared memory
//   store     bytes HWC, or floats through (byte / divisor - mean) / deviation
//
// Nothing but the pixels of the crop's windows is read; rows and columns between two tiles, of each a window's width,
// are read by both. Where windows are so large that weights do not fit into shared memory (a reduction by more than
// kMostStoredTaps / 2), they are computed at each use; where not even one row of a tile's source pixels fits (by more
// than about 60), so is each pixel's colour.
//
// fill_marks and check_marks: whether a decoder wrote a picture. Its memory is filled beforehand with bytes that depend
// on their place, so that neighbouring bytes get their marks again by chance only (2^-32 for four of them); afterwards
// 32 places of each plane are looked at.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "pictures/prepare/pixel_value.h"
#include "pictures/prepare/planes.h"

namespace mobicuda::pictures {

/// One picture on its way: what is seen of it, interleaved (PixelView) or in planes, CropGeometry, and where its
/// numbers go.
struct ResizeTask {
  const std::uint8_t* origin;  ///< null: `planes` have the pixels
  std::int64_t step_x, step_y;
  PlanesView planes;
  int source_width, source_height;
  int width, height;  ///< of the resized picture
  int left, top;      ///< of the crop in it
  void* out;          ///< crop_width x crop_height x 3 bytes or floats
};

enum class ResizeOutput : std::uint8_t { Bytes, FloatsNchw, FloatsNhwc };

/// What the tasks of a launch share.
struct ResizeParams {
  int tasks;
  int crop_width, crop_height;
  ResizeOutput output;
  PixelScale scale;  ///< of floats
  int most_taps;     ///< of all tasks and both axes: most_taps(), at least 3
  bool planar;       ///< whether there are tasks with planes
};

inline constexpr int kMostStoredTaps = 64;

/// `tasks` are in memory that the GPU reads. Asynchronous; cudaErrorInvalidValue on sizes below 1.
cudaError_t resize_batch(const ResizeParams& params, const ResizeTask* tasks, cudaStream_t stream);

/// Fills `bytes` of `memory` with marks; both multiples of 16. Asynchronous.
cudaError_t fill_marks(std::uint8_t* memory, std::int64_t bytes, cudaStream_t stream);

/// Memory that a decoder was to write: rows of bytes, `pitch` apart.
struct MarkedPlane {
  const std::uint8_t* bytes;  ///< in the memory that was filled
  int row_bytes, rows, pitch;
};

/// Where a decoder was to write a picture: one plane of interleaved pixels, or up to three.
struct MarkedPicture {
  const std::uint8_t* memory;  ///< that was filled
  MarkedPlane planes[3];
  int count;  ///< of planes
};

/// missing[i]: places of picture i that still have their marks, of the 32 that are looked at. `pictures` are in memory
/// that the GPU reads, `missing` in memory that it writes. Asynchronous.
cudaError_t check_marks(int count, const MarkedPicture* pictures, std::uint32_t* missing, cudaStream_t stream);

}  // namespace mobicuda::pictures
