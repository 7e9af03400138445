// kernels/ptx/bulk_copy.cuh for the emulator: the copy engine delivers when it likes.
#pragma once

#include "emulator/tensor_map.h"
#include "kernels/common/std.h"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/tensor_map.h"

namespace mobicuda::kernels::ptx {

inline void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  if (bytes % 16 != 0 || to % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
    emulator::fail("a bulk copy that is not of whole 16 bytes");
  }
  void* const target = emulator::shared_at(to, static_cast<std::size_t>(bytes));
  emulator::deliver_later([=] {
    std::memcpy(target, from, static_cast<std::size_t>(bytes));
    emulator::mbarrier_bytes(barrier, bytes);
  });
}

inline void prefetch_tensor_map(const CUtensorMap& /*map*/) {}
inline void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y, std::uint32_t barrier) {
  emulator::copy_tensor(emulator::map_of(map).box_at({x, y}), to, barrier, 1);
}
template <int kBlocks>
void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y, int z, std::uint32_t barrier) {
  emulator::copy_tensor(emulator::map_of(map).box_at({x, y, z}), to, barrier, kBlocks);
}
inline void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y, int z, int w, std::uint32_t barrier) {
  emulator::copy_tensor(emulator::map_of(map).box_at({x, y, z, w}), to, barrier, 1);
}
inline void copy_box(std::uint32_t to, const CUtensorMap& map, int x, int y, int z, int w, int v,
                     std::uint32_t barrier) {
  emulator::copy_tensor(emulator::map_of(map).box_at({x, y, z, w, v}), to, barrier, 1);
}
template <int kBlocks>
void copy_im2col(std::uint32_t to, const CUtensorMap& map, int channel, int x, int y, int n, int tap_x, int tap_y,
                 std::uint32_t barrier) {
  emulator::copy_tensor(emulator::map_of(map).windows_at({channel, x, y, n}, tap_x, tap_y), to, barrier, kBlocks);
}
inline void copy_box_out(const CUtensorMap& map, int x, int y, int z, std::uint32_t from) {
  emulator::copy_tensor_out(emulator::map_of(map).box_at({x, y, z}), from);
}
inline void copy_box_out(const CUtensorMap& map, int x, int y, int z, int w, std::uint32_t from) {
  emulator::copy_tensor_out(emulator::map_of(map).box_at({x, y, z, w}), from);
}
inline void copy_bulk_out(void* to, std::uint32_t from, int bytes) {
  if (bytes % 16 != 0 || from % 16 != 0 || reinterpret_cast<std::uintptr_t>(to) % 16 != 0) {
    emulator::fail("a bulk copy that is not of whole 16 bytes");
  }
  const void* const source = emulator::shared_for_engine(from, static_cast<std::size_t>(bytes));
  emulator::deliver_from_shared_later([=] { std::memcpy(to, source, static_cast<std::size_t>(bytes)); });
}
template <int kPending>
void copy_out_wait_read() {
  emulator::wait_for_copies_from_shared(kPending);
}

}  // namespace mobicuda::kernels::ptx
