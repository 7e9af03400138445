#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mobicuda::stream {

/// Which model an item of the stream is for: drawn by the models' shares, the same for the same seed and item on every
/// machine, so that a stream that was ended can go on.
class Assignment {
 public:
  /// `shares`: one for each model, above 0.
  Assignment(const std::vector<double>& shares, std::uint64_t seed);

  std::size_t model_of(std::uint64_t item) const;

 private:
  std::vector<double> ends_;  ///< sums of the shares up to each model, the last one 1
  std::uint64_t seed_;
};

}  // namespace mobicuda::stream
