#include "bench_engine/tensors/inputs.h"

#include <cmath>
#include <random>
#include <string>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
std::vector<float> random_input(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  constexpr int kBits = 24;  // what a float holds exactly; std::uniform_real_distribution differs between libraries
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = static_cast<float>(generator() >> (64 - kBits)) / static_cast<float>(1 << (kBits - 1)) - 1.0F;
  }
  return numbers;
}

std::vector<float> tile_input(const std::vector<float>& numbers, std::size_t elements, std::size_t pictures) {
  if (numbers.empty() || numbers.size() % elements != 0) {
    throw UsageError("--loadInputs: " + std::to_string(numbers.size()) + " numbers are not whole pictures of " +
                     std::to_string(elements));
  }
  std::vector<float> input(elements * pictures);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = numbers[i % numbers.size()];
  return input;
}

std::vector<std::uint8_t> random_pictures(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  constexpr int kBits = 8;
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(generator() >> (64 - kBits));
  return bytes;
}

std::vector<std::uint8_t> as_bytes(const std::vector<float>& numbers) {
  constexpr float kLargest = 255.0F;
  std::vector<std::uint8_t> bytes(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!(numbers[i] >= 0.0F && numbers[i] <= kLargest) || std::floor(numbers[i]) != numbers[i]) {
      throw UsageError("--loadInputs with --input uint8: number " + std::to_string(i) + " is " +
                       std::to_string(numbers[i]) + ", not a whole number from 0 to 255");
    }
    bytes[i] = static_cast<std::uint8_t>(numbers[i]);
  }
  return bytes;
}

}  // namespace mobicuda::bench
