#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include <mobicuda/error.h>
#include <mobicuda/picture_preparation.h>

#include "pictures/picture_support.h"
#include "support/catch.h"
#include "support/contains.h"
#include "support/folders.h"
#include "support/sanitizer.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

namespace {

using Bytes = std::vector<std::uint8_t>;
using std::string_literals::operator""s;
using test::bytes_of;

// 2 x 1 pixels: red, then (1, 2, 3).
const Bytes kPpm = bytes_of(std::string("P6\n2 1\n255\n") + "\xFF" + std::string(2, '\0') + "\x01\x02\x03");

Bytes real_jpeg() {
  std::ifstream file(test::shared_folder() / "data/imagenet_sample/n01440764/n01440764.jpg", std::ios::binary);
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

TEST_CASE("PNM pictures of every depth are decoded, their levels scaled to 255", "[images]") {
  CHECK(decode_picture(bytes_of("P5 2 1 255\n\x10\xFF")).rgb == Bytes{16, 16, 16, 255, 255, 255});
  // 1 of 2 is 127.5, rounded up; what is above the maximum counts as it.
  CHECK(decode_picture(bytes_of("P5\n# made by hand\n 1\t3 #\n2\n\1\0\xFF"s)).rgb ==
        Bytes{128, 128, 128, 0, 0, 0, 255, 255, 255});
  // The high byte first: 0x0101 of 65535 is 1, 0x8080 is 128.
  CHECK(decode_picture(bytes_of("P6\n1 1\n65535\n\1\1\x80\x80\xFF\xFF"s)).rgb == Bytes{1, 128, 255});
  CHECK(decode_picture(bytes_of("P5\n1 1\n510\n\1\xFE and more"s)).rgb == Bytes{255, 255, 255});
}

TEST_CASE("PNM pictures that contradict themselves are refused with a reason", "[images]") {
  const auto refused = [](const std::string& file, const char* why) {
    CAPTURE(file);
    CHECK_THROWS_WITH(decode_picture(bytes_of(file)), contains(why));
  };
  refused("P5\n2 2\n510\nabcd", "ends early");  // 16 bits of four pixels are eight bytes
  refused(std::string("P6\n2 2\n65535\n") + std::string(23, 'a'), "ends early");
  refused("P5\n2 2\n99999999999999999999\nabcd", "maximum is too large");
  refused("P5\n2 2\n65536\nabcdabcd", "maximum is too large");
  refused("P5\n2 2\n0\nabcd", "maximum is 0");
  refused("P5\n4294967297 1\n255\nabcd", "width is too large");
  refused("P5\n0 1\n255\nabcd", "has no pixels");
  refused("P5\n2 -2\n255\nabcd", "no height");
  refused("P5\n2 2\n255", "ends early");
  refused("P5\n2 2\n255#\nabcd", "no white space");
  refused("P6", "ends early");
  refused("P3\n1 1\n255\n1 2 3\n", "not a picture of a known format");
}

TEST_CASE("what is no whole picture is refused with a reason", "[images]") {
  CHECK_THROWS_WITH(decode_picture({}), "io: picture: the file is empty");
  CHECK_THROWS_WITH(decode_picture({}, {}, "a.jpg"), "io: a.jpg: the file is empty");
  CHECK_THROWS_WITH(decode_picture(bytes_of("hello, world")), contains("not a picture"));
  CHECK_THROWS_AS(decode_picture(bytes_of("\xFF\xD8\xFF nothing more")), Error);
  CHECK_THROWS_AS(decode_picture(bytes_of("P6\n60000 60000\n255\n")), Error);
  CHECK_THROWS_WITH(decode_picture({kPpm.data(), kPpm.size() - 1}), "io: picture: ends early");
  CHECK_THROWS_WITH(load_picture("/nonexistent.jpg"), contains("cannot be opened"));
}

TEST_CASE("PNG pictures of every depth and colour are decoded, interlaced ones too", "[images]") {
  const auto size = GENERATE(1, 5, 100, test::kSanitized ? 101 : 1000);
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

TEST_CASE("a PNG of damaged data is refused, as the first picture of a thread too", "[images]") {
  // A block of a kind that deflate has not, for which stb_image gives no reason.
  std::string what;
  std::thread([&] {
    try {
      decode_picture(png(2, 2, 8, 2, {0x78, 0x01, 0x07, 0x00}));
    } catch (const Error& error) {
      what = error.what();
    }
  }).join();
  CHECK_THAT(what, contains("cannot be decoded: damaged data"));
}

TEST_CASE("a PNG may have a chunk of no data", "[images]") {
  Bytes file = png(100, 100, 8, 2, zeros_in_zlib(100 * 301));
  const Picture expected = decode_picture(file);
  constexpr std::ptrdiff_t kBehindHeader = 33;
  Bytes chunk;
  put_chunk(chunk, "IDAT", {});
  file.insert(file.begin() + kBehindHeader, chunk.begin(), chunk.end());
  CHECK(decode_picture(file).rgb == expected.rgb);
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

TEST_CASE("pictures of one format under the name of another are decoded by content", "[images]") {
  const std::string jpeg = test::jpeg_file(test::plain_picture(20, 10, 200, 100, 50));
  CHECK(decode_picture(test::span_of(jpeg), {}, "wrong.png").width == 20);
  CHECK(decode_picture(kPpm, {}, "wrong.jpg").width == 2);
}

TEST_CASE("limits are the caller's", "[images]") {
  const std::string jpeg = test::jpeg_file(test::plain_picture(20, 10, 200, 100, 50));
  DecodeOptions options;
  options.max_pixels = 199;
  CHECK_THROWS_WITH(decode_picture(test::span_of(jpeg), options), contains("20x10 pixels are more than 199"));
  options.max_pixels = 200;
  CHECK_NOTHROW(decode_picture(test::span_of(jpeg), options));
  options.max_bytes = static_cast<std::int64_t>(jpeg.size()) - 1;
  CHECK_THROWS_WITH(decode_picture(test::span_of(jpeg), options), contains("bytes, more than"));
  options.max_bytes = 0;
  CHECK_THROWS_WITH(decode_picture(test::span_of(jpeg), options), contains("DecodeOptions::max_bytes"));
  options = {};
  options.max_pixels = (std::int64_t{1} << 27) + 1;
  CHECK_THROWS_WITH(decode_picture(test::span_of(jpeg), options), contains("DecodeOptions::max_pixels"));
}

TEST_CASE("progressive, grey and CMYK pictures are decoded", "[images]") {
  test::JpegOptions progressive;
  progressive.progressive = true;
  const Picture red = decode_picture(test::span_of(test::jpeg_file(test::plain_picture(9, 9, 250, 5, 5), progressive)));
  CHECK(red.rgb[0] > 240);
  CHECK(red.rgb[1] < 15);
  test::JpegOptions grey;
  grey.subsampling = 3;
  const Picture shade = decode_picture(test::span_of(test::jpeg_file(test::plain_picture(9, 9, 99, 99, 99), grey)));
  CHECK(std::abs(int{shade.rgb[4]} - 99) <= 2);
  std::vector<std::uint8_t> cmyk;
  for (int i = 0; i < 64; ++i) cmyk.insert(cmyk.end(), {255, 51, 102, 200});  // 255: no ink
  const Picture inked = decode_picture(test::span_of(test::cmyk_jpeg_file(8, 8, cmyk)));
  CHECK(std::abs(int{inked.rgb[0]} - 200) <= 2);
  CHECK(std::abs(int{inked.rgb[1]} - 51 * 200 / 255) <= 2);
  CHECK(std::abs(int{inked.rgb[2]} - 102 * 200 / 255) <= 2);
}
