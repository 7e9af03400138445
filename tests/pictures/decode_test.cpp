#include "bench_engine/pictures/images.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "bench_engine/model/exit_codes.h"
#include "support/catch.h"
#include "support/contains.h"

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

// Bits in the order in which deflate packs them.
class BitWriter {
 public:
  void put(unsigned bits, int count) {
    for (int i = 0; i < count; ++i, ++used_) {
      if (used_ % 8 == 0) bytes_.push_back(0);
      if ((bits >> i & 1U) != 0) bytes_.back() = static_cast<std::uint8_t>(bytes_.back() | 1U << (used_ % 8));
    }
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  int used_ = 0;
};

// A zlib stream that inflates to at least so many zeros, in a hundredth and a half of their number of bytes.
Bytes zeros_in_zlib(std::size_t count) {
  constexpr std::size_t kRepeat = 258;
  BitWriter out;
  out.put(0x0178, 16);     // zlib's header: 78 01
  out.put(0b011, 3);       // last block, fixed codes
  out.put(0b00001100, 8);  // literal 0, its code turned round
  for (std::size_t done = 1; done < count; done += kRepeat) {
    out.put(0b10100011, 8);  // length 258
    out.put(0, 5);           // of what is one byte back
  }
  out.put(0, 7);   // the end
  out.put(0, 32);  // a checksum, which stb_image does not look at
  return out.bytes();
}

void put_chunk(Bytes& file, const std::string& type, const Bytes& content) {
  const auto put_number = [&](std::size_t number) {
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<std::uint8_t>(number >> shift));
  };
  put_number(content.size());
  file.insert(file.end(), type.begin(), type.end());
  file.insert(file.end(), content.begin(), content.end());
  put_number(0);  // its checksum
}

enum class Interlaced : bool { No, Yes };

// A black PNG picture of that header: 2 is colours, 4 grey with alpha, 6 colours with alpha, 0 grey, 3 a palette.
Bytes png(int width, int height, int depth, int colour, const Bytes& data, Interlaced interlaced = Interlaced::No) {
  Bytes file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  Bytes header;
  for (const int extent : {width, height}) {
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<std::uint8_t>(extent >> shift));
  }
  for (const int value : {depth, colour, 0, 0, interlaced == Interlaced::Yes ? 1 : 0}) {
    header.push_back(static_cast<std::uint8_t>(value));
  }
  put_chunk(file, "IHDR", header);
  if (colour == 3) put_chunk(file, "PLTE", {0, 0, 0});
  put_chunk(file, "IDAT", data);
  put_chunk(file, "IEND", {});
  return file;
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

TEST_CASE("PNG pictures of every depth and colour are decoded, interlaced ones too", "[images]") {
  const auto size = GENERATE(1, 5, 100, 1000);
  const auto interlaced = GENERATE(Interlaced::No, Interlaced::Yes);
  const std::vector<std::pair<int, int>> forms{{1, 0}, {8, 0}, {16, 0}, {8, 2}, {16, 2}, {1, 3},
                                               {8, 3}, {8, 4}, {16, 4}, {8, 6}, {16, 6}};
  for (const auto& [depth, colour] : forms) {
    CAPTURE(size, depth, colour);
    const std::size_t channels = colour == 2 ? 3 : colour == 4 ? 2 : colour == 6 ? 4 : 1;
    const auto extent = static_cast<std::size_t>(size);
    // Each of seven passes has rows that begin with a byte, and end with a whole one.
    const std::size_t most = extent * extent * channels * static_cast<std::size_t>(depth) / 8 + 8 * extent * 2;
    const Picture picture = decode_picture(png(size, size, depth, colour, zeros_in_zlib(most), interlaced));
    CHECK(picture.width == size);
    CHECK(picture.rgb == Bytes(extent * extent * 3));
  }
}

TEST_CASE("a PNG that holds or inflates to far more than its header's pixels is refused", "[images]") {
  const Bytes bomb = png(100, 100, 8, 2, zeros_in_zlib(std::size_t{1} << 26));
  CHECK(bomb.size() < std::size_t{1} << 20);
  CHECK_THROWS_WITH(decode_picture(bomb), contains("unpacks to more data than 100x100 pixels take"));
  Bytes claims_more(bomb.begin(), bomb.begin() + 33);
  claims_more.insert(claims_more.end(), {0x3F, 0xFF, 0xFF, 0xFF, 'I', 'D', 'A', 'T', 0x78, 0x01});
  CHECK_THROWS_WITH(decode_picture(claims_more), contains("holds or unpacks to more data than 100x100 pixels take"));
  const Picture after = decode_picture(png(100, 100, 8, 2, zeros_in_zlib(100 * 301)));
  CHECK(after.width == 100);
}

TEST_CASE("a picture of too many pixels is refused before memory is taken for it", "[images]") {
  const auto refused = [](const Bytes& file) { CHECK_THROWS_WITH(decode_picture(file), contains("12000x12000")); };
  refused(png(12000, 12000, 8, 2, zeros_in_zlib(1000)));
  refused(bytes_of("P6\n12000 12000\n255\n"));
  Bytes bmp(54);
  bmp[0] = 'B', bmp[1] = 'M', bmp[10] = 54, bmp[14] = 40, bmp[26] = 1, bmp[28] = 24;
  bmp[18] = bmp[22] = 12000 & 0xFF, bmp[19] = bmp[23] = 12000 >> 8;
  refused(bmp);
  Bytes jpeg{0xFF, 0xD8, 0xFF, 0xC0, 0, 17,   8, 12000 >> 8, 12000 & 0xFF, 12000 >> 8, 12000 & 0xFF,
             3,    1,    0x11, 0,    2, 0x11, 0, 3,          0x11,         0};
  const Bytes scan{0xFF, 0xDA, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0, 0, 0xFF, 0xD9};
  jpeg.insert(jpeg.end(), scan.begin(), scan.end());
  refused(jpeg);
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
