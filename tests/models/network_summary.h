#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mobicuda::onnx_schema {
class ModelProto;
}

namespace mobicuda::test {

/// What a file of the zoo amounts to, by shape inference of its own, so that the builder is not asked about itself.
struct NetworkSummary {
  std::map<std::string, int> operators;
  std::int64_t parameters = 0;     ///< as frameworks count them: no running statistics, no bounds of Clip
  std::int64_t multiply_adds = 0;  ///< of convolutions and fully connected layers
  std::vector<std::int64_t> output;
};

/// Throws std::runtime_error that names the node whose inputs do not fit each other.
NetworkSummary summarize(const onnx_schema::ModelProto& model);

}  // namespace mobicuda::test
