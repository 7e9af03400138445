#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <cuda_runtime_api.h>

#include <mobicuda/export.h>

namespace mobicuda {

/// Device memory with one owner, 256-byte aligned. Belongs to the device that was current at construction.
class MOBICUDA_API DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Uninitialised. Throws Error(out_of_memory) naming `what` and the bytes.
  DeviceBuffer(std::int64_t bytes, const char* what);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  void* data() const noexcept { return data_; }
  std::int64_t bytes() const noexcept { return bytes_; }
  /// Copies from the host to the buffer's start. When it returns, all streams see the bytes.
  void upload(std::span<const std::byte> source);
  /// Blocking copy of the buffer's start to the host.
  void download(std::span<std::byte> target) const;

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Page-locked host memory with one owner, zeroed, that the GPU can read and write at the same address.
class MOBICUDA_API PinnedBuffer {
 public:
  PinnedBuffer() = default;
  /// Throws Error(out_of_memory) naming `what` and the bytes.
  PinnedBuffer(std::int64_t bytes, const char* what);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class MOBICUDA_API Stream {
 public:
  Stream();
  ~Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  cudaStream_t get() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Event for timing, or one that only orders streams, with cudaEventDisableTiming.
class MOBICUDA_API Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault);
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  cudaEvent_t get() const noexcept { return event_; }
  /// Milliseconds from `start` to this event; both are for timing and must have been reached.
  double since(const Event& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace mobicuda
