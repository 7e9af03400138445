#include "bench_engine/model/options.h"

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {

Precision parse_precision(const std::string& text) {
  for (const Precision precision :
       {Precision::Fp32, Precision::Fp32Split, Precision::Tf32, Precision::Fp16, Precision::Fp64}) {
    if (text == mobicuda::to_string(precision)) return precision;
  }
  throw UsageError("unknown precision '" + text + "': fp32, fp32_split, tf32, fp16 or fp64");
}

}  // namespace mobicuda::bench
