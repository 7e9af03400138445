#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobicuda/picture_preparation.h>
#include <mobicuda/types.h>

#include "bench_engine/model/cases.h"
#include "bench_engine/model/comparison.h"

namespace mobicuda::bench {

using pictures::Normalization;

/// A class that some of the pictures have.
struct ClassCount {
  std::size_t index = 0;
  std::string name;
  std::int64_t pictures = 0;
};

/// One implementation's hits among the pictures of a class.
struct ClassHits {
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;
};

/// Pictures that the reference puts into one class and an implementation into another.
struct Confusion {
  std::size_t reference = 0;
  std::string reference_name;
  std::size_t own = 0;
  std::string own_name;
  std::int64_t pictures = 0;
};

/// One implementation's answers on the pictures.
struct AccuracyResult {
  std::string implementation;
  Precision precision = Precision::Fp32;
  std::optional<int> threads;  ///< where several are compared
  std::int64_t top1 = 0;       ///< of ImageReport::labelled
  std::int64_t top5 = 0;
  double inference_ms = 0;                        ///< wall time of all Session::run together
  std::optional<Comparison> with_reference;       ///< the reference implementation
  std::optional<Comparison> with_reference_file;  ///< --referenceLogits
  double inference_rate = 0;                      ///< pictures a second, pictures decoded already; 0: not measured
  double pipeline_rate = 0;                       ///< the same from files, while the next pictures are decoded
  std::string pipeline_decoder;                   ///< what decodes JPEG then; empty: not known
  std::vector<ClassHits> by_class;                ///< as ImageReport::classes
  std::vector<Confusion> confusion;               ///< with the reference implementation
  std::vector<Confusion> confusion_file;          ///< with --referenceLogits

  std::string label() const { return case_label(implementation, precision, threads); }
};

struct ImageReport {
  std::string folder;
  std::string preprocessing;
  std::int64_t batch = 1;
  std::size_t found = 0;
  std::size_t evaluated = 0;
  std::size_t labelled = 0;                                 ///< evaluated, and with a class
  std::vector<std::pair<std::string, std::string>> broken;  ///< path and reason
  std::vector<std::string> unlabelled;                      ///< paths without a class, where --labels is given
  double decode_ms = 0;                                     ///< of all decoding threads together, while inference runs
  double wall_ms = 0;                                       ///< decoding and all implementations
  std::size_t decode_threads = 0;                           ///< 0: not known
  double decode_rate = 0;                                   ///< pictures a second of decoding alone; 0: not measured
  std::vector<ClassCount> classes;                          ///< those with pictures, by index
  std::vector<AccuracyResult> results;

  /// Label of the result that the others are compared with.
  std::string reference() const {
    for (const AccuracyResult& result : results) {
      if (!result.with_reference) return result.label();
    }
    return {};
  }
};

}  // namespace mobicuda::bench
