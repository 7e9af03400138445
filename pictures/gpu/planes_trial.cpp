#include "pictures/gpu/planes_trial.h"

#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "pictures/gpu/plane_layout.h"
#include "pictures/prepare/channels.h"
#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"

namespace mobicuda::pictures {
namespace {

constexpr int kWidth = 149;  // odd, and no multiple of a block
constexpr int kHeight = 107;
constexpr int kMostDifference = 4;  // of a sample: decoders round the DCT in their own ways
constexpr int kMostLevelsOff = 8;   // of a pixel of RGB; chroma that is not interpolated is wrong by many times that
constexpr int kUsualWidth = 512;
constexpr int kUsualHeight = 384;
constexpr int kQuality = 95;

int subsampling_of(Sampling sampling) {
  switch (sampling) {
    case Sampling::Grey:
      return TJSAMP_GRAY;
    case Sampling::S444:
      return TJSAMP_444;
    case Sampling::S422:
      return TJSAMP_422;
    case Sampling::S440:
      return TJSAMP_440;
    case Sampling::S420:
      return TJSAMP_420;
  }
  return TJSAMP_444;
}

struct Plane {
  int columns = 0;
  int rows = 0;
  std::vector<std::uint8_t> samples;
};

struct Trial {
  std::vector<std::uint8_t> file;
  std::vector<Plane> planes;  // libjpeg-turbo's
  Plane rgb;                  // likewise, a row of interleaved pixels being a row
};

struct Destroy {
  void operator()(void* handle) const noexcept { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, Destroy>;

// Different along each axis in each channel; colours change within a few pixels, which tells ways to interpolate chroma
// apart.
std::vector<std::uint8_t> pattern() {
  constexpr int kStripe = 5;
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const int across = x / kStripe % 2;
      const int down = y / kStripe % 2;
      rgb.push_back(static_cast<std::uint8_t>(50 + x / 2 + 60 * across));
      rgb.push_back(static_cast<std::uint8_t>(200 - y));
      rgb.push_back(static_cast<std::uint8_t>(40 + x / 4 + y / 2 + 60 * down));
    }
  }
  return rgb;
}

// Empty where libjpeg-turbo fails.
std::vector<std::uint8_t> jpeg_file(const std::vector<std::uint8_t>& rgb, int width, int height, int subsampling) {
  const Handle compressor(tjInitCompress());
  if (!compressor) return {};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int status =
      tjCompress2(compressor.get(), rgb.data(), width, 0, height, TJPF_RGB, &bytes, &size, subsampling, kQuality, 0);
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(bytes, &tjFree);
  if (status != 0) return {};
  return {bytes, bytes + size};
}

// Nothing where libjpeg-turbo fails, which leaves a kind untried.
std::optional<Trial> trial_of(Sampling sampling) {
  const int subsampling = subsampling_of(sampling);
  const Handle decoder(tjInitDecompress());
  Trial trial;
  trial.file = jpeg_file(pattern(), kWidth, kHeight, subsampling);
  if (!decoder || trial.file.empty()) return std::nullopt;
  const auto size = static_cast<unsigned long>(trial.file.size());
  std::array<unsigned char*, 3> planes{};
  std::array<int, 3> pitches{};
  trial.planes.resize(sampling == Sampling::Grey ? 1 : planes.size());
  for (std::size_t i = 0; i < trial.planes.size(); ++i) {
    Plane& plane = trial.planes[i];
    const int component = static_cast<int>(i);
    pitches[i] = plane.columns = tjPlaneWidth(component, kWidth, subsampling);
    plane.rows = tjPlaneHeight(component, kHeight, subsampling);
    plane.samples.resize(static_cast<std::size_t>(plane.columns) * static_cast<std::size_t>(plane.rows));
    planes[i] = plane.samples.data();
  }
  if (tjDecompressToYUVPlanes(decoder.get(), trial.file.data(), size, planes.data(), kWidth, pitches.data(), kHeight,
                              TJFLAG_ACCURATEDCT) != 0) {
    return std::nullopt;
  }
  trial.rgb = {kWidth * kChannels, kHeight, std::vector<std::uint8_t>(std::size_t{kWidth} * kHeight * kChannels)};
  if (tjDecompress2(decoder.get(), trial.file.data(), size, trial.rgb.samples.data(), kWidth, 0, kHeight, TJPF_RGB,
                    TJFLAG_ACCURATEDCT) != 0) {
    return std::nullopt;
  }
  return trial;
}

// Whether `decoded` has the samples of the plane; beyond the picture's border there may be anything.
bool alike(const Plane& plane, int columns, int rows, const std::uint8_t* decoded, int pitch, int most) {
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const int expected = plane.samples[static_cast<std::size_t>(y * plane.columns + x)];
      if (std::abs(expected - decoded[y * pitch + x]) > most) return false;
    }
  }
  return true;
}

// False where nvJPEG refuses.
using Decode = std::function<bool(std::span<const NvjpegPicture> pictures, cudaStream_t stream)>;

// Of `copies` of the picture that are decoded together the last one is looked at.
bool gives(NvjpegOutput output, Sampling sampling, std::size_t copies, const Decode& decode) {
  const std::optional<Trial> trial = trial_of(sampling);
  if (!trial) return false;
  const PlaneLayout layout(kWidth, kHeight, sampling);
  // With room behind each, for decoders that write more than they should.
  const std::int64_t room = 4 * layout.bytes();
  const DeviceBuffer memory(static_cast<std::int64_t>(copies) * room, "pictures to try nvJPEG with");
  const Stream stream;
  cuda_check(cudaMemsetAsync(memory.data(), 0, static_cast<std::size_t>(memory.bytes()), stream.get()),
             "trying nvJPEG");
  cuda_check(cudaStreamSynchronize(stream.get()), "trying nvJPEG");
  std::vector<NvjpegPicture> pictures;
  for (std::size_t i = 0; i < copies; ++i) {
    auto* const pixels = static_cast<std::uint8_t*>(memory.data()) + static_cast<std::int64_t>(i) * room;
    nvjpeg::Image image = layout.image(pixels);
    if (output == NvjpegOutput::Rgb) {
      image = {};
      image.channel[0] = pixels;
      image.pitch[0] = static_cast<std::size_t>(kWidth) * kChannels;
    }
    pictures.push_back({trial->file, image});
  }
  if (!decode(pictures, stream.get())) return false;
  cuda_check(cudaStreamSynchronize(stream.get()), "trying nvJPEG");
  std::vector<std::uint8_t> all(static_cast<std::size_t>(memory.bytes()));
  memory.download(std::as_writable_bytes(std::span(all)));
  const std::uint8_t* const decoded = all.data() + (static_cast<std::int64_t>(copies) - 1) * room;
  if (output == NvjpegOutput::Rgb) {
    return alike(trial->rgb, trial->rgb.columns, trial->rgb.rows, decoded, trial->rgb.columns, kMostLevelsOff);
  }
  const Planes planes = layout.planes(decoded);
  const int columns = (kWidth + planes.across - 1) / planes.across;
  const int rows = (kHeight + planes.down - 1) / planes.down;
  const auto plane = [&](std::size_t i, const std::uint8_t* samples) {
    return alike(trial->planes[i], columns, rows, samples, planes.chroma_pitch, kMostDifference);
  };
  return alike(trial->planes[0], kWidth, kHeight, planes.luma, planes.luma_pitch, kMostDifference) &&
         (planes.cb == nullptr || (plane(1, planes.cb) && plane(2, planes.cr)));
}

}  // namespace

std::vector<std::uint8_t> usual_file() {
  std::vector<std::uint8_t> rgb(std::size_t{kUsualWidth} * kUsualHeight * kChannels);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    rgb[i] = static_cast<std::uint8_t>(96 + (state >> 26U));
  }
  return jpeg_file(rgb, kUsualWidth, kUsualHeight, TJSAMP_420);
}

std::bitset<kSamplings> try_output(const std::shared_ptr<const Nvjpeg>& nvjpeg, NvjpegPart part, NvjpegOutput output) {
  // One decoder for all: to make one takes nvJPEG a tenth of a second.
  NvjpegParser parser(nvjpeg);
  BatchDecoder batches(nvjpeg, part, output);
  SmsDecoder sms(nvjpeg);
  const Decode decode = [&](std::span<const NvjpegPicture> pictures, cudaStream_t stream) {
    if (part == NvjpegPart::Sms) return sms.decode(pictures.front(), output).empty();
    if (part == NvjpegPart::Units && !parser.units_take(pictures.front().encoded)) return false;
    return batches.decode(pictures, stream).empty();
  };
  const std::size_t copies = part == NvjpegPart::SmsInBatches ? kFewestInBatches : 1;
  std::bitset<kSamplings> given;
  for (const Sampling sampling : kAllSamplings) {
    given.set(static_cast<std::size_t>(sampling), gives(output, sampling, copies, decode));
  }
  return given;
}

}  // namespace mobicuda::pictures
