#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "kernels/common/launch.h"
#include "support/gpu_traits.h"
#include "support/tolerance.h"

namespace mobicuda::test {

using kernels::Elem;

inline void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

/// Waits for the GPU; throws what a kernel did wrong.
inline void synchronize() { check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

/// How a result stored as `elem` rounds, and for F64 is rounded to float by DeviceTensor::download().
inline Store store_of(Elem elem) { return elem == Elem::F16 ? kStoreF16 : kStoreF32; }

/// How sums of kernels on `elem` round, tensor cores apart.
inline double unit_of(Elem elem) { return elem == Elem::F64 ? kUnitF64 : kUnitF32; }

/// What `values` become when stored as `elem`: the oracle must start from these.
inline std::vector<float> rounded(Elem elem, std::vector<float> values) {
  if (elem == Elem::F16) {
    for (float& value : values) value = __half2float(__float2half_rn(value));
  }
  return values;
}

/// Device memory between two canaries of 4 KiB, the second of which starts right after the last byte.
class GuardedBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 4096;

  /// Filled with 0xFF, which is NaN in float and in half. `misalign_bytes` moves the start off its 256-byte
  /// alignment.
  explicit GuardedBuffer(std::size_t bytes, std::size_t misalign_bytes = 0)
      : bytes_(bytes), front_bytes_(kGuardBytes + misalign_bytes) {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, total_bytes()), "cudaMalloc");
    memory_ = static_cast<std::byte*>(memory);
    check_cuda(cudaMemset(memory_, kCanary, total_bytes()), "cudaMemset");
    fill_nan();
  }
  /// Holds a copy of `contents`.
  explicit GuardedBuffer(std::span<const std::byte> contents) : GuardedBuffer(contents.size()) { upload(contents); }
  GuardedBuffer(GuardedBuffer&& other) noexcept
      : bytes_(other.bytes_),
        front_bytes_(other.front_bytes_),
        memory_(std::exchange(other.memory_, nullptr)),
        uploaded_(std::move(other.uploaded_)) {}
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(GuardedBuffer&&) = delete;
  ~GuardedBuffer() { cudaFree(memory_); }

  void* data() const { return memory_ + front_bytes_; }
  std::size_t bytes() const { return bytes_; }

  void fill_nan() { check_cuda(cudaMemset(data(), kNanByte, bytes_), "cudaMemset"); }

  void upload(std::span<const std::byte> contents) {
    if (contents.size() != bytes_) throw std::runtime_error("upload of the wrong size");
    uploaded_.assign(contents.begin(), contents.end());
    if (bytes_ == 0) return;
    check_cuda(cudaMemcpy(data(), contents.data(), bytes_, cudaMemcpyHostToDevice), "upload");
  }

  std::vector<std::byte> download() const {
    std::vector<std::byte> contents(bytes_);
    if (bytes_ == 0) return contents;
    check_cuda(cudaMemcpy(contents.data(), data(), bytes_, cudaMemcpyDeviceToHost), "download");
    return contents;
  }

  /// Whether nothing wrote outside the buffer.
  bool check_guards() const {
    return is_canary(memory_, front_bytes_) && is_canary(memory_ + front_bytes_ + bytes_, kGuardBytes);
  }

  /// For inputs: whether nothing wrote outside it, nor changed what was uploaded.
  bool check_unchanged() const { return check_guards() && download() == uploaded_; }

 private:
  static constexpr int kCanary = 0xA5;
  static constexpr int kNanByte = 0xFF;

  std::size_t total_bytes() const { return front_bytes_ + bytes_ + kGuardBytes; }

  static bool is_canary(const std::byte* device, std::size_t bytes) {
    std::vector<std::byte> contents(bytes);
    check_cuda(cudaMemcpy(contents.data(), device, bytes, cudaMemcpyDeviceToHost), "download of a guard");
    return std::all_of(contents.begin(), contents.end(), [](std::byte b) { return b == std::byte{kCanary}; });
  }

  std::size_t bytes_;
  std::size_t front_bytes_;
  std::byte* memory_ = nullptr;
  std::vector<std::byte> uploaded_;
};

/// A guarded device array of float, half or double elements; the host side speaks float.
class DeviceTensor {
 public:
  /// An output: `count` NaNs. `misalign_elements` moves its start off the 256-byte alignment.
  DeviceTensor(Elem elem, std::size_t count, std::size_t misalign_elements = 0)
      : elem_(elem),
        count_(count),
        buffer_(count * kernels::size_of(elem), misalign_elements * kernels::size_of(elem)) {}

  /// An input, rounded to `elem`.
  DeviceTensor(Elem elem, std::span<const float> values, std::size_t misalign_elements = 0)
      : DeviceTensor(elem, values.size(), misalign_elements) {
    upload(values);
  }

  Elem elem() const { return elem_; }
  std::size_t count() const { return count_; }
  void* data() const { return buffer_.data(); }
  /// data() as float, for bias and the like.
  const float* floats() const { return static_cast<const float*>(buffer_.data()); }

  void fill_nan() { buffer_.fill_nan(); }

  void upload(std::span<const float> values) {
    if (elem_ == Elem::F32) {
      buffer_.upload(std::as_bytes(values));
      return;
    }
    if (elem_ == Elem::F64) {
      upload(std::vector<double>(values.begin(), values.end()));
      return;
    }
    std::vector<__half_raw> halves(values.size());
    std::transform(values.begin(), values.end(), halves.begin(),
                   [](float value) { return static_cast<__half_raw>(__float2half_rn(value)); });
    buffer_.upload(std::as_bytes(std::span(std::as_const(halves))));
  }

  /// For F64.
  void upload(const std::vector<double>& values) { buffer_.upload(std::as_bytes(std::span(values))); }

  /// For F64.
  std::vector<double> download_doubles() const {
    const std::vector<std::byte> bytes = buffer_.download();
    std::vector<double> values(count_);
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  std::vector<float> download() const {
    if (elem_ == Elem::F64) {
      const std::vector<double> doubles = download_doubles();
      std::vector<float> values(count_);
      std::transform(doubles.begin(), doubles.end(), values.begin(),
                     [](double value) { return static_cast<float>(value); });
      return values;
    }
    const std::vector<std::byte> bytes = buffer_.download();
    std::vector<float> values(count_);
    if (elem_ == Elem::F32) {
      if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
      return values;
    }
    for (std::size_t i = 0; i < count_; ++i) {
      __half_raw raw;
      std::memcpy(&raw, bytes.data() + i * sizeof raw, sizeof raw);
      values[i] = __half2float(__half(raw));
    }
    return values;
  }

  std::vector<std::byte> download_bytes() const { return buffer_.download(); }
  bool check_guards() const { return buffer_.check_guards(); }
  bool check_unchanged() const { return buffer_.check_unchanged(); }

 private:
  Elem elem_;
  std::size_t count_;
  GuardedBuffer buffer_;
};

}  // namespace mobicuda::test
