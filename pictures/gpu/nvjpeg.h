#pragma once

#include <array>
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
enum class NvjpegPart : std::uint8_t {
  Units,         ///< the JPEG units, in batches
  Sms,           ///< the multiprocessors, one picture at a time, whose codes the calling thread reads
  SmsInBatches,  ///< the multiprocessors, which read the codes too in batches of kFewestInBatches or more
};
inline constexpr std::array kNvjpegParts{NvjpegPart::Units, NvjpegPart::Sms, NvjpegPart::SmsInBatches};

/// Of fewer pictures nvJPEG's NvjpegPart::SmsInBatches has the calling thread read the codes (nvjpeg.h of version 13).
inline constexpr std::size_t kFewestInBatches = 51;

/// A picture for nvJPEG: its bytes, and where its pixels go on the device.
struct NvjpegPicture {
  std::span<const std::uint8_t> encoded;
  nvjpeg::Image pixels{};
};

/// nvJPEG, loaded at run time, on one device: its JPEG units where it has some, and its multiprocessors. Safe
/// to share between threads; states and parsers are for one each. Lives as long as any of them.
class Nvjpeg : public std::enable_shared_from_this<Nvjpeg> {
 public:
  /// Of the file, or, where that is empty, the one that the dynamic linker or the toolkit has; the device is current.
  /// One that is in use is shared. Throws Error(device_unavailable) with the reason and the remedy. Thread-safe.
  static std::shared_ptr<const Nvjpeg> load(const std::filesystem::path& library, const Device& device);
  ~Nvjpeg();
  Nvjpeg(const Nvjpeg&) = delete;
  Nvjpeg& operator=(const Nvjpeg&) = delete;

  bool has(NvjpegPart part) const noexcept { return handle(part) != nullptr; }
  /// Decodes a picture of each kind with the part, once in a process: gives() does not wait for that, and needs no
  /// device, afterwards. Until then the device must be current.
  void try_part(NvjpegPart part) const;
  /// Whether pictures of this kind come as RGB that is a few levels from libjpeg-turbo's at most, or as planes that are
  /// libjpeg-turbo's but for the DCT.
  bool gives(NvjpegPart part, NvjpegOutput output, Sampling sampling) const;
  std::string version() const;

  const nvjpeg::Api& api() const noexcept { return api_; }
  /// Null where the GPU or the version has no such part.
  nvjpeg::Handle handle(NvjpegPart part) const noexcept { return handles_[static_cast<std::size_t>(part)]; }

 private:
  struct Tried {
    std::once_flag once;
    std::bitset<kSamplings> rgb, planes;
  };
  using TriedParts = std::array<Tried, kNvjpegParts.size()>;

  explicit Nvjpeg(const Device& device) : device_(device) {}
  /// Not shared, and without what was tried.
  static std::shared_ptr<Nvjpeg> load_anew(const std::filesystem::path& library, const Device& device);

  const Device device_;
  void* library_ = nullptr;
  nvjpeg::Api api_{};
  std::array<nvjpeg::Handle, kNvjpegParts.size()> handles_{};
  std::shared_ptr<TriedParts> tried_;  ///< of all objects of the same library and device
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

/// Decodes a batch at a time, to one kind of output.
class BatchDecoder {
 public:
  /// part: Units or SmsInBatches, which nvjpeg has.
  BatchDecoder(std::shared_ptr<const Nvjpeg> nvjpeg, NvjpegPart part, NvjpegOutput output)
      : nvjpeg_(std::move(nvjpeg)), part_(part), output_(output) {}
  ~BatchDecoder();
  BatchDecoder(const BatchDecoder&) = delete;
  BatchDecoder& operator=(const BatchDecoder&) = delete;

  /// Enqueues the pictures on a stream. The units do not wait for what is on that stream already: all earlier use of
  /// the pixels' memory, and of this decoder, must have ended. What nvJPEG said where it refused the batch; nothing of
  /// it is decoded then. Empty: what could not be decoded may still be missing.
  std::string decode(std::span<const NvjpegPicture> pictures, cudaStream_t stream);

 private:
  void reset() noexcept;

  std::shared_ptr<const Nvjpeg> nvjpeg_;
  const NvjpegPart part_;
  const NvjpegOutput output_;
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
