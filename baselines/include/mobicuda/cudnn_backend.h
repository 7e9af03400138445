#pragma once

#include <memory>

#include <mobicuda/engine.h>

namespace mobicuda {

/// The GPU baseline: cuDNN and cuBLAS, fused where they can, every engine configuration timed at
/// compile time and the fastest kept. Precisions Fp32 (exact), Tf32, Fp16 and Fp64. Lives in a library of its
/// own (libmobicuda_cudnn), so that libmobicuda never needs cuDNN. Batches below max_batch run at
/// max_batch: a cuDNN plan is made for one batch size.
MOBICUDA_API std::unique_ptr<Backend> make_cudnn_backend();

}  // namespace mobicuda
