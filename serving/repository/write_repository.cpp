#include "repository/write_repository.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include <mobicuda/error.h>
#include <mobicuda/pictures.h>

#include "triton/model_file.h"

namespace mobicuda::triton {
namespace {

constexpr int kInstancesOfGpu = 2;  // the transfers of one overlap the kernels of the other

/// A text of protobuf's text format.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7f || c == '"' || c == '\\') {
      constexpr unsigned kOctal = 8;
      result += '\\';
      result += static_cast<char>('0' + byte / (kOctal * kOctal));
      result += static_cast<char>('0' + byte / kOctal % kOctal);
      result += static_cast<char>('0' + byte % kOctal);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string parameter(const std::string& key, const std::string& value) {
  return "parameters { key: " + quoted(key) + " value { string_value: " + quoted(value) + " } }\n";
}

std::string tensor(const std::string& kind, const Tensor& tensor) {
  std::string dims;
  for (const std::int64_t dim : tensor.dims) dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
  return kind + " [ { name: " + quoted(tensor.name) + " data_type: " + tensor.data_type + " dims: [ " + dims +
         " ] } ]\n";
}

std::string instances(std::optional<int> gpus) {
  if (!gpus) return {};  // the server takes all GPUs, or the CPU where it sees none
  if (*gpus == 0) return "instance_group [ { kind: KIND_CPU count: 1 } ]\n";
  std::string list;
  for (int gpu = 0; gpu < *gpus; ++gpu) list += (gpu == 0 ? "" : ", ") + std::to_string(gpu);
  return "instance_group [ { kind: KIND_GPU count: " + std::to_string(kInstancesOfGpu) + " gpus: [ " + list +
         " ] } ]\n";
}

/// config.pbtxt of a model whose files lie in their place already.
std::string configuration(const stream::Config& config, const stream::ModelConfig& model, const ModelFile& file,
                          InputKind input) {
  const bool has_own_preprocessing = file.most_images() && file.usual_input() == InputKind::Pixels;
  const std::int64_t most = file.most_images().value_or(config.batchsize);
  const std::int64_t top = std::min<std::int64_t>(config.top, file.classes());
  std::string text = "# Written by mobicuda_triton_repository. docs/serving.md tells what else may stand here.\n";
  text += "name: " + quoted(model.name) + "\nbackend: \"mobicuda\"\n";
  text += "max_batch_size: " + std::to_string(std::min<std::int64_t>(most, config.batchsize)) + '\n';
  text += tensor("input", file.input(input));
  for (const Tensor& output : file.outputs(top)) text += tensor("output", output);
  text += instances(config.gpu_num);
  text += parameter("top", std::to_string(top));
  if (config.precision) text += parameter("precision", std::string(to_string(*config.precision)));
  if (input != InputKind::Floats && !has_own_preprocessing) {
    const auto normalization = model.zero_centred ? pictures::Normalization::Tf : pictures::Normalization::Torch;
    text += parameter("preprocess", std::string(pictures::to_string(normalization)));
  }
  if (input == InputKind::Encoded && config.decode != stream::Decode::Auto) {
    text += parameter("decode", config.decode == stream::Decode::Gpu ? "gpu" : "cpu");
  }
  return text;
}

void check_name(const std::string& name) {
  if (name.empty() || name.front() == '.' || name.find_first_of(std::string("/\0", 2)) != std::string::npos) {
    throw Error(ErrorCode::invalid_argument, "model '" + name + "'", "is no name of a folder",
                "give the model another \"name\"");
  }
}

void place_copy(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failed;
  std::filesystem::copy_file(from, to, failed);
  if (failed) throw Error(ErrorCode::io, from.string(), "cannot be copied to " + to.string() + ": " + failed.message());
}

/// A folder beside the models, gone with the object.
class Workshop {
 public:
  explicit Workshop(const std::filesystem::path& repository) {
    std::error_code failed;
    std::filesystem::create_directories(repository, failed);
    std::string name = (repository / ".mobicuda-XXXXXX").string();
    if (failed || mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorCode::io, repository.string(),
                  "cannot be written: " + (failed ? failed.message() : std::string(std::strerror(errno))));
    }
    path_ = name;
  }
  ~Workshop() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

void write_model(const stream::Config& config, const stream::ModelConfig& model, const std::filesystem::path& folder,
                 InputKind input) {
  const std::filesystem::path version = folder / "1";
  std::error_code failed;
  std::filesystem::create_directories(version, failed);
  if (failed) throw Error(ErrorCode::io, version.string(), "cannot be made: " + failed.message());
  place_copy(model.file, version / (model.file.extension() == ".plan" ? "model.plan" : "model.onnx"));
  if (!config.labels.empty()) place_copy(config.labels, version / "labels.txt");
  std::string text;
  try {
    text = configuration(config, model, ModelFile(version, {}), input);  // as the server will read them
  } catch (const Error& error) {
    throw error.inside("model '" + model.name + "' (" + model.file.string() + ")");
  }
  std::ofstream file(folder / "config.pbtxt", std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error(ErrorCode::io, (folder / "config.pbtxt").string(), "cannot be written");
}

}  // namespace

std::vector<std::string> write_repository(const stream::Config& config, const std::filesystem::path& folder,
                                          InputKind input) {
  for (const stream::ModelConfig& model : config.models) {
    check_name(model.name);
    if (std::filesystem::exists(std::filesystem::symlink_status(folder / model.name))) {
      throw Error(ErrorCode::invalid_argument, (folder / model.name).string(), "is there already",
                  "a new version of a model goes into a folder of its own beside the others, e.g. " +
                      (folder / model.name / "2").string());
    }
  }
  const Workshop workshop(folder);
  for (const stream::ModelConfig& model : config.models) {
    write_model(config, model, workshop.path() / model.name, input);
  }
  for (const stream::ModelConfig& model : config.models) {
    std::error_code failed;
    std::filesystem::rename(workshop.path() / model.name, folder / model.name, failed);
    if (failed) throw Error(ErrorCode::io, (folder / model.name).string(), "cannot be made: " + failed.message());
  }

  std::vector<std::string> remarks;
  if (std::ranges::any_of(config.models, [](const auto& model) { return model.share != 1; })) {
    remarks.emplace_back("'share' is left out: a request names its model");
  }
  if (!config.preload) {
    remarks.emplace_back(
        "'preload' is left out: the server keeps models; --model-control-mode=explicit loads and "
        "unloads them by request");
  }
  if (config.times != 1 || config.seed != 0)
    remarks.emplace_back("'times' and 'seed' are left out: clients send pictures");
  return remarks;
}

}  // namespace mobicuda::triton
