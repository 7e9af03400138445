#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/export.h>
#include <mobicuda/graph.h>

namespace mobicuda {

/// Host memory for packed weights, aligned as device memory is; copies share it.
class MOBICUDA_API WeightBytes {
 public:
  WeightBytes() = default;
  /// Uninitialised. Throws Error(out_of_memory).
  explicit WeightBytes(std::int64_t bytes);

  std::span<std::byte> span() noexcept { return {data_.get(), bytes_}; }
  std::span<const std::byte> span() const noexcept { return {data_.get(), bytes_}; }
  /// The part at `offset`, which keeps the whole alive.
  std::shared_ptr<std::byte> at(std::int64_t offset) const { return {data_, data_.get() + offset}; }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t bytes_ = 0;
};

/// One decision of the planner.
struct SavedChoice {
  std::string kernel;   ///< "gemm", "block", ...
  std::string variant;  ///< empty: no variant, where there is that choice
  std::string reason;   ///< LayerInfo::reason
};

/// The decisions for runs of up to `batch` images.
struct SavedPlan {
  std::int64_t batch = 1;
  std::vector<SavedChoice> choices;  ///< in the order in which they were made
};

/// Packed bytes of one weight, or of several that a kernel wants together.
struct SavedPiece {
  std::int64_t offset = 0;  ///< in the weights, a multiple of kWeightAlignment; pieces of the same bytes share it
  std::int64_t bytes = 0;

  friend bool operator==(const SavedPiece&, const SavedPiece&) = default;
};

/// Machine code of a kernel that was compiled for the network (EngineOptions::specialise). It is run as it is: load
/// saved engines from where you would load programs from.
struct SavedCode {
  std::string header;      ///< the device header that it is an instance from
  std::string expression;  ///< its C++ name
  std::string kernel;      ///< its name in the code
  std::string image;       ///< what the driver loads
  std::string sources;     ///< hash of the device headers that it was compiled from: with others it is compiled anew

  friend bool operator==(const SavedCode&, const SavedCode&) = default;
};

/// What compile() made of a network, in a form that can be stored: Backend::restore() makes the same engine of it
/// without the passes, the choices and the packing. Lowering is deterministic, so the rest is repeated.
struct SavedEngine {
  std::string backend;    ///< Engine::backend()
  std::string processor;  ///< what weights and choices were made for: the GPU, or the CPU's instruction set
  /// Precision, max_batch, plan_batches, picture_input and kernel_variants; the rest has no meaning.
  EngineOptions options;
  Graph graph;                     ///< optimised; its constants have no elements
  std::vector<SavedPlan> plans;    ///< by rising batch, the last for max_batch; none where nothing was chosen
  std::vector<SavedPiece> pieces;  ///< in the order of packing
  WeightBytes weights;             ///< the pieces
  std::vector<SavedCode> code{};   ///< of specialised kernels
};

inline constexpr std::int64_t kWeightAlignment = 256;

/// The same graph with constants that have a shape and no elements.
MOBICUDA_API Graph without_constants(const Graph& graph);

/// `saved` with the options that are a machine's or a run's rather than the plan's, taken from `options`. Throws
/// Error(invalid_argument) where `options` asks for another precision, batch, plans, input or kernel than was compiled.
MOBICUDA_API EngineOptions restored_options(const SavedEngine& saved, const EngineOptions& options);

/// Throws Error(unsupported) unless `saved` is of this backend and was made for this processor.
MOBICUDA_API void require_origin(const SavedEngine& saved, std::string_view backend, std::string_view processor);

/// Throws Error(invalid_model) unless the plans' batches rise from 1 or more to max_batch.
MOBICUDA_API void require_plans(const SavedEngine& saved);

/// Hands out the pieces of a saved engine's weights in the order in which compile() packed them.
class MOBICUDA_API WeightReplay {
 public:
  explicit WeightReplay(const SavedEngine& saved) : saved_(saved) {}
  /// Offset of the next piece. Throws Error(invalid_model) unless it is of so many bytes and inside the weights.
  std::int64_t next(std::int64_t bytes);
  /// Throws Error(invalid_model) when pieces or weights are left.
  void finish() const;

 private:
  const SavedEngine& saved_;
  std::size_t piece_ = 0;
  std::int64_t end_ = 0;  ///< of the pieces so far
};

}  // namespace mobicuda
