#include "pictures/gpu/planes_trial.h"

#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

#include "pictures/gpu/plane_layout.h"
#include "runtime/cuda_check.h"
#include "runtime/device_buffer.h"

namespace mobicuda::pictures {
namespace {

constexpr int kWidth = 149;  // odd, and no multiple of a block
constexpr int kHeight = 107;
constexpr int kMostDifference = 4;  // of a sample: decoders round the DCT in their own ways
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
};

struct Destroy {
  void operator()(void* handle) const noexcept { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, Destroy>;

// Smooth, and in each channel different along each axis.
std::vector<std::uint8_t> pattern() {
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      rgb.push_back(static_cast<std::uint8_t>(50 + x));
      rgb.push_back(static_cast<std::uint8_t>(220 - y));
      rgb.push_back(static_cast<std::uint8_t>(40 + x / 2 + y));
    }
  }
  return rgb;
}

// Nothing where libjpeg-turbo fails, which leaves a kind untried.
std::optional<Trial> trial_of(Sampling sampling) {
  const int subsampling = subsampling_of(sampling);
  const Handle decoder(tjInitDecompress());
  Trial trial;
  trial.file = sample_file(sampling);
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
  return trial;
}

// Whether `decoded` has the samples of the plane; beyond the picture's border there may be anything.
bool alike(const Plane& plane, int columns, int rows, const std::uint8_t* decoded, int pitch) {
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const int expected = plane.samples[static_cast<std::size_t>(y * plane.columns + x)];
      if (std::abs(expected - decoded[y * pitch + x]) > kMostDifference) return false;
    }
  }
  return true;
}

// Decodes to planes; false where nvJPEG refuses.
using Decode = std::function<bool(const NvjpegPicture& picture, cudaStream_t stream)>;

bool gives_planes(Sampling sampling, const Decode& decode) {
  const std::optional<Trial> trial = trial_of(sampling);
  if (!trial) return false;
  const PlaneLayout layout(kWidth, kHeight, sampling);
  // With room behind it, for decoders that write more than they should.
  const DeviceBuffer memory(4 * layout.bytes(), "a picture to try nvJPEG with");
  const Stream stream;
  cuda_check(cudaMemsetAsync(memory.data(), 0, static_cast<std::size_t>(memory.bytes()), stream.get()),
             "trying nvJPEG");
  cuda_check(cudaStreamSynchronize(stream.get()), "trying nvJPEG");
  auto* const pixels = static_cast<std::uint8_t*>(memory.data());
  if (!decode({trial->file, layout.image(pixels)}, stream.get())) return false;
  cuda_check(cudaStreamSynchronize(stream.get()), "trying nvJPEG");
  std::vector<std::uint8_t> decoded(static_cast<std::size_t>(layout.bytes()));
  memory.download(std::as_writable_bytes(std::span(decoded)));
  const Planes planes = layout.planes(decoded.data());
  const int columns = (kWidth + planes.across - 1) / planes.across;
  const int rows = (kHeight + planes.down - 1) / planes.down;
  return alike(trial->planes[0], kWidth, kHeight, planes.luma, planes.luma_pitch) &&
         (planes.cb == nullptr || (alike(trial->planes[1], columns, rows, planes.cb, planes.chroma_pitch) &&
                                   alike(trial->planes[2], columns, rows, planes.cr, planes.chroma_pitch)));
}

}  // namespace

std::vector<std::uint8_t> sample_file(Sampling sampling) {
  const Handle compressor(tjInitCompress());
  if (!compressor) return {};
  const std::vector<std::uint8_t> rgb = pattern();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int status = tjCompress2(compressor.get(), rgb.data(), kWidth, 0, kHeight, TJPF_RGB, &bytes, &size,
                                 subsampling_of(sampling), kQuality, 0);
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(bytes, &tjFree);
  if (status != 0) return {};
  return {bytes, bytes + size};
}

std::bitset<kSamplings> try_planes(const std::shared_ptr<const Nvjpeg>& nvjpeg, NvjpegPart part) {
  // One decoder for all: to make one takes nvJPEG a tenth of a second.
  NvjpegParser parser(nvjpeg);
  UnitsDecoder units(nvjpeg, NvjpegOutput::Planes);
  SmsDecoder sms(nvjpeg);
  const Decode decode = [&](const NvjpegPicture& picture, cudaStream_t stream) {
    if (part == NvjpegPart::Sms) return sms.decode(picture, NvjpegOutput::Planes).empty();
    return parser.units_take(picture.encoded) && units.decode({&picture, 1}, stream).empty();
  };
  std::bitset<kSamplings> given;
  for (const Sampling sampling : kAllSamplings) {
    given.set(static_cast<std::size_t>(sampling), gives_planes(sampling, decode));
  }
  return given;
}

}  // namespace mobicuda::pictures
