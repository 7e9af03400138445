#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/types.h>

namespace mobicuda::stream {

/// A model of the stream.
struct ModelConfig {
  std::string name;            ///< as results have it
  std::filesystem::path file;  ///< ONNX, or a plan file where it ends in ".plan"
  double share = 1;            ///< of the pictures, in relation to the other models' shares
  bool zero_centred = false;   ///< pixels become p / 127.5 - 1 (tf), else (p / 255 - mean) / std (torch)
};

enum class Decode : std::uint8_t { Auto, Gpu, GpuUnits, GpuSms, Cpu };  // as pictures::DecodeOn

/// What a configuration file asks for: docs/stream.md and docs/stream.schema.json.
struct Config {
  std::vector<ModelConfig> models;
  std::filesystem::path img_dir;
  std::filesystem::path result_dir;
  std::optional<int> gpu_num;  ///< 0: the CPU; nothing: all GPUs, or the CPU where there is none
  int batchsize = 64;
  std::int64_t times = 1;              ///< how often each picture comes
  std::optional<Precision> precision;  ///< nothing: Fp16 on GPUs, Fp32 on the CPU
  bool preload = true;                 ///< else a model's file is read and compiled anew for every batch
  std::uint64_t seed = 0;              ///< of which model a picture is for
  int top = 5;
  std::filesystem::path labels;  ///< a class a line; may be empty
  Decode decode = Decode::Auto;
};

/// Reads a configuration. Relative paths are relative to the folder of the file; models without a path of their own lie
/// in `model_dir`. Throws Error(invalid_argument) that names the file, the key and what it may be: unknown keys, keys
/// twice, other types, values out of range, two models of one name; Error(io) where it cannot be read. Whether folders
/// and models exist is not looked at.
Config load_config(const std::filesystem::path& file);

/// The same of a text. `source` stands in errors; paths are relative to `folder`.
Config parse_config(std::string_view text, const std::string& source, const std::filesystem::path& folder);

}  // namespace mobicuda::stream
