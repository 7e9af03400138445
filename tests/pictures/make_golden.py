#!/usr/bin/env python3
"""Prints golden.h: what Pillow makes of pictures. Needs Pillow and NumPy."""
import numpy
import PIL
from PIL import Image, ImageOps

# width, height, short side, crop's width and height
CASES = [(500, 375, 256, 224, 224), (375, 500, 256, 224, 224), (256, 256, 256, 224, 224), (341, 256, 256, 224, 224),
         (31, 77, 256, 224, 192), (1, 1, 64, 64, 64), (2, 3, 40, 33, 17), (1201, 803, 256, 224, 224),
         (2500, 1900, 96, 96, 96), (3000, 2600, 64, 40, 30), (224, 224, 256, 256, 256), (4000, 50, 50, 49, 50)]


def pattern(width, height):
    """Byte i of a linear congruential generator's high bits, as the C++ tests compute it."""
    count = width * height * 3
    i = numpy.arange(count, dtype=numpy.uint64)
    mixed = (i * numpy.uint64(2654435761) + numpy.uint64(width * 31 + height)) & numpy.uint64(0xFFFFFFFF)
    return ((mixed >> numpy.uint64(13)) & numpy.uint64(0xFF)).astype(numpy.uint8).reshape(height, width, 3)


def resized(picture, short):
    width, height = picture.size
    size = (short, short * height // width) if width <= height else (short * width // height, short)
    return picture.resize(size, Image.Resampling.BILINEAR)


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


print(f"""// What Pillow {PIL.__version__} gives: written by make_golden.py.
#pragma once

#include <cstdint>

namespace mobicuda::test {{

struct GoldenCrop {{
  int width, height;  ///< of patterned_picture()
  int short_side;
  int crop_width, crop_height;
  std::uint64_t hash;  ///< of the crop's bytes: FNV-1a
}};

inline constexpr GoldenCrop kGoldenCrops[] = {{""")
for width, height, short, crop_width, crop_height in CASES:
    picture = Image.fromarray(pattern(width, height))
    whole = resized(picture, short)
    left, top = (whole.width - crop_width) // 2, (whole.height - crop_height) // 2
    crop = whole.crop((left, top, left + crop_width, top + crop_height))
    print(f"    {{{width}, {height}, {short}, {crop_width}, {crop_height}, 0x{fnv(crop.tobytes()):016X}}},")

quarters = numpy.zeros((2, 2, 3), numpy.uint8)
quarters[0, 0], quarters[0, 1], quarters[1, 0], quarters[1, 1] = (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0)
print("};\n")
# Tall: Pillow filters columns first, where it takes fewer products.
tall = resized(Image.fromarray(pattern(9, 60)), 6)
print("// patterned_picture(9, 60), its short side 6.")
print(f"inline constexpr int kTallHeight = {tall.height};")
print(f"inline constexpr std::uint8_t kTall[] = {{{', '.join(str(byte) for byte in tall.tobytes())}}};\n")
print("// Quarters 1 2 / 3 4 of a picture, as exif_transpose() turns them: upper left, upper right, lower left, lower right.")
print("inline constexpr int kTurnedQuarters[8][4] = {")
for orientation in range(1, 9):
    picture = Image.fromarray(quarters)
    picture.getexif()[0x0112] = orientation
    turned = numpy.asarray(ImageOps.exif_transpose(picture))[:, :, 0].reshape(-1)
    print("    {" + ", ".join(str(one) for one in turned) + "},")
print("};\n\n}  // namespace mobicuda::test")
