// kernels/ptx/cluster.cuh for the emulator.
#pragma once

#include "kernels/common/std.h"
#include "kernels/ptx/memory.cuh"

namespace mobicuda::kernels {

inline void arrive_at_cluster_begin() { emulator::arrive_at_cluster(); }
inline void wait_for_cluster_begin() { emulator::wait_for_cluster(); }
inline void sync_cluster() {
  emulator::arrive_at_cluster();
  emulator::wait_for_cluster();
}
inline void end_cluster() { sync_cluster(); }

}  // namespace mobicuda::kernels

namespace mobicuda::kernels::ptx {

inline int rank_in_cluster() { return static_cast<int>(emulator::rank_in_cluster()); }
inline std::uint32_t map_to_rank(std::uint32_t here, int rank) {
  return emulator::map_to_rank(here, static_cast<unsigned>(rank));
}
inline float4 load_cluster(std::uint32_t from) { return load_shared<float4>(from); }

template <class T>
void send_later(std::uint32_t to, T value, std::uint32_t barrier) {
  emulator::require_cluster("st.async");
  void* const target = emulator::shared_at(to, sizeof value);
  emulator::deliver_later([=] {
    std::memcpy(target, &value, sizeof value);
    emulator::mbarrier_bytes(barrier, sizeof value);
  });
}
inline void send(std::uint32_t to, float value, std::uint32_t barrier) { send_later(to, value, barrier); }
inline void send(std::uint32_t to, float4 value, std::uint32_t barrier, int rank) {
  send_later(map_to_rank(to, rank), value, map_to_rank(barrier, rank));
}
inline void send(std::uint32_t to, float2 value, std::uint32_t barrier, int rank) {
  send_later(map_to_rank(to, rank), value, map_to_rank(barrier, rank));
}
inline void send_integers(std::uint32_t to, int4 value, std::uint32_t barrier, int rank) {
  send_later(map_to_rank(to, rank), value, map_to_rank(barrier, rank));
}

}  // namespace mobicuda::kernels::ptx
