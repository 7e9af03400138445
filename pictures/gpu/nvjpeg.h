#pragma once

#include <bitset>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "pictures/decode/jpeg_header.h"
#include "pictures/gpu/nvjpeg_api.h"
#include "runtime/device_guard.h"

namespace mobicuda::pictures {

/// What nvJPEG makes of a picture.
enum class NvjpegOutput : std::uint8_t {
  Rgb,     ///< interleaved, its chroma smoothed and its colours converted by nvJPEG
  Planes,  ///< luma and chroma as they are stored
};

/// What of nvJPEG decodes.
enum class NvjpegPart : std::uint8_t { Units, Sms };

/// A picture for nvJPEG: its bytes, and where its pixels go on the device.
struct NvjpegPicture {
  std::span<const std::uint8_t> encoded;
  nvjpeg::Image pixels{};
};

/// nvJPEG, loaded at run time, on one device: its JPEG units where it has some, else its multiprocessors. Safe
/// to share between threads; states and parsers are for one each. Lives as long as any of them.
class Nvjpeg {
 public:
  /// Of the file, or, where that is empty, the one that the dynamic linker or the toolkit has; the device is current.
  /// One that is in use is shared. Throws Error(device_unavailable) with the reason and the remedy. Thread-safe.
  static std::shared_ptr<const Nvjpeg> load(const std::filesystem::path& library, const Device& device);
  ~Nvjpeg();
  Nvjpeg(const Nvjpeg&) = delete;
  Nvjpeg& operator=(const Nvjpeg&) = delete;

  bool has_units() const noexcept { return units_ != nullptr; }
  /// Whether pictures of this kind come as RGB that is a few levels from libjpeg-turbo's at most: tried likewise.
  bool gives_rgb(NvjpegPart part, Sampling sampling) const noexcept {
    return (part == NvjpegPart::Units ? given_.rgb_by_units : given_.rgb_by_sms)
        .test(static_cast<std::size_t>(sampling));
  }
  /// Whether pictures of this kind come as planes that are those of libjpeg-turbo but for the DCT: each kind was tried
  /// once, on a picture.
  bool gives_planes(NvjpegPart part, Sampling sampling) const noexcept {
    return (part == NvjpegPart::Units ? given_.planes_by_units : given_.planes_by_sms)
        .test(static_cast<std::size_t>(sampling));
  }
  std::string version() const;

  const nvjpeg::Api& api() const noexcept { return api_; }
  nvjpeg::Handle units() const noexcept { return units_; }
  nvjpeg::Handle sms() const noexcept { return sms_; }
  std::mutex& turn() const noexcept { return turn_; }

 private:
  struct Given {
    std::bitset<kSamplings> planes_by_units, planes_by_sms;
    std::bitset<kSamplings> rgb_by_units, rgb_by_sms;
  };

  explicit Nvjpeg(const Device& device) : device_(device) {}
  /// Not shared, and without planes.
  static std::shared_ptr<Nvjpeg> load_anew(const std::filesystem::path& library, const Device& device);

  const Device device_;
  void* library_ = nullptr;
  nvjpeg::Api api_{};
  nvjpeg::Handle units_ = nullptr;
  nvjpeg::Handle sms_ = nullptr;
  Given given_;
  mutable std::mutex turn_;
};

/// Asks which pictures the JPEG units take.
class NvjpegParser {
 public:
  explicit NvjpegParser(std::shared_ptr<const Nvjpeg> nvjpeg);
  ~NvjpegParser();
  NvjpegParser(const NvjpegParser&) = delete;
  NvjpegParser& operator=(const NvjpegParser&) = delete;

  /// Of a file that is whole: its header alone is looked at.
  bool units_take(std::span<const std::uint8_t> file);

 private:
  std::shared_ptr<const Nvjpeg> nvjpeg_;
  nvjpeg::JpegStream stream_ = nullptr;
};

/// Decodes with the JPEG units, a batch at a time, to one kind of output.
class UnitsDecoder {
 public:
  /// in_turns: not while another decoder of this nvJPEG that is so made decodes.
  UnitsDecoder(std::shared_ptr<const Nvjpeg> nvjpeg, NvjpegOutput output, bool in_turns)
      : nvjpeg_(std::move(nvjpeg)), output_(output), in_turns_(in_turns) {}
  ~UnitsDecoder();
  UnitsDecoder(const UnitsDecoder&) = delete;
  UnitsDecoder& operator=(const UnitsDecoder&) = delete;

  /// Enqueues the pictures on a stream. The units do not wait for what is on that stream already: all earlier use of
  /// the pixels' memory, and of this decoder, must have ended. What nvJPEG said where it refused the batch; nothing of
  /// it is decoded then. Empty: what a unit could not decode may still be missing.
  std::string decode(std::span<const NvjpegPicture> pictures, cudaStream_t stream);

 private:
  void reset() noexcept;

  std::shared_ptr<const Nvjpeg> nvjpeg_;
  const NvjpegOutput output_;
  const bool in_turns_;
  nvjpeg::State state_ = nullptr;
  int batch_ = 0;  ///< that the state is made for
  std::vector<const unsigned char*> data_;
  std::vector<std::size_t> lengths_;
  std::vector<nvjpeg::Image> images_;
};

/// Decodes with the multiprocessors and the calling thread, one picture at a time.
class SmsDecoder {
 public:
  explicit SmsDecoder(std::shared_ptr<const Nvjpeg> nvjpeg);
  ~SmsDecoder();
  SmsDecoder(const SmsDecoder&) = delete;
  SmsDecoder& operator=(const SmsDecoder&) = delete;

  /// Waits until the picture is there. What nvJPEG said where it refused it.
  std::string decode(const NvjpegPicture& picture, NvjpegOutput output);

 private:
  std::shared_ptr<const Nvjpeg> nvjpeg_;
  nvjpeg::State state_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace mobicuda::pictures
