#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/pictures.h>

#include <nlohmann/json.hpp>

namespace mobicuda::triton {

using Json = nlohmann::json;

/// What a request carries, by the data type of the input in the model's configuration.
enum class InputKind : std::uint8_t {
  Floats,   ///< TYPE_FP32: as the network reads them
  Pixels,   ///< TYPE_UINT8: images of 8 bits, HWC
  Encoded,  ///< TYPE_STRING: JPEG, PNG, BMP or PNM files
};

/// A tensor of the model as the server's configuration has it, without the batch.
struct Tensor {
  std::string name;
  std::string data_type;  ///< "TYPE_FP32", ...
  std::vector<std::int64_t> dims;

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// What config.pbtxt says about how a model is to run: its input's type and its parameters. docs/serving.md lists them.
struct Settings {
  std::optional<InputKind> input;      ///< nothing: as the model's file has it
  std::optional<Precision> precision;  ///< nothing: of a plan its own, else Fp16 on GPUs, Fp32 on the CPU
  std::optional<pictures::Normalization> preprocess;
  int threads = 0;  ///< of the CPU engine, 0: one for each core
  int device = 0;   ///< of instances of KIND_MODEL
  pictures::DecodeOn decode = pictures::DecodeOn::Auto;
  int decode_threads = 0;  ///< of an instance, 0: one for each core
  std::int64_t top = 0;    ///< classes in the outputs top_classes and so on; 0: none of these
  Specialise specialise = Specialise::Auto;
  std::int64_t max_memory_bytes = 0;  ///< of an engine and one session, 0: no limit
  std::int64_t max_queue_size = 0;    ///< requests that wait at most, 0: no limit
  bool warm_up = true;
};

/// Throws Error(invalid_argument) that names model and key: on parameters that are not known or out of range, and on
/// schedulers and transformations of the server that a classifier cannot have.
Settings read_settings(const Json& config, const std::string& where);

/// Whether the server's own queue has an end, timeouts or priorities. Such a queue starts batches only when a request
/// comes or half a second has passed.
bool has_queue_policy(const Json& config);

/// What the server's configuration leaves open is filled in: max_batch_size (`most_images`), names, types and shapes of
/// `input` and `outputs`.
void complete(Json& config, const Tensor& input, const std::vector<Tensor>& outputs, std::int64_t most_images);

/// Throws Error(invalid_argument) unless the configuration has that input, some of those outputs, and max_batch_size of
/// 1 to `most_images`. Returns max_batch_size.
std::int64_t check_tensors(const Json& config, const Tensor& input, const std::vector<Tensor>& outputs,
                           std::optional<std::int64_t> most_images, const std::string& where);

}  // namespace mobicuda::triton
