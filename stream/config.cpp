#include "stream/config.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include <mobicuda/error.h>

#include <nlohmann/json.hpp>

namespace mobicuda::stream {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostConfigBytes = std::size_t{1} << 20;
constexpr std::size_t kMostModels = 256;
constexpr int kMostDepth = 16;
constexpr std::int64_t kMostBatch = 1024;
constexpr std::int64_t kMostGpus = 64;
constexpr std::int64_t kMostTimes = 1'000'000;
constexpr std::int64_t kMostTop = 1000;

/// An object of the file; every key is asked for by name, and what nobody asked for is refused.
class Object {
 public:
  Object(const Json& json, const std::string& source, std::string path)
      : json_(json), source_(source), path_(std::move(path)) {
    if (!json.is_object()) throw error("", "must be an object of keys and values");
  }

  Error error(const std::string& key, const std::string& what, const std::string& hint = {}) const {
    const std::string name = path_.empty() || key.empty() ? path_ + key : path_ + "." + key;
    return {ErrorCode::invalid_argument, name.empty() ? source_ : source_ + ": '" + name + "'", what, hint};
  }

  const Json* find(const char* key) {
    asked_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }

  const Json& require(const char* key) {
    const Json* found = find(key);
    if (found == nullptr) throw error(key, "is missing");
    return *found;
  }

  std::string text(const char* key, const Json& value) const {
    if (!value.is_string()) throw error(key, "must be a text, got " + value.dump());
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty()) throw error(key, "must not be empty");
    if (text.find('\0') != std::string::npos) throw error(key, "must not hold a zero byte");
    return text;
  }

  std::optional<std::int64_t> number(const char* key, std::int64_t least, std::int64_t most) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    // What is no int64, a fraction or a huge number, is out of range too.
    const bool fits =
        value->is_number_integer() &&
        !(value->is_number_unsigned() && value->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max());
    const std::int64_t number = fits ? value->get<std::int64_t>() : least - 1;
    if (number < least || number > most) {
      throw error(key, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                           ", got " + value->dump());
    }
    return number;
  }

  bool flag(const char* key, bool otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) throw error(key, "must be true or false, got " + value->dump());
    return value->get<bool>();
  }

  /// Which of the names the value is; nothing where the key is absent.
  std::optional<std::size_t> one_of(const char* key, std::initializer_list<const char*> names) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    std::string listed;
    std::size_t index = 0;
    for (const char* name : names) {
      if (value->is_string() && value->get_ref<const std::string&>() == name) return index;
      listed += (index == 0 ? "\"" : ", \"") + std::string(name) + '"';
      ++index;
    }
    throw error(key, "must be one of " + listed + ", got " + value->dump());
  }

  /// Throws on keys that were not asked for.
  void finish() const {
    std::string known;
    for (const std::string& key : asked_) known += (known.empty() ? "" : ", ") + key;
    for (const auto& [key, value] : json_.items()) {
      if (!asked_.contains(key)) throw error(key, "is not a known key", "known are: " + known);
    }
  }

 private:
  const Json& json_;
  const std::string& source_;
  std::string path_;
  std::set<std::string> asked_;
};

// The parser keeps the last of two equal keys; here they are a mistake. What is nested deeply would be printed, in an
// error, by as many calls.
Json parse(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> open;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMostDepth) throw Error(ErrorCode::invalid_argument, source, "nests values too deeply");
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second) {
      throw Error(ErrorCode::invalid_argument, source + ": '" + parsed.get<std::string>() + "'", "is there twice");
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_argument, source, std::string("is no JSON: ") + error.what());
  }
}

bool is_zero_centred(Object& object, bool otherwise) {
  const auto found = object.one_of("preprocess", {"torch", "tf"});
  return found ? *found == 1 : otherwise;
}

ModelConfig parse_model(const Json& json, const std::string& source, const std::string& path,
                        const std::filesystem::path& model_dir, bool zero_centred) {
  ModelConfig model;
  model.zero_centred = zero_centred;
  std::string file;
  if (json.is_string()) {
    file = json.get<std::string>();
    if (file.empty()) throw Error(ErrorCode::invalid_argument, source + ": '" + path + "'", "must not be empty");
  } else {
    Object object(json, source, path);
    file = object.text("file", object.require("file"));
    if (const Json* name = object.find("name")) model.name = object.text("name", *name);
    if (const Json* share = object.find("share")) {
      constexpr double kMostShare = 1e9;
      model.share = share->is_number() ? share->get<double>() : 0;
      if (!(model.share > 0 && model.share <= kMostShare)) {
        throw object.error("share", "must be a number above 0, 1e9 at most, got " + share->dump());
      }
    }
    model.zero_centred = is_zero_centred(object, zero_centred);
    object.finish();
  }
  const std::filesystem::path given(file);
  if (!given.has_filename()) {  // it would have no name, whatever its folder is called
    throw Error(ErrorCode::invalid_argument, source + ": '" + path + (json.is_string() ? "'" : ".file'"),
                "must name a file, got a folder (it ends with '/')");
  }
  if (model.name.empty()) model.name = given.stem().string();
  model.file = model_dir / given;
  if (given.extension() != ".onnx" && given.extension() != ".plan") model.file += ".onnx";
  return model;
}

}  // namespace

Config parse_config(std::string_view text, const std::string& source, const std::filesystem::path& folder) {
  const Json json = parse(text, source);
  Object object(json, source, "");
  const auto path = [&](const char* key) { return folder / object.text(key, object.require(key)); };
  Config config;
  config.img_dir = path("img_dir");
  config.result_dir = path("result_dir");
  const Json* model_dir = object.find("model_dir");
  const std::filesystem::path models_in = model_dir != nullptr ? folder / object.text("model_dir", *model_dir) : folder;
  const bool zero_centred = is_zero_centred(object, false);
  const Json& models = object.require("models");
  if (!models.is_array() || models.empty() || models.size() > kMostModels) {
    throw object.error("models", "must be a list of 1 to " + std::to_string(kMostModels) + " models",
                       R"(e.g. ["mobilenet_v2", {"file": "resnet50.onnx", "share": 2}])");
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::string where = "models[" + std::to_string(i) + "]";
    config.models.push_back(parse_model(models[i], source, where, models_in, zero_centred));
    if (!names.insert(config.models.back().name).second) {
      throw object.error(where, "is another model named \"" + config.models.back().name + '"',
                         "\"name\" gives it one of its own");
    }
  }
  if (const auto number = object.number("gpu_num", 0, kMostGpus)) config.gpu_num = static_cast<int>(*number);
  config.batchsize = static_cast<int>(object.number("batchsize", 1, kMostBatch).value_or(config.batchsize));
  config.times = object.number("times", 1, kMostTimes).value_or(config.times);
  config.seed =
      static_cast<std::uint64_t>(object.number("seed", 0, std::numeric_limits<std::int64_t>::max()).value_or(0));
  config.top = static_cast<int>(object.number("top", 1, kMostTop).value_or(config.top));
  if (const auto precision = object.one_of("precision", {"fp16", "fp32", "fp32_split", "fp64"})) {
    constexpr Precision kPrecisions[] = {Precision::Fp16, Precision::Fp32, Precision::Fp32Split, Precision::Fp64};
    config.precision = kPrecisions[*precision];
  }
  if (const auto decode = object.one_of("decode", {"auto", "gpu", "gpu-units", "gpu-sms", "cpu"})) {
    constexpr Decode kDecodes[] = {Decode::Auto, Decode::Gpu, Decode::GpuUnits, Decode::GpuSms, Decode::Cpu};
    config.decode = kDecodes[*decode];
  }
  config.preload = object.flag("preload", config.preload);
  if (const Json* labels = object.find("labels")) config.labels = folder / object.text("labels", *labels);
  object.finish();
  return config;
}

Config load_config(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  if (stream && !std::filesystem::is_directory(file)) {
    text.resize(kMostConfigBytes + 1);
    stream.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kMostConfigBytes) {
      throw Error(ErrorCode::invalid_argument, file.string(),
                  "is larger than a configuration may be, " + std::to_string(kMostConfigBytes) + " bytes");
    }
  }
  if (text.empty()) {
    throw Error(ErrorCode::io, file.string(),
                "cannot be read" + (errno != 0 ? std::string(": ") + std::strerror(errno) : ", or is empty"));
  }
  return parse_config(text, file.string(), file.parent_path());
}

}  // namespace mobicuda::stream
