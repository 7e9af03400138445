// Pointwise convolutions, which two kernels run: conv2d, and gemm, to which they are the product alone.
#pragma once

#include "kernels/conv2d/conv2d.h"
#include "kernels/gemm/gemm.h"

namespace mobicuda {

/// What a layer reads: n images of h x w pixels.
struct LayerImages {
  kernels::Elem elem = kernels::Elem::F32;
  int n = 0, h = 0, w = 0;
};

/// Images of which only the number of pixels is known are as square as that allows: few times depend on it, and those
/// of square images are the network's own.
LayerImages images_of_pixels(kernels::Elem elem, int n, int pixels);

/// With a bias.
kernels::Conv2dParams pointwise_layer(const LayerImages& images, int c_in, int c_out);

/// Whether gemm runs it too: each output pixel is of its own input pixel, in elem.
bool is_pointwise(const kernels::Conv2dParams& params);

/// A pointwise convolution as gemm has it, of dense rows.
kernels::GemmParams product_of(const kernels::Conv2dParams& pointwise);

}  // namespace mobicuda
