#include "cudnn/pack_weights.h"

#include <cstring>
#include <utility>

#include <cuda_fp16.h>

namespace mobicuda::cudnn {
namespace {

// The host buffer has no type: values are copied in byte by byte.
template <class T>
void write_at(std::byte* target, std::int64_t index, T value) {
  std::memcpy(target + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

template <class Source>
WeightStore::Address WeightStore::add(std::int64_t count, DType element, const Source& value_at) {
  std::byte* host = nullptr;
  const std::int64_t offset = blob_.add(count * size_of(element), &host);
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = value_at(i);
    if (element == DType::F16) {
      write_at(host, i, __float2half_rn(value));
    } else if (element == DType::F64) {
      write_at(host, i, static_cast<double>(value));
    } else {
      write_at(host, i, value);
    }
  }
  return {base_, offset};
}

WeightStore::Address WeightStore::add_vector(const HostTensor& values, DType element) {
  const auto data = values.data<float>();
  return add(values.elements(), element, [&](std::int64_t i) { return data[static_cast<std::size_t>(i)]; });
}

WeightStore::Address WeightStore::add_filter(const HostTensor& filter, std::int64_t channels, Layout layout,
                                             DType element) {
  const auto data = filter.data<float>();
  const Shape& shape = filter.shape();
  const std::int64_t outputs = shape[0];
  const std::int64_t inputs = shape[1];
  const std::int64_t taps = shape.rank() == 4 ? shape[2] * shape[3] : 1;
  return add(outputs * channels * taps, element, [&](std::int64_t i) {
    const bool channels_last = layout == Layout::NHWC;
    const std::int64_t o = i / (channels * taps);
    const std::int64_t rest = i % (channels * taps);
    const std::int64_t c = channels_last ? rest % channels : rest / taps;
    const std::int64_t tap = channels_last ? rest / channels : rest % taps;
    return c < inputs ? data[static_cast<std::size_t>((o * inputs + c) * taps + tap)] : 0.0F;
  });
}

std::shared_ptr<const DeviceBuffer> WeightStore::upload() {
  std::shared_ptr<const DeviceBuffer> buffer = blob_.upload();
  *base_ = buffer->data();
  return buffer;
}

}  // namespace mobicuda::cudnn
