#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "stream/items.h"

namespace mobicuda::stream {

/// Classifies units, one after the other, in the thread that calls it.
class Worker {
 public:
  using Take = std::function<void(std::span<const Outcome>)>;

  virtual ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Hands over the outcomes of a unit's items, in their order, as they come. Ends between two of them where `stop`
  /// asks for it. Throws Error, and what `take` throws.
  virtual void classify(const Unit& unit, const Take& take, const std::stop_token& stop) = 0;

 protected:
  Worker() = default;
};

/// What a GPU does at a moment, where that is known.
struct Load {
  std::optional<double> percent;  ///< of a past while in which a kernel ran
  std::optional<double> power_w;
};

/// A GPU, or the CPU.
struct Processor {
  std::string name;
  std::optional<int> gpu;  ///< nothing: the CPU
  std::vector<std::unique_ptr<Worker>> workers;
  std::function<Load()> load;  ///< may be empty; called by a thread of its own
};

}  // namespace mobicuda::stream
