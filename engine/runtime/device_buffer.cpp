#include "runtime/device_buffer.h"

#include <cstring>
#include <string>

#include "runtime/cuda_check.h"

namespace mobicuda {

DeviceBuffer::DeviceBuffer(std::int64_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  cuda_check(cudaMalloc(&data_, static_cast<std::size_t>(bytes)),
             "allocating " + std::to_string(bytes) + " bytes of device memory for " + what);
}

// Statuses are dropped: after a lost device nothing can be done about them here. Freeing null would create a context
// where the thread has none.
DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) static_cast<void>(cudaFree(data_));
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void DeviceBuffer::upload(std::span<const std::byte> source) {
  if (static_cast<std::int64_t>(source.size()) > bytes_) {
    throw Error(ErrorCode::internal, "upload", "source is larger than the buffer");
  }
  if (source.empty()) return;
  // cudaMemcpy() may return while the last bytes of pageable memory are on their way to the device. Only streams that
  // wait for the legacy default stream would then wait for them, and a session's do not. A stream of its own can be
  // waited for, and does not itself wait for what the caller has on others.
  const Stream stream;
  cuda_check(cudaMemcpyAsync(data_, source.data(), source.size(), cudaMemcpyHostToDevice, stream.get()),
             "copying to the device");
  cuda_check(cudaStreamSynchronize(stream.get()), "copying to the device");
}

void DeviceBuffer::download(std::span<std::byte> target) const {
  if (static_cast<std::int64_t>(target.size()) > bytes_) {
    throw Error(ErrorCode::internal, "download", "target is larger than the buffer");
  }
  if (target.empty()) return;
  cuda_check(cudaMemcpy(target.data(), data_, target.size(), cudaMemcpyDeviceToHost), "copying from the device");
}

PinnedBuffer::PinnedBuffer(std::int64_t bytes, const char* what) {
  const auto size = static_cast<std::size_t>(bytes);
  cuda_check(cudaHostAlloc(&data_, size, cudaHostAllocPortable | cudaHostAllocMapped),
             "allocating " + std::to_string(bytes) + " bytes of page-locked host memory for " + what);
  std::memset(data_, 0, size);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) static_cast<void>(cudaFreeHost(data_));
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

Stream::Stream() { cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream"); }
Stream::~Stream() {
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

Event::Event(unsigned flags) { cuda_check(cudaEventCreateWithFlags(&event_, flags), "creating an event"); }
Event::~Event() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}

double Event::since(const Event& start) const {
  float milliseconds = 0.0F;
  cuda_check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "reading an event's time");
  return static_cast<double>(milliseconds);
}

}  // namespace mobicuda
