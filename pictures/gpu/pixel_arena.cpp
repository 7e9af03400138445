#include "pictures/gpu/pixel_arena.h"

#include <algorithm>

#include <mobicuda/error.h>

#include "pictures/gpu/resize_batch.h"
#include "runtime/cuda_check.h"

namespace mobicuda::pictures {
namespace {

constexpr std::int64_t kAlignment = 256;

}  // namespace

PixelArena::PixelArena(std::int64_t bytes, std::int64_t most, bool waits_idly)
    : most_(most / kAlignment * kAlignment),
      filled_(cudaEventDisableTiming | (waits_idly ? cudaEventBlockingSync : 0U)),
      memory_(std::min(bytes, most_), "decoded pictures") {
  fill(memory_.bytes());
}

std::uint8_t* PixelArena::reserve(std::int64_t bytes) {
  const std::int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::scoped_lock lock(mutex_);
  wanted_ = std::min(wanted_ + rounded, most_);
  if (rounded > memory_.bytes() - used_) return nullptr;
  std::uint8_t* const at = static_cast<std::uint8_t*>(memory_.data()) + used_;
  used_ += rounded;
  return at;
}

void PixelArena::reset() {
  bool grown = false;
  if (wanted_ > memory_.bytes()) {
    const std::int64_t bytes = std::max(wanted_ + wanted_ / 4, 2 * memory_.bytes()) / kAlignment * kAlignment;
    try {
      memory_ = DeviceBuffer(std::min(most_, bytes), "decoded pictures");
      grown = true;
    } catch (const Error& error) {
      // What there is will do: the CPU decodes what does not fit.
      if (error.code() != ErrorCode::out_of_memory) throw;
    }
  }
  fill(grown ? memory_.bytes() : used_);
  used_ = wanted_ = 0;
}

void PixelArena::fill(std::int64_t bytes) {
  cuda_check(fill_marks(static_cast<std::uint8_t*>(memory_.data()), bytes, stream_.get()), "marking memory");
  cuda_check(cudaEventRecord(filled_.get(), stream_.get()), "marking memory");
}

void PixelArena::wait_until_filled() const {
  // Mostly it is, and a thread that sleeps is woken late.
  const cudaError_t status = cudaEventQuery(filled_.get());
  if (status == cudaErrorNotReady) {
    cuda_check(cudaEventSynchronize(filled_.get()), "marking memory");
  } else {
    cuda_check(status, "marking memory");
  }
}

}  // namespace mobicuda::pictures
