#include "pictures/picture_support.h"

#include <stdexcept>

#include <turbojpeg.h>

namespace mobicuda::test {
namespace {

std::string compressed(const std::uint8_t* pixels, int width, int height, int format, const JpegOptions& options) {
  void* const handle = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int status = tjCompress2(handle, pixels, width, 0, height, format, &bytes, &size, options.subsampling,
                                 options.quality, options.progressive ? TJFLAG_PROGRESSIVE : 0);
  std::string file(reinterpret_cast<const char*>(bytes), status == 0 ? size : 0);
  tjFree(bytes);
  tjDestroy(handle);
  if (status != 0) throw std::runtime_error("libjpeg-turbo does not compress a picture of a test");
  return file;
}

}  // namespace

std::string jpeg_file(const pictures::Picture& picture, const JpegOptions& options) {
  return compressed(picture.rgb.data(), picture.width, picture.height, TJPF_RGB, options);
}

std::string cmyk_jpeg_file(int width, int height, std::span<const std::uint8_t> cmyk) {
  return compressed(cmyk.data(), width, height, TJPF_CMYK, {100, TJSAMP_444, false});
}

std::string with_exif(const std::string& jpeg, const std::string& tiff) {
  const std::string segment = std::string("Exif\0\0", 6) + tiff;
  const std::size_t length = segment.size() + 2;
  std::string marker = "\xFF\xE1";
  marker += static_cast<char>(length >> 8U);
  marker += static_cast<char>(length & 0xFFU);
  return jpeg.substr(0, 2) + marker + segment + jpeg.substr(2);
}

std::string exif_of(int orientation, bool big_endian) {
  std::string text = big_endian ? "MM" : "II";
  const auto put = [&](unsigned number, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) {
      text += static_cast<char>(number >> 8 * (big_endian ? bytes - 1 - i : i) & 0xFFU);
    }
  };
  put(42, 2);
  put(8, 4);
  put(2, 2);  // fields
  put(0x0100, 2);
  put(4, 2);
  put(1, 4);
  put(77, 4);
  put(0x0112, 2);
  put(3, 2);
  put(1, 4);
  put(static_cast<unsigned>(orientation), 2);
  put(0, 2);
  put(0, 4);
  return text;
}

}  // namespace mobicuda::test
