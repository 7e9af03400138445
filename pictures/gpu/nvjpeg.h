#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "pictures/gpu/nvjpeg_api.h"
#include "runtime/device_guard.h"

namespace mobicuda::pictures {

/// A picture for nvJPEG: its bytes, and where its pixels go, interleaved RGB without padding between rows.
struct NvjpegPicture {
  std::span<const std::uint8_t> encoded;
  std::uint8_t* pixels = nullptr;  ///< on the device
  int width = 0;
};

/// nvJPEG, loaded at run time, on one device: its JPEG units where it has some, else its multiprocessors. Safe
/// to share between threads; states and parsers are for one each. Lives as long as any of them.
class Nvjpeg {
 public:
  /// Of the file, or, where that is empty, the one that the dynamic linker or the toolkit has; the device is current.
  /// Throws Error(device_unavailable) with the reason and the remedy.
  static std::shared_ptr<const Nvjpeg> load(const std::filesystem::path& library, const Device& device);
  ~Nvjpeg();
  Nvjpeg(const Nvjpeg&) = delete;
  Nvjpeg& operator=(const Nvjpeg&) = delete;

  bool has_units() const noexcept { return units_ != nullptr; }
  std::string version() const;

  const nvjpeg::Api& api() const noexcept { return api_; }
  nvjpeg::Handle units() const noexcept { return units_; }
  nvjpeg::Handle sms() const noexcept { return sms_; }

 private:
  explicit Nvjpeg(const Device& device) : device_(device) {}

  const Device device_;
  void* library_ = nullptr;
  nvjpeg::Api api_{};
  nvjpeg::Handle units_ = nullptr;
  nvjpeg::Handle sms_ = nullptr;
};

/// Asks which pictures the JPEG units take.
class NvjpegParser {
 public:
  explicit NvjpegParser(std::shared_ptr<const Nvjpeg> nvjpeg);
  ~NvjpegParser();
  NvjpegParser(const NvjpegParser&) = delete;
  NvjpegParser& operator=(const NvjpegParser&) = delete;

  bool units_take(std::span<const std::uint8_t> file);

 private:
  std::shared_ptr<const Nvjpeg> nvjpeg_;
  nvjpeg::JpegStream stream_ = nullptr;
};

/// Decodes with the JPEG units, a batch at a time.
class UnitsDecoder {
 public:
  explicit UnitsDecoder(std::shared_ptr<const Nvjpeg> nvjpeg) : nvjpeg_(std::move(nvjpeg)) {}
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
  std::string decode(const NvjpegPicture& picture);

 private:
  std::shared_ptr<const Nvjpeg> nvjpeg_;
  nvjpeg::State state_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace mobicuda::pictures
