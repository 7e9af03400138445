#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include <mobicuda/graph.h>

namespace mobicuda::test {

/// Where the choices of a random graph come from: a seed, or the bytes of a fuzzer.
class Choices {
 public:
  virtual ~Choices() = default;
  /// A number from 0 to count - 1.
  virtual std::uint32_t below(std::uint32_t count) = 0;

  bool one_in(std::uint32_t count) { return below(count) == 0; }
  template <class T, std::size_t N>
  T any_of(const T (&values)[N]) {
    return values[below(static_cast<std::uint32_t>(N))];
  }
};

/// The same choices with every compiler and standard library.
class SeededChoices final : public Choices {
 public:
  explicit SeededChoices(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t count) override { return static_cast<std::uint32_t>(engine_()) % count; }

 private:
  std::mt19937 engine_;
};

/// A byte for each choice; the first of what there is to choose from where they have run out.
class ByteChoices final : public Choices {
 public:
  explicit ByteChoices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint32_t below(std::uint32_t count) override {
    if (bytes_.empty()) return 0;
    const std::uint32_t choice = bytes_.front() % count;
    bytes_ = bytes_.subspan(1);
    return choice;
  }
  bool done() const { return bytes_.empty(); }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// A valid network of 1 to `most_nodes` operations of all kinds, on small tensors: up to 2^13 elements, sums of up to
/// 2^12 products. Operations read values at random, so that there are branches, and what the output does not need is
/// left out. Weights are such that values keep the size of the input's.
/// Elements and products are as many divided by `shrink`, as is the patience for operations that do not fit: for a
/// fuzzer, which finds the same branches with less. The graphs of seeds that are written down are those of 1.
Graph random_graph(Choices& choices, std::uint32_t most_nodes, int shrink = 1);

}  // namespace mobicuda::test
