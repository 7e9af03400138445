#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "open_inference.pb.h"

namespace mobicuda::bench {

/// What requests carry: sets of images that differ from each other, in turn.
struct Inputs {
  std::string name;                 ///< of the model's input
  std::string datatype;             ///< "UINT8", "FP32" or "BYTES"
  std::vector<std::int64_t> shape;  ///< of a request
  std::vector<std::string> sets;    ///< the bytes of one request each
};

/// `sets` sets of `images` images as the model takes them: patches of colour made up of `seed`, or, of BYTES, the files
/// in turn. Throws std::invalid_argument on a model that takes no images, or without the files that it takes.
Inputs make_inputs(const inference::ModelMetadataResponse& model, int sets, int images, unsigned seed,
                   const std::vector<std::filesystem::path>& files);

}  // namespace mobicuda::bench
