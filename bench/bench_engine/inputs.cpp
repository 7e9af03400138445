#include "bench_engine/inputs.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>

#include "bench_engine/exit_codes.h"

namespace mobicuda::bench {
namespace {

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw UsageError("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<float> from_raw(const std::string& bytes, std::size_t start, const std::string& name) {
  if (start > bytes.size() || (bytes.size() - start) % sizeof(float) != 0) {
    throw UsageError(name + ": its size is no multiple of 4 bytes, so it is not float32");
  }
  std::vector<float> numbers((bytes.size() - start) / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data() + start, numbers.size() * sizeof(float));
  return numbers;
}

// NumPy's format: magic, version, length of a Python dictionary, the dictionary, the data.
std::vector<float> from_npy(const std::string& bytes, const std::string& name) {
  constexpr std::size_t kVersionAt = 6;
  constexpr std::size_t kLengthAt = 8;
  if (bytes.size() < kLengthAt + 4 || !bytes.starts_with("\x93NUMPY")) throw UsageError(name + ": not a .npy file");
  const std::size_t length_bytes = bytes[kVersionAt] == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[kLengthAt + i])) << (8 * i);
  }
  const std::size_t start = kLengthAt + length_bytes + length;
  if (start > bytes.size()) throw UsageError(name + ": ends within its header");
  const std::string header = bytes.substr(kLengthAt + length_bytes, length);
  if (header.find("'<f4'") == std::string::npos) throw UsageError(name + ": must hold float32 ('<f4'): " + header);
  if (header.find("'fortran_order': False") == std::string::npos) throw UsageError(name + ": must be in C order");
  return from_raw(bytes, start, name);
}

std::vector<float> from_text(const std::string& bytes, const std::string& name) {
  std::istringstream stream(bytes);
  std::vector<float> numbers;
  std::string word;
  while (stream >> word) {
    std::size_t used = 0;
    try {
      numbers.push_back(std::stof(word, &used));
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size()) throw UsageError(name + ": '" + word + "' is not a number");
  }
  return numbers;
}

}  // namespace

std::vector<float> random_input(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  constexpr int kBits = 24;  // what a float holds exactly; std::uniform_real_distribution differs between libraries
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = static_cast<float>(generator() >> (64 - kBits)) / static_cast<float>(1 << (kBits - 1)) - 1.0F;
  }
  return numbers;
}

std::vector<float> load_numbers(const std::filesystem::path& path) {
  const std::string bytes = read_bytes(path);
  if (path.extension() == ".npy") return from_npy(bytes, path.string());
  if (path.extension() == ".txt") return from_text(bytes, path.string());
  return from_raw(bytes, 0, path.string());
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
