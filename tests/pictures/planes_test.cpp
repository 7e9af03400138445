// Colours of YCbCr planes against libjpeg-turbo's.
#include "pictures/prepare/planes.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <turbojpeg.h>

#include "pictures/decode/orientation.h"
#include "pictures/picture_support.h"
#include "support/catch.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

namespace {

// The planes of a JPEG file, as libjpeg-turbo (accurate DCT) decodes them.
struct DecodedPlanes {
  std::vector<std::uint8_t> bytes[3];
  Planes planes;  // of `bytes`
};

DecodedPlanes planes_of(std::span<const std::uint8_t> jpeg) {
  constexpr int kBetweenRows = 5;  // bytes that are no pixels
  void* const handle = tjInitDecompress();
  const auto size = static_cast<unsigned long>(jpeg.size());
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  DecodedPlanes result;
  unsigned char* planes[3] = {};
  int pitches[3] = {};
  bool decoded = tjDecompressHeader3(handle, jpeg.data(), size, &width, &height, &subsampling, &colours) == 0;
  for (int i = 0; decoded && i < (subsampling == TJSAMP_GRAY ? 1 : 3); ++i) {
    pitches[i] = tjPlaneWidth(i, width, subsampling) + kBetweenRows;
    result.bytes[i].resize(static_cast<std::size_t>(pitches[i]) *
                           static_cast<std::size_t>(tjPlaneHeight(i, height, subsampling)));
    planes[i] = result.bytes[i].data();
  }
  decoded = decoded &&
            tjDecompressToYUVPlanes(handle, jpeg.data(), size, planes, width, pitches, height, TJFLAG_ACCURATEDCT) == 0;
  tjDestroy(handle);
  if (!decoded) throw std::runtime_error("libjpeg-turbo does not decode a picture of a test");
  result.planes.luma = planes[0];
  result.planes.cb = planes[1];
  result.planes.cr = planes[2];
  result.planes.luma_pitch = pitches[0];
  result.planes.chroma_pitch = pitches[1];
  result.planes.width = width;
  result.planes.height = height;
  result.planes.across = subsampling == TJSAMP_422 || subsampling == TJSAMP_420 ? 2 : 1;
  result.planes.down = subsampling == TJSAMP_440 || subsampling == TJSAMP_420 ? 2 : 1;
  return result;
}

}  // namespace

TEST_CASE("planes become the pixels that libjpeg-turbo makes of them, in every bit", "[planes]") {
  for (const int subsampling : {0, 1, 2, 3, 4}) {
    for (const int width : {1, 2, 3, 4, 5, 6, 7, 16, 33, 70}) {
      for (const int height : {1, 2, 3, 4, 5, 17, 32, 45}) {
        CAPTURE(subsampling, width, height);
        test::JpegOptions options;
        options.subsampling = subsampling;
        options.quality = 97;
        const std::string file = test::jpeg_file(test::patterned_picture(width, height), options);
        const DecodedPlanes decoded = planes_of(test::span_of(file));
        CHECK(copied(oriented_view(decoded.planes, kUpright)).rgb == decode_picture(test::span_of(file)).rgb);
      }
    }
  }
}

TEST_CASE("planes are seen turned as interleaved pixels are", "[planes]") {
  for (const int subsampling : {0, 1, 2, 3, 4}) {
    test::JpegOptions options;
    options.subsampling = subsampling;
    const std::string file = test::jpeg_file(test::patterned_picture(37, 22), options);
    const DecodedPlanes decoded = planes_of(test::span_of(file));
    const Picture stored = decode_picture(test::span_of(file));
    for (ExifOrientation orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(subsampling, orientation);
      const Picture expected = copied(
          oriented_view(stored.rgb.data(), stored.width, stored.height, std::int64_t{3} * stored.width, orientation));
      const Picture seen = copied(oriented_view(decoded.planes, orientation));
      CHECK(seen.width == expected.width);
      CHECK(seen.height == expected.height);
      CHECK(seen.rgb == expected.rgb);
    }
  }
}

TEST_CASE("colours are converted in libjpeg-turbo's fixed point", "[planes]") {
  const auto is = [](const Rgb& rgb, int red, int green, int blue) {
    return rgb.red == red && rgb.green == green && rgb.blue == blue;
  };
  CHECK(is(rgb_of(77, 128, 128), 77, 77, 77));
  CHECK(is(rgb_of(76, 85, 255), 254, 0, 0));   // red
  CHECK(is(rgb_of(150, 44, 21), 0, 255, 1));   // green
  CHECK(is(rgb_of(29, 255, 107), 0, 0, 254));  // blue
  CHECK(is(rgb_of(255, 255, 255), 255, 121, 255));
  CHECK(is(rgb_of(0, 0, 0), 0, 135, 0));
}
