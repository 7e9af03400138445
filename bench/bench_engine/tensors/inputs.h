#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mobicuda::bench {

/// `count` reproducible numbers, uniform in [-1, 1): the same on every machine for a seed.
std::vector<float> random_input(std::size_t count, std::uint64_t seed);

/// `pictures` pictures of `elements` numbers out of a file's numbers, starting over at its end. Throws
/// UsageError when the file does not hold whole pictures.
std::vector<float> tile_input(const std::vector<float>& numbers, std::size_t elements, std::size_t pictures);

/// `count` reproducible bytes.
std::vector<std::uint8_t> random_pictures(std::size_t count, std::uint64_t seed);

/// Numbers 0 to 255 as bytes. Throws UsageError naming the first that is not.
std::vector<std::uint8_t> as_bytes(const std::vector<float>& numbers);

}  // namespace mobicuda::bench
