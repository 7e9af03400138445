#include "emulator/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "emulator/emulator.h"

namespace mobicuda::emulator {
namespace {

constexpr std::size_t kElementBytes = 2;
constexpr std::size_t kSwizzledRow = 128;

/// What is common to both kinds of maps; false where the driver would refuse it, or it is not played.
bool encode_tensor(TensorMap& map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* extents,
                   const cuuint64_t* pitches, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                   CUtensorMapSwizzle swizzle, CUtensorMapFloatOOBfill fill) {
  constexpr cuuint64_t kMostExtent = cuuint64_t{1} << 32U;
  constexpr cuuint64_t kMostPitch = cuuint64_t{1} << 40U;
  constexpr cuuint64_t kAlignment = 16;
  constexpr cuuint32_t kMostStep = 8;
  const bool known = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
                     (swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || swizzle == CU_TENSOR_MAP_SWIZZLE_128B) &&
                     fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  if (!known || rank == 0 || rank > kMostDimensions) return false;
  map.address = reinterpret_cast<std::uintptr_t>(address);
  if (map.address == 0 || map.address % kAlignment != 0) return false;
  map.rank = static_cast<std::uint8_t>(rank);
  map.swizzled = swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
  for (std::size_t i = 0; i < rank; ++i) {
    if (extents[i] == 0 || extents[i] > kMostExtent || steps[i] == 0 || steps[i] > kMostStep) return false;
    map.last.at(i) = static_cast<std::uint32_t>(extents[i] - 1);
    map.steps.at(i) = static_cast<std::uint8_t>(steps[i]);
  }
  for (std::size_t i = 0; i + 1 < rank; ++i) {
    if (pitches[i] % kAlignment != 0 || pitches[i] >= kMostPitch) return false;
    map.pitch.at(i) = pitches[i];
  }
  map.known = TensorMap::kKnown;
  return true;
}

/// `inner` elements side by side.
bool row_fits(const TensorMap& map, cuuint32_t inner) {
  const std::size_t bytes = inner * kElementBytes;
  return bytes % 16 == 0 && (!map.swizzled || bytes <= kSwizzledRow);
}

CUresult put(const TensorMap& map, CUtensorMap* to) {
  static_assert(sizeof map <= sizeof *to);
  *to = {};
  std::memcpy(to, &map, sizeof map);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI encode_tiled(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                              const cuuint64_t* extents, const cuuint64_t* pitches, const cuuint32_t* box,
                              const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion /*promotion*/, CUtensorMapFloatOOBfill fill) {
  constexpr cuuint32_t kMostBox = 256;
  TensorMap map;
  if (!encode_tensor(map, type, rank, address, extents, pitches, steps, interleave, swizzle, fill) ||
      !row_fits(map, box[0]) || steps[0] != 1) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (box[i] == 0 || box[i] > kMostBox) return CUDA_ERROR_INVALID_VALUE;
    map.box.at(i) = static_cast<std::uint16_t>((box[i] + steps[i] - 1) / steps[i]);  // every so-manieth of the box
  }
  return put(map, to);
}

CUresult CUDAAPI encode_im2col(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                               const cuuint64_t* extents, const cuuint64_t* pitches, const int* first_window,
                               const int* last_window, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                               CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                               CUtensorMapL2promotion /*promotion*/, CUtensorMapFloatOOBfill fill) {
  constexpr cuuint32_t kRank = 4;  // of images, which alone are played
  constexpr cuuint32_t kMostChannels = 256;
  constexpr cuuint32_t kMostPixels = 1024;
  constexpr int kLeast = -128;
  constexpr int kMost = 127;
  TensorMap map;
  if (rank != kRank || channels == 0 || channels > kMostChannels || pixels == 0 || pixels > kMostPixels ||
      !encode_tensor(map, type, rank, address, extents, pitches, steps, interleave, swizzle, fill) ||
      !row_fits(map, channels)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  map.im2col = true;
  map.box[0] = static_cast<std::uint16_t>(channels);
  map.box[1] = static_cast<std::uint16_t>(pixels);
  for (std::size_t i = 0; i < 2; ++i) {
    for (const int corner : {first_window[i], last_window[i]}) {
      if (corner < kLeast || corner > kMost) return CUDA_ERROR_INVALID_VALUE;
    }
    map.first_window.at(i) = static_cast<std::int16_t>(first_window[i]);
    map.last_window.at(i) = static_cast<std::int16_t>(last_window[i]);
  }
  return put(map, to);
}

/// Where an element of a copy lies in shared memory.
std::uint32_t place(const TensorCopy& copy, std::uint32_t start, std::size_t element) {
  const auto at = start + static_cast<std::uint32_t>(element * kElementBytes);
  return copy.swizzled ? at ^ (at / kSwizzledRow % 8) * 16 : at;
}

/// Of a row of the tensor those from `first` on; outside of it there are none, nor anything where there is no row.
void append(TensorCopy& copy, unsigned char* row, std::int64_t first, std::int64_t count, std::int64_t last) {
  for (std::int64_t at = first; at < first + count; ++at) {
    const bool is_there = row != nullptr && at >= 0 && at <= last;
    copy.elements.push_back(is_there ? row + static_cast<std::size_t>(at) * kElementBytes : nullptr);
  }
}

void check(const TensorCopy& copy, std::uint32_t shared) {
  constexpr std::uint32_t kAlignment = 128;
  if (shared % kAlignment != 0) fail("a copy by a tensor map whose place in shared memory is not aligned");
  if (copy.swizzled && copy.row_bytes != kSwizzledRow) fail("a swizzled copy whose rows are not played");
}

}  // namespace

unsigned char* TensorMap::element(const std::array<std::int64_t, kMostDimensions>& at) const {
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (at.at(i) < 0 || at.at(i) > std::int64_t{last.at(i)}) return nullptr;
    offset += static_cast<std::uint64_t>(at.at(i)) * (i == 0 ? kElementBytes : pitch.at(i - 1));
  }
  return reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(address + offset));
}

TensorCopy TensorMap::elements_at(const int* first, std::size_t dimensions) const {
  if (im2col || dimensions != rank) fail("a copy of a box by a map of something else");
  TensorCopy copy{{}, box[0] * kElementBytes, swizzled};
  std::size_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) count *= box.at(i);
  copy.elements.reserve(count);
  for (std::size_t row = 0; row < count / box[0]; ++row) {
    std::array<std::int64_t, kMostDimensions> at{};
    std::size_t rest = row;
    for (std::size_t i = 1; i < rank; ++i) {
      at.at(i) = first[i] + static_cast<std::int64_t>(rest % box.at(i) * steps.at(i));
      rest /= box.at(i);
    }
    append(copy, element(at), first[0], box[0], last[0]);
  }
  return copy;
}

TensorCopy TensorMap::windows_at(const int (&first)[4], int tap_x, int tap_y) const {
  constexpr int kMostTap = 255;
  if (!im2col) fail("a copy of windows by a map of boxes");
  if (tap_x < 0 || tap_x > kMostTap || tap_y < 0 || tap_y > kMostTap) fail("a tap that is too far away");
  TensorCopy copy{{}, box[0] * kElementBytes, swizzled};
  copy.elements.reserve(std::size_t{box[0]} * box[1]);
  std::int64_t x = first[1];
  std::int64_t y = first[2];
  std::int64_t n = first[3];
  for (std::size_t pixel = 0; pixel < box[1]; ++pixel) {
    append(copy, element({0, x + tap_x, y + tap_y, n, 0}), first[0], box[0], last[0]);
    x += steps[1];
    if (x <= std::int64_t{last[1]} + last_window[0]) continue;
    x = first_window[0];
    y += steps[2];
    if (y <= std::int64_t{last[2]} + last_window[1]) continue;
    y = first_window[1];
    ++n;
  }
  return copy;
}

TensorMap map_of(const CUtensorMap& map) {
  TensorMap known;
  std::memcpy(static_cast<void*>(&known), &map, sizeof known);
  if (known.known != TensorMap::kKnown) fail("a tensor map that nobody has encoded");
  return known;
}

void copy_tensor(const TensorCopy& copy, std::uint32_t to, std::uint32_t barrier, int blocks) {
  check(copy, to);
  const auto shared = std::make_shared<const TensorCopy>(copy);
  for (int rank = 0; rank < blocks; ++rank) {
    const auto there = [&](std::uint32_t here) {
      return blocks == 1 ? here : map_to_rank(here, static_cast<unsigned>(rank));
    };
    const std::uint32_t start = there(to);
    const std::uint32_t counted = there(barrier);
    auto* const memory = static_cast<unsigned char*>(shared_at(start, copy.bytes()));
    deliver_later([shared, start, memory, counted] {
      for (std::size_t i = 0; i < shared->elements.size(); ++i) {
        unsigned char* const target = memory + (place(*shared, start, i) - start);
        if (shared->elements[i] == nullptr) {
          std::memset(target, 0, kElementBytes);
        } else {
          std::memcpy(target, shared->elements[i], kElementBytes);
        }
      }
      mbarrier_bytes(counted, static_cast<int>(shared->bytes()));
    });
  }
}

void copy_tensor_out(const TensorCopy& copy, std::uint32_t from) {
  check(copy, from);
  const auto* const memory = static_cast<const unsigned char*>(shared_for_engine(from, copy.bytes()));
  deliver_from_shared_later([copy, from, memory] {
    for (std::size_t i = 0; i < copy.elements.size(); ++i) {
      if (copy.elements[i] == nullptr) continue;
      std::memcpy(copy.elements[i], memory + (place(copy, from, i) - from), kElementBytes);
    }
  });
}

void* find_encoder(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "cuTensorMapEncodeTiled") return reinterpret_cast<void*>(encode_tiled);
  if (wanted == "cuTensorMapEncodeIm2col") return reinterpret_cast<void*>(encode_im2col);
  return nullptr;
}

}  // namespace mobicuda::emulator
