// The block's dynamic shared memory.
#pragma once

/// Declares `name` as that memory: an array of T, aligned to `alignment` bytes.
#define MOBICUDA_DYNAMIC_SHARED(T, alignment, name) \
  extern __shared__ __align__(alignment)            \
  T name[]
