#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mobicuda::stream {

/// Number of a picture in the stream, from 0: picture `item % pictures` of the folder, for the
/// `item / pictures`-th time.
using Item = std::uint64_t;

/// The most items of a stream: one bit each is kept of those that an earlier run did.
inline constexpr Item kMostItems = Item{1} << 32U;

/// Items of one model that one worker classifies in a go.
struct Unit {
  std::size_t model = 0;
  std::vector<Item> items;
};

/// What became of an item.
struct Outcome {
  Item item = 0;
  std::vector<std::pair<std::size_t, float>> best;  ///< class and score, best first; empty where it failed
  std::string failure;                              ///< why the picture was not classified; empty where it was
};

}  // namespace mobicuda::stream
