#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "pictures/gpu/nvjpeg.h"

namespace mobicuda::pictures {

/// Of which pictures a part of nvJPEG gives planes as libjpeg-turbo does, but for the rounding of the DCT, or RGB that
/// is a few levels from it. Decodes a small picture of each kind, so that what a version or a GPU does otherwise, or
/// not at all, is seen before it matters. The device is current.
std::bitset<kSamplings> try_output(const std::shared_ptr<const Nvjpeg>& nvjpeg, NvjpegPart part, NvjpegOutput output);

/// A JPEG file of 4:2:0 as data sets have them, of much detail; empty where libjpeg-turbo makes none.
std::vector<std::uint8_t> usual_file();

}  // namespace mobicuda::pictures
