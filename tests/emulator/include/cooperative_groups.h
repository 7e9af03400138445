// What kernels use of it, for the emulator.
#pragma once

#include "emulator/emulator.h"

namespace cooperative_groups {

struct cluster_group {
  unsigned block_rank() const { return mobicuda::emulator::rank_in_cluster(); }
  template <class T>
  T* map_shared_rank(T* here, int rank) const {
    const std::uint32_t there =
        mobicuda::emulator::map_to_rank(mobicuda::emulator::shared_address(here), static_cast<unsigned>(rank));
    return static_cast<T*>(mobicuda::emulator::shared_at(there, sizeof(T)));
  }
};
inline cluster_group this_cluster() { return {}; }

}  // namespace cooperative_groups
