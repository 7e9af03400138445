#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench_engine/model/options.h"
#include "bench_engine/model/results.h"
#include "bench_engine/tensors/tensor_file.h"

namespace mobicuda::bench {

/// Compares a batch's outputs with the golden ones, `classes` numbers a picture. Picture i of the batch has the
/// golden output i modulo `period`, the number of different pictures in the input.
GoldenComparison compare_with_golden(std::span<const float> got, std::span<const float> golden, std::size_t classes,
                                     std::size_t period);

/// How many floats lie between two, 0 for equal ones and for two NaNs; infinity for a NaN and a number.
double ulp_distance(float a, float b);

/// What --golden or the options of its thresholds miss, one sentence each; `who` begins it.
std::vector<std::string> missed_golden(const Options& options, const GoldenComparison& golden, const std::string& who);

/// Writes --saveOutputs: the file itself where there is one result, else one file for each result with its
/// implementation, precision, batch and threads before the ending. Throws Error(io).
void save_outputs(const Options& options, const Report& report);

}  // namespace mobicuda::bench
