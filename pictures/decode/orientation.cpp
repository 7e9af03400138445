#include "pictures/decode/orientation.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "pictures/prepare/channels.h"

namespace mobicuda::pictures {
namespace {

// Numbers out of bytes that may end anywhere.
class Numbers {
 public:
  Numbers(std::span<const std::uint8_t> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<std::uint32_t> at(std::size_t offset, std::size_t count) const noexcept {
    if (offset > bytes_.size() || bytes_.size() - offset < count) return std::nullopt;
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < count; ++i) {
      number = number << 8U | bytes_[offset + (big_endian_ ? i : count - 1 - i)];
    }
    return number;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_endian_;
};

// How the seen picture's axes run along the stored one's.
struct Turn {
  bool swapped, back_x, back_y;  // x and y are exchanged; the stored axes are run through backwards

  explicit Turn(ExifOrientation orientation)
      : swapped(orientation >= 5),
        back_x(orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8),
        back_y(orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) {}
};

}  // namespace

ExifOrientation exif_orientation(std::span<const std::uint8_t> tiff) noexcept {
  constexpr std::uint32_t kTag = 0x0112;
  constexpr std::uint32_t kShort = 3;
  constexpr std::uint32_t kMagic = 42;
  constexpr std::size_t kField = 12;
  constexpr std::size_t kHeader = 8;
  if (tiff.size() < kHeader || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) return kUpright;
  const Numbers numbers(tiff, tiff[0] == 'M');
  if (numbers.at(2, 2) != kMagic) return kUpright;
  const std::size_t directory = *numbers.at(4, 4);
  const std::size_t fields = numbers.at(directory, 2).value_or(0);
  for (std::size_t i = 0; i < fields; ++i) {
    const std::size_t field = directory + 2 + i * kField;
    const auto tag = numbers.at(field, 2);
    if (!tag) return kUpright;
    if (*tag != kTag) continue;
    if (numbers.at(field + 2, 2) != kShort || numbers.at(field + 4, 4) != 1U) return kUpright;
    const std::uint32_t value = numbers.at(field + 8, 2).value_or(0);
    return value >= 1 && value <= 8 ? static_cast<ExifOrientation>(value) : kUpright;
  }
  return kUpright;
}

ExifOrientation png_orientation(std::span<const std::uint8_t> file) noexcept {
  constexpr std::array<std::uint8_t, 8> kSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  constexpr std::size_t kAround = 12;  // length, type and checksum of a chunk
  if (file.size() < kSignature.size() || !std::equal(kSignature.begin(), kSignature.end(), file.begin())) {
    return kUpright;
  }
  const Numbers numbers(file, true);
  std::size_t at = kSignature.size();
  for (;;) {
    const auto length = numbers.at(at, 4);
    const auto type = numbers.at(at + 4, 4);
    if (!length || !type || *length > file.size() - at - 8) return kUpright;
    constexpr std::uint32_t kExif = 'e' << 24 | 'X' << 16 | 'I' << 8 | 'f';
    if (*type == kExif) return exif_orientation(file.subspan(at + 8, *length));
    at += kAround + *length;
  }
}

PixelView oriented_view(const std::uint8_t* rgb, int width, int height, std::int64_t pitch,
                        ExifOrientation orientation) noexcept {
  const Turn turn(orientation);
  const std::int64_t stored_x = turn.back_x ? -kChannels : kChannels;
  const std::int64_t stored_y = turn.back_y ? -pitch : pitch;
  const std::uint8_t* const origin = rgb + (turn.back_x ? std::int64_t{width - 1} * kChannels : 0) +
                                     (turn.back_y ? std::int64_t{height - 1} * pitch : 0);
  if (turn.swapped) return {origin, stored_y, stored_x, height, width};
  return {origin, stored_x, stored_y, width, height};
}

PlanesView oriented_view(const Planes& planes, ExifOrientation orientation) noexcept {
  const Turn turn(orientation);
  const int step_x = turn.back_x ? -1 : 1;
  const int step_y = turn.back_y ? -1 : 1;
  PlanesView view{planes, planes.width, planes.height, turn.back_x ? planes.width - 1 : 0,
                  turn.back_y ? planes.height - 1 : 0};
  if (turn.swapped) {
    std::swap(view.width, view.height);
    view.column_of_x = 0;
    view.column_of_y = step_x;
    view.row_of_x = step_y;
    view.row_of_y = 0;
  } else {
    view.column_of_x = step_x;
    view.row_of_y = step_y;
  }
  return view;
}

Picture copied(const PixelView& view) {
  Picture picture{view.width, view.height, {}};
  picture.rgb.resize(static_cast<std::size_t>(view.width) * static_cast<std::size_t>(view.height) * kChannels);
  auto out = picture.rgb.begin();
  for (int y = 0; y < view.height; ++y) {
    const std::uint8_t* pixel = view.origin + y * view.step_y;
    for (int x = 0; x < view.width; ++x, pixel += view.step_x) out = std::copy_n(pixel, kChannels, out);
  }
  return picture;
}

Picture copied(const PlanesView& view) {
  Picture picture{view.width, view.height, {}};
  picture.rgb.reserve(static_cast<std::size_t>(view.width) * static_cast<std::size_t>(view.height) * kChannels);
  for (int y = 0; y < view.height; ++y) {
    for (int x = 0; x < view.width; ++x) {
      const Rgb rgb = rgb_at(view, x, y);
      picture.rgb.insert(picture.rgb.end(), {rgb.red, rgb.green, rgb.blue});
    }
  }
  return picture;
}

}  // namespace mobicuda::pictures
