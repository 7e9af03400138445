#include "runtime/cuda_engine.h"

#include <utility>

#include "graph/memory_planner.h"
#include "runtime/cuda_check.h"
#include "runtime/cuda_session.h"

namespace mobicuda {

CudaEngine::CudaEngine(std::string_view backend, EngineOptions options, TensorDesc input, TensorDesc output,
                       CudaPlan plan)
    : Engine(std::move(options), input, output),
      backend_(backend),
      device_(open_device(this->options().device)),
      plan_(std::move(plan)) {
  layers_.reserve(plan_.steps.size());
  for (const CudaStep& step : plan_.steps) layers_.push_back(step.info);
}

CudaEngine::~CudaEngine() {
  const DeviceGuard guard(device_, std::nothrow);
  plan_ = {};  // frees what is on the device
}

MemoryReport CudaEngine::memory() const noexcept {
  MemoryReport report;
  report.weight_bytes = plan_.weight_bytes;
  report.workspace_bytes = plan_.workspace_bytes;
  report.io_bytes = options().max_batch * (input().shape.elements() * size_of(input().dtype) +
                                           output().shape.elements() * size_of(output().dtype));
  report.arena_bytes = plan_.arena_bytes;
  if (options().guarded_arena) {
    report.arena_bytes = 0;
    for (const CudaBuffer& buffer : plan_.buffers) {
      if (buffer.place == CudaBuffer::Place::Arena) report.arena_bytes += buffer.bytes;
    }
  }
  return report;
}

SavedEngine CudaEngine::saved() const {
  if (!plan_.recipe) return Engine::saved();
  const DeviceGuard guard(device_);
  SavedEngine saved = *plan_.recipe;
  saved.processor = device_description(options().device);
  saved.weights = WeightBytes(plan_.weights->bytes());
  plan_.weights->download(saved.weights.span());
  return saved;
}

std::unique_ptr<Session> CudaEngine::create_session() const {
  const DeviceGuard guard(device_);
  return std::make_unique<CudaSession>(std::static_pointer_cast<const CudaEngine>(shared_from_this()));
}

std::int64_t WeightBlob::add(std::int64_t bytes, std::byte** host) {
  const auto offset = static_cast<std::int64_t>(host_.size());
  const std::int64_t padded = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  host_.resize(host_.size() + static_cast<std::size_t>(padded));
  *host = host_.data() + offset;
  return offset;
}

std::shared_ptr<const DeviceBuffer> WeightBlob::upload() const { return mobicuda::upload(host_); }

std::shared_ptr<const DeviceBuffer> upload(std::span<const std::byte> weights) {
  auto buffer = std::make_shared<DeviceBuffer>(static_cast<std::int64_t>(weights.size()), "weights");
  buffer->upload(weights);
  return buffer;
}

}  // namespace mobicuda
