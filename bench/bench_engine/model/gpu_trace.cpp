#include "bench_engine/model/gpu_trace.h"

namespace mobicuda::bench {

const char* to_string(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::Kernel:
      return "kernel";
    case ActivityKind::Memset:
      return "memset";
    case ActivityKind::CopyToDevice:
    case ActivityKind::CopyToHost:
    case ActivityKind::CopyOnDevice:
      return "copy";
  }
  return "kernel";
}

}  // namespace mobicuda::bench
