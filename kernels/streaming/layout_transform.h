// layout_transform changes NCHW to NHWC or back and float to half or double or back in one pass; convert_pictures makes
// floats of images of bytes; pad surrounds images with pixels; transpose permutes four axes. h * w < 2^31.
//
// layout_transform: equal orders, one pixel or one channel make it a conversion, of packets where pointers are 16-byte
// aligned. To half it rounds to nearest even; what is too large becomes infinity.
// convert_pictures: for networks whose first kernel does not read bytes itself (conv2d's stems and stem_block do).
// pad: 16-byte words where the channels fill such words, else elements. Around the image stands a value, its nearest
// pixel (Edge), or the image mirrored at its border's pixels (Reflect).
// transpose: contiguous writes, strided reads; 16-byte words where the last axis stays and fills them. Networks rarely
// keep a transpose after the layout pass; the common ones are cheaper as layout_transform.
//
// Error: they move data, so that results are determined to the last bit.
#pragma once

#include <cstdint>

#include "kernels/common/launch.h"

namespace mobicuda::kernels {

/// Changes the order (NCHW <-> NHWC) and the storage type of a 4-D tensor at once. With equal layouts,
/// or h = w = 1, it is a conversion only. Not between F16 and F64.
struct LayoutTransformParams {
  Elem from = Elem::F32;
  Elem to = Elem::F32;
  bool from_nhwc = false;
  bool to_nhwc = true;
  int n = 0, c = 0, h = 0, w = 0;
};

cudaError_t layout_transform(const LayoutTransformParams& params, const void* x, void* y, const Launch& where);

/// Images of bytes, NHWC, to float: y = x * scale + shift of each channel.
struct ConvertPicturesParams {
  bool to_nhwc = false;
  int n = 0, c = 0, h = 0, w = 0;  ///< c of at most 4
  float scale[4] = {1.0F, 1.0F, 1.0F, 1.0F};
  float shift[4] = {0.0F, 0.0F, 0.0F, 0.0F};
};

/// y is float, NCHW or NHWC.
cudaError_t convert_pictures(const ConvertPicturesParams& params, const void* x, void* y, const Launch& where);

/// Pixels around an image: `value`, the border's nearest, or the image mirrored at its border's pixels.
enum class PadMode : std::uint8_t { Constant, Edge, Reflect };

/// Surrounds each image of an NHWC tensor.
struct PadParams {
  Elem elem = Elem::F32;
  int n = 0, h = 0, w = 0, c = 0;
  int top = 0, left = 0, bottom = 0, right = 0;
  float value = 0.0F;
  PadMode mode = PadMode::Constant;  ///< Edge: h, w > 0. Reflect: sides smaller than h and w
};

cudaError_t pad(const PadParams& params, const void* x, void* y, const Launch& where);

/// y = x with axes permuted: y's axis i is x's axis permutation[i]; rank 4, row-major.
struct TransposeParams {
  Elem elem = Elem::F32;
  int shape[4] = {1, 1, 1, 1};  ///< of x
  int permutation[4] = {0, 1, 2, 3};
};

cudaError_t transpose(const TransposeParams& params, const void* x, void* y, const Launch& where);

}  // namespace mobicuda::kernels
