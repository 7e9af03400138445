#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/plan_file.h>
#include <mobicuda/saved_engine.h>

namespace mobicuda::plan_file {

/// The two parts of a plan file.
struct Parts {
  std::string structure;
  WeightBytes weights;
};

/// What stands before the weights, with the checksum of everything.
std::vector<std::byte> make_front(const std::string& structure, std::span<const std::byte> weights);

/// Gives the file's next bytes; throws Error(io).
using NextBytes = std::function<void(std::span<std::byte>)>;

/// Reads a file of `file_bytes` bytes. Every size is checked against file_bytes before it sizes anything. Throws
/// Error(invalid_model) on anything but a whole, undamaged plan file, Error(unsupported) on another format or byte
/// order.
Parts read_parts(const NextBytes& next, std::int64_t file_bytes, const Limits& limits, ReadTimes& times);

}  // namespace mobicuda::plan_file
