#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <mobicuda/tensor.h>

#include "runtime/cuda_engine.h"

namespace mobicuda::cudnn {

/// Collects an engine's constants and says where they will be on the device.
class WeightStore {
 public:
  /// A constant's device address, known once the store has been uploaded.
  class Address {
   public:
    Address() = default;  ///< of no constant: null
    const void* get() const { return base_ == nullptr ? nullptr : static_cast<const std::byte*>(*base_) + offset_; }

   private:
    friend class WeightStore;
    Address(std::shared_ptr<const void* const> base, std::int64_t offset) : base_(std::move(base)), offset_(offset) {}
    std::shared_ptr<const void* const> base_;
    std::int64_t offset_ = 0;
  };

  /// A vector, converted to `element`.
  Address add_vector(const HostTensor& values, DType element);
  /// A filter (O, I, kh, kw) or matrix (O, I), converted to `element` and reordered: OIHW for NCHW, OHWI for
  /// NHWC. Input channels beyond I, up to `channels`, are zero.
  Address add_filter(const HostTensor& filter, std::int64_t channels, Layout layout, DType element);

  std::int64_t bytes() const noexcept { return blob_.bytes(); }
  /// Copies everything to the device; the result must outlive every use of an Address.
  std::shared_ptr<const DeviceBuffer> upload();

 private:
  template <class Source>
  Address add(std::int64_t count, DType element, const Source& value_at);

  WeightBlob blob_;
  std::shared_ptr<const void*> base_ = std::make_shared<const void*>(nullptr);
};

}  // namespace mobicuda::cudnn
