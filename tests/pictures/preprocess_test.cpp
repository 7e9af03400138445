#include <cmath>
#include <vector>

#include <mobicuda/error.h>
#include <mobicuda/picture_preparation.h>

#include "support/catch.h"
#include "support/contains.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

namespace {

using Bytes = std::vector<std::uint8_t>;

}  // namespace

TEST_CASE("preprocessing normalises into the model's layout", "[images]") {
  Preprocessing how;
  how.resize_to = 1;
  how.crop_width = 1;
  how.crop_height = 1;
  const Picture pixel{1, 1, {255, 0, 51}};
  std::vector<float> out(how.elements());
  how.normalization = Normalization::Tf;
  preprocess(pixel, how, out);
  CHECK(out == std::vector<float>{1.0F, -1.0F, 51.0F / 127.5F - 1.0F});
  how.normalization = Normalization::Torch;
  preprocess(pixel, how, out);
  CHECK(out == std::vector<float>{(1.0F - 0.485F) / 0.229F, (0.0F - 0.456F) / 0.224F, (0.2F - 0.406F) / 0.225F});
}

TEST_CASE("NCHW puts channels apart, NHWC together", "[images]") {
  Preprocessing how;
  how.normalization = Normalization::Tf;
  how.resize_to = 2;
  how.crop_width = 2;
  how.crop_height = 1;
  const Picture pixels{2, 2, {0, 255, 0, 255, 0, 255, 9, 9, 9, 9, 9, 9}};
  std::vector<float> out(how.elements());
  preprocess(pixels, how, out);
  CHECK(out == std::vector<float>{-1, 1, 1, -1, -1, 1});
  how.layout = Layout::NHWC;
  preprocess(pixels, how, out);
  CHECK(out == std::vector<float>{-1, 1, -1, 1, -1, 1});
}

TEST_CASE("a picture too narrow to be resized is refused", "[images]") {
  const Preprocessing how;
  std::vector<float> out(how.elements());
  const Picture line{1 << 20, 1, Bytes(3 << 20)};
  CHECK_THROWS_WITH(preprocess(line, how, out), contains("too narrow"));
}

TEST_CASE("the short side is 256, more for inputs that do not fit", "[images]") {
  const auto short_side = [](std::int64_t height, std::int64_t width) {
    return Preprocessing::for_input({DType::F32, Shape{1, 3, height, width}, Layout::NCHW}, Normalization::Torch)
        .resize_to;
  };
  CHECK(short_side(96, 96) == 256);
  CHECK(short_side(224, 192) == 256);
  CHECK(short_side(280, 224) == 320);
  CHECK_THROWS_AS(Preprocessing::for_input({DType::F32, Shape{1, 4, 8, 8}, Layout::NCHW}, Normalization::Torch), Error);
  CHECK_THROWS_AS(Preprocessing::for_input({DType::F32, Shape{1, 3}, Layout::NCHW}, Normalization::Torch), Error);
}

TEST_CASE("reports name the filter", "[images]") {
  CHECK_THAT(Preprocessing().describe(), contains("bilinear (triangle) with antialias"));
}

TEST_CASE("bytes times scale plus shift are the floats", "[images]") {
  for (const Normalization normalization : {Normalization::Torch, Normalization::Tf}) {
    const PictureInput input = picture_input(normalization);
    Preprocessing how;
    how.normalization = normalization;
    how.resize_to = how.crop_width = how.crop_height = 1;
    for (int byte = 0; byte < 256; ++byte) {
      const auto value = static_cast<std::uint8_t>(byte);
      std::vector<float> out(3);
      preprocess({1, 1, {value, value, value}}, how, std::span(out));
      for (std::size_t c = 0; c < 3; ++c) {
        // Of three operations, each rounded to 2^-24, on numbers below 8.
        CHECK(std::abs(static_cast<float>(byte) * input.scale[c] + input.shift[c] - out[c]) < 2e-6F);
      }
    }
  }
}

TEST_CASE("what contradicts itself is refused before anything is read", "[images]") {
  Preprocessing how;
  std::vector<float> out(how.elements());
  CHECK_THROWS_WITH(preprocess({10, 10, Bytes(299)}, how, std::span(out)), contains("says 10x10 and has 299 bytes"));
  CHECK_THROWS_WITH(preprocess({10, 10, Bytes(300)}, how, std::span(out).first(7)), contains("got room for 7"));
  how.resize_to = 200;
  CHECK_THROWS_WITH(preprocess({10, 10, Bytes(300)}, how, std::span(out)), contains("Preprocessing::resize_to"));
  how.crop_width = 0;
  CHECK_THROWS_WITH(preprocess({10, 10, Bytes(300)}, how, std::span(out)), contains("Preprocessing::crop_width"));
}
