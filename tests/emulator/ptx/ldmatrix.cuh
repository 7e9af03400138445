// kernels/ptx/ldmatrix.cuh for the emulator.
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/lane.cuh"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels::ptx {

struct MatrixRow {
  std::uint32_t row;
  std::uint32_t words[4];
};

/// A lane's two elements of a matrix: row lane / 4, columns lane % 4 * 2 and the next; transposed, columns are rows.
/// Rows have 16 bytes, and addresses that are a multiple of that.
template <bool kTransposed, class Element>
void for_each_element(void* const* operands, int matrix, const Element& element) {
  std::uint16_t* rows[8];
  for (int row = 0; row < 8; ++row) {
    const std::uint32_t address = static_cast<const MatrixRow*>(operands[matrix * 8 + row])->row;
    if (address % 16 != 0) emulator::fail("a row of a matrix that is not aligned");
    rows[row] = static_cast<std::uint16_t*>(emulator::shared_at(address, 16));
  }
  for (int lane = 0; lane < 32; ++lane) {
    std::uint32_t& word = static_cast<MatrixRow*>(operands[lane])->words[matrix];
    for (int half = 0; half < 2; ++half) {
      const int row = kTransposed ? lane % 4 * 2 + half : lane / 4;
      const int column = kTransposed ? lane / 4 : lane % 4 * 2 + half;
      element(rows[row][column], word, 16 * half);
    }
  }
}

template <int kMatrices, bool kTransposed>
void load_matrices(std::uint32_t* words, std::uint32_t row) {
  MatrixRow own{row, {}};
  emulator::meet_in_warp(
      [](void* const* operands) {
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          for_each_element<kTransposed>(operands, matrix, [](std::uint16_t from, std::uint32_t& word, int shift) {
            word |= std::uint32_t{from} << shift;
          });
        }
      },
      &own);
  std::memcpy(words, own.words, kMatrices * sizeof *words);
}

template <int kMatrices, bool kTransposed>
void store_matrices(std::uint32_t row, const std::uint32_t* words) {
  MatrixRow own{row, {}};
  std::memcpy(own.words, words, kMatrices * sizeof *words);
  emulator::meet_in_warp(
      [](void* const* operands) {
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          for_each_element<kTransposed>(operands, matrix, [](std::uint16_t& to, std::uint32_t word, int shift) {
            to = static_cast<std::uint16_t>(word >> shift);
          });
        }
      },
      &own);
  if (lane() < kMatrices * 8) emulator::note_write(row, 16);
}

inline void ldmatrix_x4(std::uint32_t (&words)[4], std::uint32_t row) { load_matrices<4, false>(words, row); }
inline void ldmatrix_x4(std::uint32_t (&words)[4], const unsigned char* row) {
  ldmatrix_x4(words, shared_address(row));
}
inline void ldmatrix_x4_trans(std::uint32_t (&words)[4], const unsigned char* row) {
  load_matrices<4, true>(words, shared_address(row));
}
inline void ldmatrix_x2(std::uint32_t (&words)[2], std::uint32_t row) { load_matrices<2, false>(words, row); }
inline void stmatrix_x4(std::uint32_t row, const std::uint32_t (&words)[4]) { store_matrices<4, false>(row, words); }
inline void stmatrix_x2(std::uint32_t row, const std::uint32_t (&words)[2]) { store_matrices<2, false>(row, words); }
inline void stmatrix_x4_trans(std::uint32_t row, const std::uint32_t (&words)[4]) {
  store_matrices<4, true>(row, words);
}
inline void stmatrix_x2_trans(std::uint32_t row, const std::uint32_t (&words)[4]) {
  store_matrices<2, true>(row, words);
}

}  // namespace mobicuda::kernels::ptx
