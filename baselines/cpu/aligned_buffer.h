#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include <mobicuda/error.h>

#include "graph/huge_pages.h"
#include "graph/memory_planner.h"

namespace mobicuda::cpu {

/// Uninitialised host memory with one owner, aligned to kBufferAlignment at least.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Throws Error(out_of_memory) naming `what` and the bytes.
  AlignedBuffer(std::int64_t bytes, std::string_view what) : bytes_(bytes) {
    if (bytes == 0) return;
    const auto size = static_cast<std::size_t>(bytes);
    const std::align_val_t alignment = block_alignment(size, static_cast<std::size_t>(kBufferAlignment));
    data_ = {static_cast<std::byte*>(::operator new(size, alignment, std::nothrow)), Release{alignment}};
    if (data_ == nullptr) {
      throw Error(ErrorCode::out_of_memory, std::string(what),
                  "no host memory for " + std::to_string(bytes) + " bytes");
    }
    ask_for_huge_pages(data_.get(), size);
  }

  std::byte* data() const noexcept { return data_.get(); }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  struct Release {
    std::align_val_t alignment;
    void operator()(std::byte* data) const noexcept { ::operator delete(data, alignment); }
  };
  std::unique_ptr<std::byte, Release> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace mobicuda::cpu
