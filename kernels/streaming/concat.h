// Copies the rows of up to 16 matrices into columns of one. Joining values along any axis is such a copy (NHWC: along
// channels the rows are pixels, along the height they are images), and so is cutting a slice out: one part whose pitch
// is that of the wider value. Columns that no part has are left alone, so that a part may be written on its own.
//
// It moves bytes, whatever the element type, in the largest words (16, 8, 4, 2 bytes) that divide all widths, pitches
// and addresses. The addresses of all parts are kernel parameters: one launch does for a whole module of an Inception
// network.
//
// Error: none; tests compare the bits.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

inline constexpr int kMostConcatParts = 16;

/// y[r, first_i + j] = x_i[r, j] for j in [0, columns_i): copies the rows of several matrices into columns of one. With
/// one part whose pitch is larger than its columns, it cuts columns out.
struct ConcatParams {
  struct Part {
    std::int64_t columns = 0;
    std::int64_t pitch = 0;  ///< elements from a row of x_i to the next, >= columns
    std::int64_t first = 0;  ///< column of y
  };
  Elem elem = Elem::F32;
  std::int64_t rows = 0;
  std::int64_t pitch = 0;  ///< elements from a row of y to the next
  int parts = 0;           ///< at most kMostConcatParts
  Part part[kMostConcatParts];
};

/// Columns of y that no part has are left as they are. Parts must not overlap.
cudaError_t concat(const ConcatParams& params, const void* const* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
