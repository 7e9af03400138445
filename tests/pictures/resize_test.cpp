#include "pictures/prepare/resize.h"

#include <cstdlib>
#include <iterator>
#include <vector>

#include <mobicuda/error.h>

#include "pictures/decode/picture_error.h"
#include "pictures/golden.h"
#include "pictures/picture_support.h"
#include "support/catch.h"

using namespace mobicuda;
using namespace mobicuda::pictures;
using mobicuda::test::GoldenCrop;
using mobicuda::test::patterned_picture;

namespace {

using Bytes = std::vector<std::uint8_t>;

PixelView view_of(const Picture& picture) {
  return oriented_view(picture.rgb.data(), picture.width, picture.height, std::int64_t{picture.width} * 3, kUpright);
}

// The whole picture, resized.
Picture resize(const Picture& source, int width, int height) {
  Picture result{width, height, Bytes(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3)};
  resize_crop(view_of(source), {width, height, 0, 0}, width, height, result.rgb);
  return result;
}

// Byte i is 37 i mod 251: no two neighbours alike.
Picture pattern(int width, int height) {
  Picture picture{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i) picture.rgb.push_back(static_cast<std::uint8_t>(i * 37 % 251));
  return picture;
}

Preprocessing preprocessing(int resize_to, int crop_width, int crop_height) {
  Preprocessing how;
  how.resize_to = resize_to;
  how.crop_width = crop_width;
  how.crop_height = crop_height;
  return how;
}

}  // namespace

TEST_CASE("crops of resized pictures equal Pillow's in every bit", "[resize]") {
  for (const GoldenCrop& golden : test::kGoldenCrops) {
    CAPTURE(golden.width, golden.height, golden.short_side);
    const Preprocessing how = preprocessing(golden.short_side, golden.crop_width, golden.crop_height);
    Bytes crop(how.elements());
    preprocess(patterned_picture(golden.width, golden.height), how, std::span(crop));
    CHECK(test::fnv(crop) == golden.hash);
  }
}

TEST_CASE("of tall pictures, whose columns Pillow filters first, a level may differ", "[resize]") {
  const Picture tall = resize(test::patterned_picture(9, 60), 6, test::kTallHeight);
  REQUIRE(tall.rgb.size() == std::size(test::kTall));
  for (std::size_t i = 0; i < tall.rgb.size(); ++i) CHECK(std::abs(int{tall.rgb[i]} - int{test::kTall[i]}) <= 1);
}

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
  const Preprocessing how = preprocessing(8, 8, 8);
  const CropGeometry landscape = crop_geometry(30, 20, how);
  CHECK(landscape.width == 12);
  CHECK(landscape.height == 8);
  const CropGeometry portrait = crop_geometry(20, 31, how);
  CHECK(portrait.width == 8);
  CHECK(portrait.height == 12);  // 12.4, rounded down
  CHECK_THROWS_AS(crop_geometry(1 << 26, 1, how), PictureError);
}

TEST_CASE("the crop is the middle, an odd margin is larger at the right and below", "[resize]") {
  const CropGeometry crop = crop_geometry(4, 3, preprocessing(3, 1, 2));
  CHECK(crop.left == 1);
  CHECK(crop.top == 0);
  const Picture picture = pattern(4, 3);
  Bytes out(6);
  preprocess(picture, preprocessing(3, 1, 2), std::span(out));
  const std::size_t at = 1 * 3;  // row 0, column 1
  CHECK(out == Bytes{picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2], picture.rgb[at + 12],
                     picture.rgb[at + 13], picture.rgb[at + 14]});
  CHECK_THROWS_AS(preprocess(picture, preprocessing(3, 5, 3), std::span(out)), Error);
}
