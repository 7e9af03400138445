#include <cstdlib>

#include <mobicuda/picture_preparation.h>

#include "fuzz/target.h"
#include "pictures/decode/jpeg_header.h"

namespace mobicuda::fuzz {
namespace {

namespace pic = pictures;

constexpr std::int64_t kMostPixels = 1 << 16;

bool run(Bytes input) {
  if (const auto header = pic::read_jpeg_header(input)) {
    pic::fit_for_nvjpeg(*header);
    if (!pic::is_jpeg(input)) fail("a header of what is no JPEG file");
  }
  if (const int turned = pic::png_orientation(input); turned < 1 || turned > 8) fail("an orientation out of range");
  pic::DecodeOptions options;
  options.max_pixels = kMostPixels;
  options.max_bytes = 1 << 20;
  return returns([&] {
    const pic::Picture seen = pic::decode_picture(input, options);
    const auto pixels = std::int64_t{seen.width} * seen.height;
    if (pixels < 1 || pixels > kMostPixels) fail("more pixels than the limit");
    if (seen.rgb.size() != static_cast<std::size_t>(pixels) * 3) fail("a picture that contradicts itself");
    options.orientation = pic::Orientation::Ignore;
    const pic::Picture stored = pic::decode_picture(input, options);
    if (stored.rgb.size() != seen.rgb.size()) fail("turning changed the number of pixels");
    pic::Preprocessing how;
    how.resize_to = 9;
    how.crop_width = 8;
    how.crop_height = 7;
    std::vector<float> prepared(how.elements());
    pic::preprocess(seen, how, prepared);
  });
}

}  // namespace

Target picture() { return {run}; }

}  // namespace mobicuda::fuzz
