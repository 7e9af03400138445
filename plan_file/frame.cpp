#include "frame.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>

// In the source, so that libmobicuda needs no further library.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mobicuda::plan_file {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<char, 8> kMagic{'M', 'O', 'B', 'I', 'P', 'L', 'A', 'N'};
constexpr std::uint32_t kFormatVersion = 4;
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::int64_t kChunkBytes = 256 << 10;  // hashed while it is still in the cache
constexpr const char* kRemedy = "make it again from the model";

// The first 64 bytes of a file, in the byte order of the machine that wrote it.
struct Head {
  std::array<char, 8> magic = kMagic;
  std::uint32_t format_version = kFormatVersion;
  std::uint32_t byte_order = kByteOrder;
  std::int64_t structure_bytes = 0;
  std::int64_t weight_bytes = 0;
  std::uint64_t checksum = 0;  ///< XXH3, 64 bits, of the whole file with 0 here
  std::array<std::uint64_t, 3> reserved{};
};
static_assert(sizeof(Head) == 64);

double since_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> bytes) { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

// Zeros between structure and weights, which begin at a multiple of kWeightAlignment.
std::int64_t gap_behind(std::int64_t structure_bytes) {
  const auto end = static_cast<std::int64_t>(sizeof(Head)) + structure_bytes;
  return (end + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment - end;
}

void check_head(const Head& head, std::int64_t file_bytes, const Limits& limits) {
  if (head.magic != kMagic) {
    throw Error(ErrorCode::invalid_model, "", "is no plan file: it does not begin with MOBIPLAN",
                "plan_file::save() writes plan files; onnx_import::load() reads ONNX files");
  }
  if (head.byte_order != kByteOrder) {
    throw Error(ErrorCode::unsupported, "", "was made on a machine of the other byte order", kRemedy);
  }
  if (head.format_version != kFormatVersion) {
    throw Error(ErrorCode::unsupported, "",
                "has plan format " + std::to_string(head.format_version) + ", this version reads format " +
                    std::to_string(kFormatVersion),
                kRemedy);
  }
  const auto sized = [&](std::int64_t bytes, std::int64_t limit, const char* what) {
    if (bytes >= 0 && bytes <= std::min(limit, file_bytes)) return;
    throw Error(ErrorCode::invalid_model, "",
                "is damaged: says that it has " + std::to_string(bytes) + " bytes of " + what + ", is of " +
                    std::to_string(file_bytes) + " bytes",
                kRemedy);
  };
  sized(head.structure_bytes, limits.structure_bytes, "structure");
  sized(head.weight_bytes, file_bytes, "weights");
  const std::int64_t expected = static_cast<std::int64_t>(sizeof(Head)) + head.structure_bytes +
                                gap_behind(head.structure_bytes) + head.weight_bytes;
  if (expected == file_bytes) return;
  throw Error(ErrorCode::invalid_model, "",
              "is damaged: should have " + std::to_string(expected) + " bytes, has " + std::to_string(file_bytes),
              kRemedy);
}

}  // namespace

std::vector<std::byte> make_front(const std::string& structure, std::span<const std::byte> weights) {
  Head head;
  head.structure_bytes = static_cast<std::int64_t>(structure.size());
  head.weight_bytes = static_cast<std::int64_t>(weights.size());
  const auto gap = static_cast<std::size_t>(gap_behind(head.structure_bytes));
  std::vector<std::byte> front(sizeof(Head) + structure.size() + gap);
  std::memcpy(front.data(), &head, sizeof(Head));
  std::memcpy(front.data() + sizeof(Head), structure.data(), structure.size());
  Checksum checksum;
  checksum.add(front);
  checksum.add(weights);
  head.checksum = checksum.value();
  std::memcpy(front.data(), &head, sizeof(Head));
  return front;
}

Parts read_parts(const NextBytes& next, std::int64_t file_bytes, const Limits& limits, ReadTimes& times) {
  if (file_bytes > limits.file_bytes) {
    throw Error(ErrorCode::invalid_model, "",
                "has " + std::to_string(file_bytes) + " bytes, the limit is " + std::to_string(limits.file_bytes));
  }
  if (file_bytes < static_cast<std::int64_t>(sizeof(Head))) {
    throw Error(ErrorCode::invalid_model, "",
                "is no plan file: it has " + std::to_string(file_bytes) + " bytes, the first part alone has " +
                    std::to_string(sizeof(Head)),
                kRemedy);
  }
  Head head;
  next(std::as_writable_bytes(std::span(&head, 1)));
  check_head(head, file_bytes, limits);
  const std::uint64_t stored = head.checksum;
  head.checksum = 0;
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(&head, 1)));
  const auto read = [&](std::span<std::byte> target) {
    while (!target.empty()) {
      const auto part = target.first(std::min<std::size_t>(target.size(), kChunkBytes));
      auto start = Clock::now();
      next(part);
      times.read_ms += since_ms(start);
      start = Clock::now();
      checksum.add(part);
      times.check_ms += since_ms(start);
      target = target.subspan(part.size());
    }
  };
  Parts parts;
  parts.structure.resize(static_cast<std::size_t>(head.structure_bytes));
  read(std::as_writable_bytes(std::span(parts.structure)));
  std::array<std::byte, kWeightAlignment> gap{};
  read(std::span(gap).first(static_cast<std::size_t>(gap_behind(head.structure_bytes))));
  parts.weights = WeightBytes(head.weight_bytes);
  read(parts.weights.span());
  if (checksum.value() != stored) {
    throw Error(ErrorCode::invalid_model, "", "is damaged: its checksum is wrong", kRemedy);
  }
  return parts;
}

}  // namespace mobicuda::plan_file
