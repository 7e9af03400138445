#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stream/config.h"
#include "triton/settings.h"

namespace mobicuda::triton {

/// Makes a model repository of Triton Inference Server out of a stream's configuration: for each model a folder
/// NAME/1/model.onnx or model.plan, labels.txt where the stream has labels, and NAME/config.pbtxt, complete. Models
/// that are there already stay as they are: Error(invalid_argument) where one has such a name. Everything is written,
/// or nothing. `input` is what requests will carry. Returns what of the configuration a repository cannot say.
///
/// Throws Error: invalid_argument (names that are no names of folders, inputs that the model does not take), io, and
/// what reading the models throws.
std::vector<std::string> write_repository(const stream::Config& config, const std::filesystem::path& folder,
                                          InputKind input);

}  // namespace mobicuda::triton
