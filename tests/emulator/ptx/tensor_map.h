// kernels/ptx/tensor_map.h for the emulator.
#pragma once

#include <cuda.h>
