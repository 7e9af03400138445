#pragma once

#include <functional>
#include <string>
#include <vector>

#include <mobicuda/error.h>

#include "support/onnx_builder.h"

namespace mobicuda::test {

/// A file that must be refused, with this code and these words in the message.
struct Malformed {
  std::string name;
  ErrorCode code;
  std::vector<std::string> words;
  std::string bytes;
};

std::vector<Malformed> malformed_bytes();
std::vector<Malformed> malformed_headers();
std::vector<Malformed> malformed_topologies();
std::vector<Malformed> malformed_tensors();
std::vector<Malformed> malformed_convolutions();
std::vector<Malformed> malformed_norms();
std::vector<Malformed> malformed_pools();
std::vector<Malformed> malformed_matrices();
std::vector<Malformed> malformed_shape_operators();
std::vector<Malformed> malformed_elementwise();
std::vector<Malformed> malformed_reductions();
std::vector<Malformed> malformed_quantization();

/// Collects cases of one class; each starts from a sound model, which `spoil` makes unsound.
class MalformedList {
 public:
  using Spoil = std::function<void(OnnxBuilder&)>;

  MalformedList(std::int64_t opset, Dims input) : opset_(opset), input_(std::move(input)) {}

  void add(const std::string& name, ErrorCode code, const std::vector<std::string>& words, const Spoil& spoil) {
    add(name, code, words, opset_, spoil);
  }
  void add(const std::string& name, ErrorCode code, const std::vector<std::string>& words, std::int64_t opset,
           const Spoil& spoil) {
    OnnxBuilder builder(opset);
    builder.input("x", input_).output("y");
    spoil(builder);
    cases_.push_back({name, code, words, builder.bytes()});
  }
  std::vector<Malformed> take() { return std::move(cases_); }

 private:
  std::int64_t opset_;
  Dims input_;
  std::vector<Malformed> cases_;
};

}  // namespace mobicuda::test
