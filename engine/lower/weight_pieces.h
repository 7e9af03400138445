#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <mobicuda/graph.h>
#include <mobicuda/saved_engine.h>

#include "runtime/cuda_engine.h"

namespace mobicuda {

/// What a piece of packed weights is made of. In the plans of one engine equal keys have equal bytes.
struct PieceKey {
  std::string packing;  ///< the order of its elements: a kernel, and KernelTable::packing
  std::vector<ValueId> constants;
  std::int64_t bytes = 0;

  friend auto operator<=>(const PieceKey&, const PieceKey&) = default;
};

/// The packed weights of an engine, which its plans share: what several of them want is packed once, by its key, and
/// what has the same bytes lies in the same place.
class WeightPieces {
 public:
  /// Packs.
  WeightPieces() = default;
  /// Hands out those of a saved engine, which must outlive the object.
  explicit WeightPieces(const SavedEngine& saved) : saved_(&saved), replay_(saved) {}

  /// Where the piece lies. `fill` writes its bytes; it is called for a key that is new, and never for those of a saved
  /// engine, which throw Error(invalid_model) where it has others.
  template <class Fill>
  std::int64_t offset_of(const PieceKey& key, Fill&& fill);

  /// The pieces on the device, as the next call gives them unless one was added meanwhile. Throws Error(invalid_model)
  /// where a saved engine has more of them.
  std::shared_ptr<const DeviceBuffer> on_device();

  /// In the order of packing.
  const std::vector<SavedPiece>& pieces() const { return pieces_; }
  const std::map<PieceKey, SavedPiece>& by_key() const { return by_key_; }
  std::span<const std::byte> bytes() const { return saved_ != nullptr ? saved_->weights.span() : blob_.span(); }

 private:
  std::int64_t store(std::span<const std::byte> piece);

  const SavedEngine* saved_ = nullptr;
  std::optional<WeightReplay> replay_;
  WeightBlob blob_;
  std::vector<SavedPiece> pieces_;
  std::map<PieceKey, SavedPiece> by_key_;
  std::unordered_multimap<std::size_t, SavedPiece> by_content_;  ///< by the hash of their bytes
  std::shared_ptr<const DeviceBuffer> uploaded_;
  std::size_t uploaded_pieces_ = 0;
};

template <class Fill>
std::int64_t WeightPieces::offset_of(const PieceKey& key, Fill&& fill) {
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second.offset;
  SavedPiece piece{0, key.bytes};
  if (replay_) {
    piece.offset = replay_->next(key.bytes);
  } else {
    std::vector<std::byte> packed(static_cast<std::size_t>(key.bytes));
    fill(packed.data());
    piece.offset = store(packed);
  }
  pieces_.push_back(piece);
  by_key_.emplace(key, piece);
  return piece.offset;
}

}  // namespace mobicuda
