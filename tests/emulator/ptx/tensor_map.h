// CUtensorMap, the descriptor of a tensor in global memory, for host and device. NVRTC has no <cuda.h>: there it is
// what the driver's header says, 128 opaque bytes.
#pragma once

#ifndef __CUDACC_RTC__

#include <cuda.h>

#else

struct alignas(64) CUtensorMap_st {
  unsigned long opaque[16];
};
using CUtensorMap = CUtensorMap_st;

#endif
