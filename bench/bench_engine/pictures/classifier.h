#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <mobicuda/engine.h>

#include "bench_engine/pictures/sample_stream.h"

namespace mobicuda::bench {

/// An implementation to classify pictures with.
struct Classifier {
  std::string implementation;
  Precision precision = Precision::Fp32;
  std::optional<int> threads;  ///< where several are compared
  Session* session = nullptr;
  std::shared_ptr<const Engine> engine{};  ///< of the session; null: pictures are decoded on the CPU
};

inline void classify(const Classifier& classifier, const PictureBatch& pictures, std::span<float> logits) {
  if (pictures.bytes.empty()) {
    classifier.session->run(pictures.input, logits);
  } else {
    classifier.session->run(pictures.bytes, logits);
  }
}

}  // namespace mobicuda::bench
