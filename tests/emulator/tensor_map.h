// Copies by tensor maps: what the driver encodes, and which elements a copy moves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda.h>

namespace mobicuda::emulator {

inline constexpr std::size_t kMostDimensions = 5;

/// What one copy moves, run by run.
struct TensorCopy {
  std::vector<unsigned char*> elements;  ///< in global memory, of 2 bytes, rows one after the other; null: zero
  std::size_t row_bytes = 0;             ///< in shared memory
  bool swizzled = false;                 ///< by 128 bytes

  std::size_t bytes() const { return elements.size() * 2; }
};

/// What a CUtensorMap holds here: a tensor of halves, and what a copy takes of it.
struct TensorMap {
  std::uint32_t known = 0;  ///< kKnown, once encoded
  std::uint8_t rank = 0;
  bool im2col = false;
  bool swizzled = false;
  std::uint64_t address = 0;
  std::array<std::uint32_t, kMostDimensions> last{};       ///< extents - 1, the contiguous dimension first
  std::array<std::uint64_t, kMostDimensions - 1> pitch{};  ///< bytes, from the second dimension on
  std::array<std::uint16_t, kMostDimensions> box{};        ///< of windows: channels and pixels
  std::array<std::uint8_t, kMostDimensions> steps{};
  std::array<std::int16_t, 2> first_window{}, last_window{};  ///< x and y, from the image's first and last pixel

  static constexpr std::uint32_t kKnown = 0x7E50A4A9;

  /// A box whose first element is there.
  TensorCopy elements_at(const int* first, std::size_t dimensions) const;
  template <std::size_t kDimensions>
  TensorCopy box_at(const int (&first)[kDimensions]) const {
    return elements_at(first, kDimensions);
  }
  /// Of neighbouring windows, the first one at (channel, x, y, n), the pixels at a tap.
  TensorCopy windows_at(const int (&first)[4], int tap_x, int tap_y) const;

 private:
  unsigned char* element(const std::array<std::int64_t, kMostDimensions>& at) const;
};

/// Fails where it is not encoded.
TensorMap map_of(const CUtensorMap& map);

/// To the same place in the first `blocks` blocks of the cluster, counted by the barriers there; of one, the own block.
void copy_tensor(const TensorCopy& copy, std::uint32_t to, std::uint32_t barrier, int blocks);
void copy_tensor_out(const TensorCopy& copy, std::uint32_t from);

/// A function of the driver that encodes maps; null: there is none of that name.
void* find_encoder(const char* name);

}  // namespace mobicuda::emulator
