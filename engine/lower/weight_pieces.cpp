#include "lower/weight_pieces.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace mobicuda {

std::int64_t WeightPieces::store(std::span<const std::byte> piece) {
  const auto bytes = static_cast<std::int64_t>(piece.size());
  const std::size_t hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(piece.data()), piece.size()});
  const auto [first, last] = by_content_.equal_range(hash);
  for (auto found = first; found != last; ++found) {
    const auto& [offset, length] = found->second;
    if (length == bytes &&
        std::ranges::equal(blob_.span().subspan(static_cast<std::size_t>(offset), piece.size()), piece)) {
      return offset;
    }
  }
  std::byte* host = nullptr;
  const std::int64_t offset = blob_.add(bytes, &host);
  std::ranges::copy(piece, host);
  by_content_.emplace(hash, SavedPiece{offset, bytes});
  return offset;
}

std::shared_ptr<const DeviceBuffer> WeightPieces::on_device() {
  if (replay_) replay_->finish();
  if (!uploaded_ || uploaded_pieces_ != pieces_.size()) {
    uploaded_ = nullptr;  // returns its memory first
    uploaded_ = upload(bytes());
    uploaded_pieces_ = pieces_.size();
  }
  return uploaded_;
}

}  // namespace mobicuda
