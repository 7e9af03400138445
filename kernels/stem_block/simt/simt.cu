// The stem block in exact float: variants, limits, packing, launch. The kernel: kernel.cuh.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "kernels/common/spread_blocks.h"
#include "kernels/stem_block/families.h"
#include "kernels/stem_block/simt/kernel.cuh"

namespace mobicuda::kernels::stem_block_simt {
namespace {

using Variant = StemBlockVariant;

constexpr int kOldest = 90;  // DeviceTraits::code; double on tensor cores
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

// Rooms for channels: of the stem at most, others are filled up with zeros; of the output exactly.
constexpr int kRooms = 3;

// clang-format off
struct Entry {
  Variant variant;
  Tile tiles[kRooms];
};
constexpr Entry kEntries[] = {
    //  stride tile  c_in,hidden,out chunk warps    strip    project  warps in_place pads  blocks  stem
    {Variant::Simt7x14,
     {{{1,  7, 14, 16, 16,  8, 16,   5, 0,   7, 1, 2,  7, 2,    2,  2,   0,     0, 16, 2}, 4, 4},
      {{1,  7, 14, 32, 32, 16, 32,   9, 0,   7, 1, 2,  7, 4,    2,  4,   0,     0, 16, 2}, 4, 4},
      {{1,  7, 14, 48, 48, 24, 48,  14, 0,   7, 1, 2,  7, 6,    2,  6,   0,     0, 16, 1}, 4, 4}}},
    {Variant::Simt14x14,
     {{{1, 14, 14, 16, 16,  8, 16,   4, 0,   7, 1, 4,  7, 2,    4,  1,   1,     0, 16, 4}, 4, 8},
      {{1, 14, 14, 32, 32, 16, 32,   4, 0,   7, 2, 4,  7, 4,    4,  1,   1,     0, 16, 4}, 8, 8},
      {{1, 14, 14, 48, 48, 24, 48,   6, 0,   7, 2, 4,  5, 6,    6,  1,   1,     0, 16, 2}, 8, 8}}},
    {Variant::Dmma7x14,
     {{{1,  7, 14, 16, 16,  8, 16,   5, 0,   7, 1, 2,  7, 2,    2,  2,   0,     0, 16, 2}, 16, 0},
      {{1,  7, 14, 32, 32, 16, 32,   9, 0,   7, 1, 2,  7, 4,    2,  4,   0,     0, 16, 2}, 16, 0},
      {{1,  7, 14, 48, 48, 24, 48,  14, 0,   7, 1, 2,  7, 6,    2,  6,   0,     0, 16, 1}, 16, 0}}},
    {Variant::Dmma14x14,
     {{{1, 14, 14, 16, 16,  8, 16,   4, 0,   7, 1, 4,  7, 2,    4,  1,   1,     0, 16, 4}, 32, 0},
      {{1, 14, 14, 32, 32, 16, 32,   4, 0,   7, 2, 4,  7, 4,    4,  1,   1,     0, 16, 3}, 32, 0},
      {{1, 14, 14, 48, 48, 24, 48,   6, 0,   7, 2, 4,  5, 6,    6,  1,   1,     0, 16, 2}, 16, 0}}},
};
// clang-format on

constexpr const Entry* find(Variant variant) {
  for (const Entry& entry : kEntries) {
    if (entry.variant == variant) return &entry;
  }
  return nullptr;
}

/// Index of the room; kRooms if none fits.
int room_of(const StemBlockParams& p) {
  int room = 0;
  while (room < kRooms &&
         (p.c_out != kEntries[0].tiles[room].block.c_out || p.c_stem > kEntries[0].tiles[room].block.c_hidden)) {
    ++room;
  }
  return room;
}

const Tile& tile_of(Variant variant, const StemBlockParams& p) { return find(variant)->tiles[room_of(p)]; }

std::int64_t tiles(const Tile& tile, const StemBlockParams& p) {
  return std::int64_t{p.n} * ceil_div(p.out_h, tile.block.tile_h) * ceil_div(p.out_w, tile.block.tile_w);
}

using Kernel = void (*)(Arguments, const void*, const float*, float*);

template <Tile kTile>
Kernel kernel_for(InputForm form) {
  using S = TileShape<kTile>;
  switch (form) {
    case InputForm::Bytes:
      return stem_block_simt_kernel<S, InputForm::Bytes>;
    case InputForm::FloatPairs:
      return stem_block_simt_kernel<S, InputForm::FloatPairs>;
    default:
      return stem_block_simt_kernel<S, InputForm::Floats>;
  }
}

template <std::size_t kEntry>
Kernel kernel_for(int room, InputForm form) {
  static_assert(kRooms == 3);
  constexpr const Entry& kOf = kEntries[kEntry];
  return room == 0   ? kernel_for<kOf.tiles[0]>(form)
         : room == 1 ? kernel_for<kOf.tiles[1]>(form)
                     : kernel_for<kOf.tiles[2]>(form);
}

Kernel kernel_for(Variant variant, const StemBlockParams& p, InputForm form) {
  static_assert(std::size(kEntries) == 4);
  constexpr Kernel (*kKernels[])(int, InputForm) = {kernel_for<0>, kernel_for<1>, kernel_for<2>, kernel_for<3>};
  return kKernels[find(variant) - kEntries](room_of(p), form);
}

/// Pairs where the window begins at a multiple of 8 bytes in every row: tiles are of an even number of columns.
InputForm form_of(const StemBlockParams& p, const void* x) {
  if (p.input == StemInput::NhwcUint8) return InputForm::Bytes;
  const bool pairs = p.w % 2 == 0 && p.stem_pad_left % 2 == 0 && reinterpret_cast<std::uintptr_t>(x) % 8 == 0;
  return pairs ? InputForm::FloatPairs : InputForm::Floats;
}

float or_zero(const float* values, int index) { return values == nullptr ? 0.0F : values[index]; }

/// What meets value number k of the window; the bias behind the last.
float stem_factor(const StemBlockParams& p, const StemBlockWeights& w, int k, int channel) {
  if (channel >= p.c_stem || k > kWindow) return 0.0F;
  if (k == kWindow) return or_zero(w.stem_bias, channel);
  const int ky = k / 9;
  const int ci = k / 3 % 3;
  const int kx = k % 3;
  return w.stem[((channel * 3 + ci) * 3 + ky) * 3 + kx];
}

/// Writes one value after the other.
class Writer {
 public:
  explicit Writer(void* to) : to_(static_cast<unsigned char*>(to)) {}

  template <class T>
  void put(T value) {
    std::memcpy(to_, &value, sizeof value);
    to_ += sizeof value;
  }

 private:
  unsigned char* to_;
};

/// As a block's shared memory begins, see inverted_simt::Sizes: the projection's bias | for each unit of channels
/// the depthwise's taps and their bias | the projection, output channels side by side.
void put_block(const StemBlockParams& p, const StemBlockWeights& w, const inverted_simt::Config& block, Writer& to) {
  constexpr int kTaps = inverted_simt::kTaps;
  const inverted_simt::Sizes s = inverted_simt::sizes_of(block);
  const auto depthwise = [&](int tap, int channel) {
    if (channel >= p.c_stem) return 0.0F;
    return tap < kTaps ? w.depthwise[channel * kTaps + tap] : or_zero(w.depthwise_bias, channel);
  };
  for (int c = 0; c < p.c_out; ++c) to.put(or_zero(w.project_bias, c));
  for (int unit = 0; unit < s.units; ++unit) {
    for (int tap = 0; tap <= kTaps; ++tap) {
      for (int c = 0; c < s.unit; ++c) to.put(depthwise(tap, unit * s.unit + c));
    }
  }
  for (int channel = 0; channel < block.c_hidden; ++channel) {
    for (int c = 0; c < s.project_columns; ++c) {
      to.put(channel < p.c_stem && c < p.c_out ? w.project[c * p.c_stem + channel] : 0.0F);
    }
  }
}

void put_rows(const StemBlockParams& p, const StemBlockWeights& w, int room, Writer& to) {
  for (int k = 0; k <= kWindow; ++k) {
    for (int channel = 0; channel < room; ++channel) to.put(stem_factor(p, w, k, channel));
  }
}

/// A lane has two neighbouring k of a column. Columns of two fragments are dealt: see the kernel.
void put_fragments(const StemBlockParams& p, const StemBlockWeights& w, int room, Writer& to) {
  for (int step = 0; step < kTensorSteps; ++step) {
    for (int fragment = 0; fragment < room / kTensorColumns; ++fragment) {
      for (int i = 0; i < 64; ++i) {
        const int column = i / 8;
        const int channel = fragment / 2 * 16 + column / 2 * 4 + fragment % 2 * 2 + column % 2;
        to.put(static_cast<double>(stem_factor(p, w, step * 8 + i % 8, channel)));
      }
    }
  }
}

int block_floats(const inverted_simt::Config& block) {
  const inverted_simt::Sizes s = inverted_simt::sizes_of(block);
  return block.c_out + s.front_floats + s.project_floats;
}

}  // namespace

bool is_float(Variant variant) { return find(variant) != nullptr; }

std::string_view packing(Variant variant) { return on_tensor_cores(find(variant)->tiles[0]) ? "dmma" : "simt"; }

bool supports(Variant variant, const StemBlockParams& p, const DeviceTraits& gpu) {
  if (p.elem != Elem::F32 || gpu.code < kOldest || room_of(p) == kRooms) return false;
  const Tile& tile = tile_of(variant, p);
  return tiles(tile, p) <= kMaxInt && std::int64_t{p.out_h} * p.out_w * p.c_out <= kMaxInt &&
         static_cast<std::size_t>(shared_bytes(tile)) <= gpu.shared_bytes_per_block;
}

std::size_t packed_bytes(Variant variant, const StemBlockParams& p) {
  const Tile& tile = tile_of(variant, p);
  return static_cast<std::size_t>(block_floats(tile.block) + stem_floats(tile)) * sizeof(float);
}

void pack(Variant variant, const StemBlockParams& p, const StemBlockWeights& w, void* packed) {
  const Tile& tile = tile_of(variant, p);
  Writer to(packed);
  put_block(p, w, tile.block, to);
  if (on_tensor_cores(tile)) {
    put_fragments(p, w, tile.block.c_hidden, to);
  } else {
    put_rows(p, w, tile.block.c_hidden, to);
  }
}

cudaError_t launch(Variant variant, const StemBlockParams& p, const void* x, const void* packed, void* y,
                   const Launch& where) {
  const Tile& tile = tile_of(variant, p);
  Arguments a{};
  a.h = p.stem_h;
  a.w = p.stem_w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.pad_top = p.depthwise_pad_top;
  a.pad_left = p.depthwise_pad_left;
  a.tiles_x = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_w, tile.block.tile_w)));
  a.tiles_y = FastDivision(static_cast<std::uint32_t>(ceil_div(p.out_h, tile.block.tile_h)));
  a.expand_clip = p.stem_clip;
  a.depthwise_clip = p.depthwise_clip;
  a.project_clip = p.project_clip;
  a.input_h = p.h;
  a.input_w = p.w;
  a.input_top = p.stem_pad_top;
  a.input_left = p.stem_pad_left;
  std::copy(std::begin(p.scale), std::end(p.scale), a.scale);
  std::copy(std::begin(p.shift), std::end(p.shift), a.shift);
  const auto blocks = static_cast<unsigned>(tiles(tile, p));
  const auto threads = static_cast<unsigned>(inverted_simt::sizes_of(tile.block).threads);
  const Kernel kernel = kernel_for(variant, p, form_of(p, x));
  auto bytes = static_cast<std::size_t>(shared_bytes(tile));
  const cudaError_t status = spread_blocks(kernel, blocks, threads, 1, bytes);
  if (status != cudaSuccess) return status;
  return kernels::launch(kernel, dim3(blocks), dim3(threads), bytes, where, a, x, static_cast<const float*>(packed),
                         static_cast<float*>(y));
}

}  // namespace mobicuda::kernels::stem_block_simt
