#include "bench_engine/pictures/resize.h"

#include <stdexcept>

#include "support/catch.h"

using namespace mobicuda::bench;

namespace {

// Byte i is 37 i mod 251: no two neighbours alike.
Picture pattern(int width, int height) {
  Picture picture{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i) picture.rgb.push_back(static_cast<std::uint8_t>(i * 37 % 251));
  return picture;
}

using Bytes = std::vector<std::uint8_t>;

}  // namespace

// The expected bytes of these tests are what Pillow 13's Image.resize(BILINEAR) gives for the same pattern.
TEST_CASE("shrinking equals Pillow's bilinear filter", "[resize]") {
  const Picture small = resize(pattern(7, 5), 3, 2);
  CHECK(small.width == 3);
  CHECK(small.height == 2);
  CHECK(small.rgb == Bytes{104, 102, 134, 146, 103, 120, 145, 143, 106, 115, 150, 109, 114, 132, 125, 127, 113, 125});
}

TEST_CASE("growing equals Pillow's bilinear filter", "[resize]") {
  const Picture large = resize(pattern(2, 2), 5, 3);
  CHECK(large.rgb == Bytes{0,   37, 74, 11,  48, 85, 56,  93, 130, 100, 137, 174, 111, 148, 185,
                           111, 23, 60, 110, 34, 71, 104, 79, 116, 98,  123, 160, 97,  134, 171,
                           222, 8,  45, 208, 19, 56, 152, 64, 101, 96,  108, 145, 82,  119, 156});
}

TEST_CASE("a direction that keeps its size is not filtered", "[resize]") {
  CHECK(resize(pattern(6, 4), 6, 4).rgb == pattern(6, 4).rgb);
  CHECK(resize(pattern(6, 4), 6, 2).rgb == Bytes{81,  118, 155, 85,  122, 123, 160, 89,  126, 163, 93,  130,
                                                 131, 168, 97,  134, 64,  101, 160, 89,  126, 127, 164, 94,
                                                 131, 168, 97,  134, 135, 172, 102, 139, 68,  105, 106, 143});
}

TEST_CASE("the short side gets the size asked for, the long one keeps the aspect", "[resize]") {
  const Picture landscape = resize_short_side(pattern(30, 20), 8);
  CHECK(landscape.width == 12);
  CHECK(landscape.height == 8);
  const Picture portrait = resize_short_side(pattern(20, 31), 8);
  CHECK(portrait.width == 8);
  CHECK(portrait.height == 12);  // 12.4, rounded down
  CHECK(resize_short_side(pattern(9, 8), 8).rgb == pattern(9, 8).rgb);
}

TEST_CASE("the crop is the middle, an odd margin is larger at the right and below", "[resize]") {
  const Picture picture = pattern(4, 3);
  const Picture crop = centre_crop(picture, 1, 1);
  const std::size_t at = (1 * 4 + 1) * 3;  // row 1, column 1
  CHECK(crop.rgb == Bytes(picture.rgb.begin() + at, picture.rgb.begin() + at + 3));
  CHECK(centre_crop(picture, 4, 3).rgb == picture.rgb);
  CHECK_THROWS_AS(centre_crop(picture, 5, 3), std::invalid_argument);
}
