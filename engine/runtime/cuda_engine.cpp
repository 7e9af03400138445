#include "runtime/cuda_engine.h"

#include <algorithm>
#include <utility>

#include "graph/memory_errors.h"
#include "graph/memory_planner.h"
#include "runtime/cuda_check.h"
#include "runtime/cuda_session.h"

namespace mobicuda {

std::size_t CudaNetwork::plan_for(std::int64_t n) const noexcept {
  const auto found = std::lower_bound(
      plans.begin(), plans.end(), n, [](const CudaPlan& plan, std::int64_t pictures) { return plan.batch < pictures; });
  return static_cast<std::size_t>(found - plans.begin());
}

CudaEngine::CudaEngine(std::string_view backend, EngineOptions options, TensorDesc input, TensorDesc output,
                       CudaNetwork network)
    : Engine(std::move(options), input, output),
      backend_(backend),
      device_(open_device(this->options().device)),
      network_(std::move(network)) {
  for (const CudaPlan& plan : network_.plans) {
    std::vector<LayerInfo>& layers = layers_.emplace_back();
    for (const CudaStep& step : plan.steps) layers.push_back(step.info);
  }
}

CudaEngine::~CudaEngine() {
  const DeviceGuard guard(device_, std::nothrow);
  network_ = {};  // frees what is on the device
}

std::span<const LayerInfo> CudaEngine::do_layers(std::int64_t n) const noexcept {
  return layers_[network_.plan_for(n)];
}

std::int64_t CudaEngine::input_buffer_bytes() const noexcept {
  constexpr std::int64_t kWord = 4;
  const std::int64_t bytes = options().max_batch * input().shape.elements() * size_of(input().dtype);
  return (bytes + kWord - 1) / kWord * kWord;
}

MemoryReport CudaEngine::memory() const noexcept {
  MemoryReport report;
  report.weight_bytes = network_.weight_bytes;
  report.workspace_bytes = network_.workspace_bytes;
  report.io_bytes = input_buffer_bytes() + options().max_batch * output().shape.elements() * size_of(output().dtype);
  for (const CudaPlan& plan : network_.plans) {
    if (!options().guarded_arena) {
      report.arena_bytes = std::max(report.arena_bytes, plan.arena_bytes);
      continue;
    }
    for (const CudaBuffer& buffer : plan.buffers) {
      if (buffer.place == CudaBuffer::Place::Arena) report.arena_bytes += buffer.bytes;
    }
  }
  return report;
}

SavedEngine CudaEngine::saved() const {
  return with_memory_errors("saved engine", [&] {
    if (!network_.recipe) return Engine::saved();
    const DeviceGuard guard(device_);
    SavedEngine saved = *network_.recipe;
    saved.processor = device_description(options().device);
    saved.weights = WeightBytes(network_.weights->bytes());
    network_.weights->download(saved.weights.span());
    return saved;
  });
}

std::unique_ptr<Session> CudaEngine::do_create_session() const {
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
