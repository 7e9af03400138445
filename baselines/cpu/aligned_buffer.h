#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include <mobicuda/error.h>

#include "graph/memory_planner.h"

namespace mobicuda::cpu {

/// Uninitialised host memory with one owner, aligned to kBufferAlignment.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Throws Error(out_of_memory) naming `what` and the bytes.
  AlignedBuffer(std::int64_t bytes, std::string_view what) : bytes_(bytes) {
    if (bytes == 0) return;
    data_.reset(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow)));
    if (data_ == nullptr) {
      throw Error(ErrorCode::out_of_memory, std::string(what),
                  "no host memory for " + std::to_string(bytes) + " bytes");
    }
  }

  std::byte* data() const noexcept { return data_.get(); }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::align_val_t kAlignment{static_cast<std::size_t>(kBufferAlignment)};
  struct Release {
    void operator()(std::byte* data) const noexcept { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<std::byte, Release> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace mobicuda::cpu
