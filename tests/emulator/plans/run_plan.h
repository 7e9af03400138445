// A plan of the custom engine, step by step on the emulator.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "emulator/emulator.h"
#include "kernels/common/device_traits.h"
#include "lower/lower.h"
#include "lower/weight_pieces.h"
#include "support/catch.h"

namespace mobicuda::plans {

/// On an H200 as the emulator plays one.
inline const kernels::DeviceTraits kGpu = kernels::traits_of(90, 132);

/// Memory that begins on 256 bytes.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : memory_(bytes + kAlignment) {}
  std::byte* data() {
    void* at = memory_.data();
    std::size_t space = memory_.size();
    return static_cast<std::byte*>(std::align(kAlignment, 1, at, space));
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::vector<std::byte> memory_;
};

/// What came out, and the kernels of the steps.
struct Run {
  std::vector<float> output;
  std::vector<std::string> kernels;
  std::vector<std::string> variants;  ///< with the kernels' names before them
  std::set<std::int64_t> lines;       ///< of the weights that were brought to L2 ahead: their offsets
};

inline Run run_plan(const Graph& graph, const EngineOptions& options, const std::vector<float>& input,
                    const kernels::DeviceTraits& gpu = kGpu) {
  SavedPlan saved;
  saved.batch = options.max_batch;
  saved.choices = choose_layers(graph, options, gpu).choices;
  WeightPieces weights;
  const auto base = std::make_shared<const std::byte*>(nullptr);
  const CudaPlan plan = lower(graph, options, gpu, saved, weights, base);
  Buffer packed(weights.bytes().size());
  std::ranges::copy(weights.bytes(), packed.data());
  *base = packed.data();

  Buffer arena(static_cast<std::size_t>(plan.arena_bytes));
  Buffer in(input.size() * sizeof(float));
  std::memcpy(in.data(), input.data(), input.size() * sizeof(float));
  Run result;
  result.output.resize(static_cast<std::size_t>(options.max_batch * graph.output_desc().shape.elements()));
  Buffer out(result.output.size() * sizeof(float));
  std::vector<void*> buffers;
  for (const CudaBuffer& buffer : plan.buffers) {
    buffers.push_back(buffer.place == CudaBuffer::Place::Input    ? in.data()
                      : buffer.place == CudaBuffer::Place::Output ? out.data()
                                                                  : arena.data() + buffer.offset);
  }
  CudaStepContext context;
  context.n = options.max_batch;
  context.buffers = buffers.data();
  emulator::lines_brought().clear();
  for (const CudaStep& step : plan.steps) {
    INFO(step.info.name << ": " << step.info.kernel);
    REQUIRE(step.enqueue(context) == cudaSuccess);
    result.variants.push_back(step.info.kernel);
    result.kernels.push_back(step.info.kernel.substr(0, step.info.kernel.find('/')));
  }
  for (const void* line : emulator::lines_brought()) {
    const std::int64_t offset = static_cast<const std::byte*>(line) - packed.data();
    REQUIRE(offset >= 0);
    REQUIRE(offset < static_cast<std::int64_t>(weights.bytes().size()));
    result.lines.insert(offset);
  }
  std::memcpy(result.output.data(), out.data(), result.output.size() * sizeof(float));
  return result;
}

}  // namespace mobicuda::plans
