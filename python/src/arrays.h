#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <mobicuda/types.h>

namespace mobicuda::python {

/// A tensor of a caller: an array in host memory, or what __dlpack__() gave.
using AnyArray = nanobind::ndarray<nanobind::ro>;
using WritableArray = nanobind::ndarray<>;

/// n images of `image` (N = 1), as arrays name them: extents in the order of memory, without the batch.
struct Wanted {
  const char* role;  ///< "input", "out"
  DType dtype;
  std::vector<std::int64_t> image;
};

/// The extents of one image in the order of memory: (H, W, C) for NHWC.
std::vector<std::int64_t> image_extents(const TensorDesc& desc);
Wanted wanted(const char* role, const TensorDesc& desc);

/// What Python calls the type, e.g. "float32".
const char* dtype_name(DType dtype);

/// Casts an array or a DLPack capsule. Throws TypeError that says what was expected and what was given, and for
/// WritableArray ValueError where the array is read-only.
AnyArray to_array(const Wanted& wanted, nanobind::handle array);
WritableArray to_writable_array(const Wanted& wanted, nanobind::handle array);

/// The number of images, 1 or more. Throws TypeError on another dtype and ValueError on another shape, which say what
/// was expected and what was given.
std::int64_t require_images(const Wanted& wanted, const AnyArray& array);

/// Whether the elements lie in the order of the shape, without gaps.
bool is_dense(const AnyArray& array);
/// Throws ValueError unless they do.
void require_dense(const Wanted& wanted, const AnyArray& array);

/// Throws TypeError where the array is not in memory that the host reads.
void require_host(const Wanted& wanted, const AnyArray& array);

/// Throws TypeError where the array is not in memory of a CUDA device, ValueError where it is in that of another one.
void require_cuda(const Wanted& wanted, const AnyArray& array, int device);

}  // namespace mobicuda::python
