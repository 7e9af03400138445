#include "bench_engine/pictures/images.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "bench_engine/exit_codes.h"
#include "contains.h"
#include "support/catch.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// 2 x 1 pixels: red, then (1, 2, 3).
const Bytes kPpm = bytes_of(std::string("P6\n2 1\n255\n") + "\xFF" + std::string(2, '\0') + "\x01\x02\x03");

Bytes real_jpeg() {
  std::ifstream file(std::string(MOBICUDA_SHARED_DIR) + "/data/imagenet_sample/n01440764/n01440764.jpg",
                     std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return bytes_of(text);
}

}  // namespace

TEST_CASE("a PPM picture is decoded", "[images]") {
  const Picture picture = decode_picture(kPpm);
  CHECK(picture.width == 2);
  CHECK(picture.height == 1);
  CHECK(picture.rgb == Bytes{255, 0, 0, 1, 2, 3});
}

TEST_CASE("what is no whole picture is refused with a reason", "[images]") {
  CHECK_THROWS_WITH(decode_picture({}), "the file is empty");
  CHECK_THROWS_WITH(decode_picture(bytes_of("hello, world")), contains("not a picture"));
  CHECK_THROWS_AS(decode_picture(bytes_of("\xFF\xD8\xFF nothing more")), PictureError);
  CHECK_THROWS_AS(decode_picture(bytes_of("P6\n60000 60000\n255\n")), PictureError);
  CHECK_THROWS_WITH(decode_picture({kPpm.data(), kPpm.size() - 1}), "ends early");
  CHECK_THROWS_WITH(load_picture("/nonexistent.jpg"), contains("cannot be opened"));
}

TEST_CASE("a JPEG file that ends early is refused", "[images]") {
  Bytes file = real_jpeg();
  if (file.empty()) MOBICUDA_SKIP("no real pictures on this machine");
  const Picture whole = decode_picture(file);
  CHECK(std::min(whole.width, whole.height) == 256);
  file.resize(file.size() / 2);
  CHECK_THROWS_WITH(decode_picture(file), contains("bad JPEG"));
}

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
  how.resize_to = 1;
  how.crop_width = 2;
  how.crop_height = 1;
  const Picture pixels{2, 1, {0, 255, 0, 255, 0, 255}};
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
  CHECK_THROWS_AS(Preprocessing::for_input({DType::F32, Shape{1, 4, 8, 8}, Layout::NCHW}, Normalization::Torch),
                  UsageError);
  CHECK_THROWS_AS(Preprocessing::for_input({DType::F32, Shape{1, 3}, Layout::NCHW}, Normalization::Torch), UsageError);
}

TEST_CASE("reports name the filter", "[images]") { CHECK_THAT(Preprocessing().describe(), contains(kFilterName)); }
