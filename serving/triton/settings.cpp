#include "triton/settings.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <mobicuda/error.h>

namespace mobicuda::triton {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kMostDevice = 63;
constexpr std::int64_t kMostTop = 1000;
constexpr std::int64_t kMostQueue = 1'000'000;

/// config.pbtxt's parameters: every one is asked for by name, and what nobody asked for is refused.
class Parameters {
 public:
  Parameters(const Json& config, const std::string& where) : where_(where) {
    const auto found = config.find("parameters");
    if (found == config.end() || !found->is_object()) return;
    for (const auto& [key, value] : found->items()) {
      const auto text = value.is_object() ? value.find("string_value") : value.end();
      const bool is_text = value.is_object() && text != value.end() && text->is_string();
      values_[key] = is_text ? text->get<std::string>() : std::string();
    }
  }

  template <class T>
  std::optional<T> one_of(const char* key, const std::vector<std::pair<const char*, T>>& names) {
    const std::optional<std::string> text = take(key);
    if (!text) return {};
    std::string listed;
    for (const auto& [name, value] : names) {
      if (*text == name) return value;
      listed += (listed.empty() ? "\"" : ", \"") + std::string(name) + '"';
    }
    throw error(key, "must be one of " + listed + ", got \"" + *text + '"');
  }

  template <class T>
  std::optional<T> number(const char* key, T least, T most) {
    const std::optional<std::string> text = take(key);
    if (!text) return {};
    T value{};
    const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (failed != std::errc() || end != text->data() + text->size() || value < least || value > most) {
      throw error(key, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                           ", got \"" + *text + '"');
    }
    return value;
  }

  void finish() const {
    std::string known;
    for (const std::string& key : asked_) known += (known.empty() ? "" : ", ") + key;
    for (const auto& [key, value] : values_) {
      if (!asked_.contains(key)) throw error(key, "is not a known parameter", "known are: " + known);
    }
  }

 private:
  std::optional<std::string> take(const char* key) {
    asked_.insert(key);
    const auto found = values_.find(key);
    if (found == values_.end()) return {};
    return found->second;
  }

  Error error(const std::string& key, const std::string& what, const std::string& hint = {}) const {
    return {ErrorCode::invalid_argument, where_ + ": parameter '" + key + "'", what, hint};
  }

  const std::string& where_;
  std::map<std::string, std::string> values_;
  std::set<std::string> asked_;
};

std::string text_of(const Json& tensor, const char* key) {
  const auto found = tensor.find(key);
  return found != tensor.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The server writes int64 as numbers or, as protobuf's JSON has it, as text.
std::int64_t integer_of(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  std::int64_t number = std::numeric_limits<std::int64_t>::min();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number;
}

Tensor tensor_of(const Json& tensor) {
  Tensor result{text_of(tensor, "name"), text_of(tensor, "data_type"), {}};
  if (const auto dims = tensor.find("dims"); dims != tensor.end() && dims->is_array()) {
    for (const Json& dim : *dims) result.dims.push_back(integer_of(dim));
  }
  return result;
}

std::string describe(const Tensor& tensor) {
  std::string dims;
  for (const std::int64_t dim : tensor.dims) dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
  return '\'' + tensor.name + "' " + tensor.data_type + " [ " + dims + " ]";
}

std::vector<Json> tensors_of(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_array() ? found->get<std::vector<Json>>() : std::vector<Json>();
}

bool is_there(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null() && !(found->is_structured() && found->empty());
}

std::optional<InputKind> input_kind(const Json& config, const std::string& where) {
  const std::vector<Json> inputs = tensors_of(config, "input");
  if (inputs.empty()) return {};
  const std::string type = text_of(inputs.front(), "data_type");
  if (type == "TYPE_FP32") return InputKind::Floats;
  if (type == "TYPE_UINT8") return InputKind::Pixels;
  if (type == "TYPE_STRING") return InputKind::Encoded;
  if (type.empty() || type == "TYPE_INVALID") return {};
  throw Error(ErrorCode::invalid_argument, where + ": input", "is of " + type,
              "TYPE_FP32 takes the network's floats, TYPE_UINT8 images of 8 bits (height x width x 3), TYPE_STRING "
              "encoded pictures (JPEG, PNG, BMP, PNM)");
}

void refuse_schedulers(const Json& config, const std::string& where) {
  for (const char* key : {"sequence_batching", "ensemble_scheduling"}) {
    if (is_there(config, key)) {
      throw Error(ErrorCode::invalid_argument, where + ": '" + key + "'", "a classifier has no use for it",
                  "leave it out");
    }
  }
  for (const char* key : {"batch_input", "batch_output"}) {
    if (is_there(config, key)) throw Error(ErrorCode::invalid_argument, where + ": '" + key + "'", "is not supported");
  }
  if (const auto policy = config.find("model_transaction_policy");
      policy != config.end() && policy->is_object() && policy->value("decoupled", false)) {
    throw Error(ErrorCode::invalid_argument, where + ": 'model_transaction_policy'",
                "is decoupled: this backend answers each request once");
  }
  for (const char* list : {"input", "output"}) {
    for (const Json& tensor : tensors_of(config, list)) {
      if (is_there(tensor, "reshape")) {
        throw Error(ErrorCode::invalid_argument, where + ": " + list + " '" + text_of(tensor, "name") + "'",
                    "has a reshape, which is not supported", "give the model's own dims");
      }
    }
  }
}

void fill(Json& entry, const Tensor& tensor) {
  if (text_of(entry, "name").empty()) entry["name"] = tensor.name;
  const std::string type = text_of(entry, "data_type");
  if (type.empty() || type == "TYPE_INVALID") entry["data_type"] = tensor.data_type;
  if (!is_there(entry, "dims")) entry["dims"] = tensor.dims;
}

Json written(const Tensor& tensor) {
  return {{"name", tensor.name}, {"data_type", tensor.data_type}, {"dims", tensor.dims}};
}

}  // namespace

Settings read_settings(const Json& config, const std::string& where) {
  refuse_schedulers(config, where);
  Settings settings;
  settings.input = input_kind(config, where);
  Parameters parameters(config, where);
  settings.precision = parameters.one_of<Precision>("precision", {{"fp16", Precision::Fp16},
                                                                  {"fp32", Precision::Fp32},
                                                                  {"fp32_split", Precision::Fp32Split},
                                                                  {"fp64", Precision::Fp64}});
  settings.preprocess = parameters.one_of<pictures::Normalization>(
      "preprocess", {{"torch", pictures::Normalization::Torch}, {"tf", pictures::Normalization::Tf}});
  settings.threads = parameters.number("threads", 0, kMostThreads).value_or(settings.threads);
  settings.device = parameters.number("device", 0, kMostDevice).value_or(settings.device);
  settings.decode = parameters
                        .one_of<pictures::DecodeOn>("decode", {{"auto", pictures::DecodeOn::Auto},
                                                               {"gpu", pictures::DecodeOn::Gpu},
                                                               {"gpu-units", pictures::DecodeOn::GpuUnits},
                                                               {"gpu-sms", pictures::DecodeOn::GpuSms},
                                                               {"cpu", pictures::DecodeOn::Cpu}})
                        .value_or(settings.decode);
  settings.decode_threads = parameters.number("decode_threads", 0, kMostThreads).value_or(settings.decode_threads);
  settings.top = parameters.number<std::int64_t>("top", 1, kMostTop).value_or(settings.top);
  settings.specialise =
      parameters
          .one_of<Specialise>(
              "specialise", {{"never", Specialise::Never}, {"auto", Specialise::Auto}, {"always", Specialise::Always}})
          .value_or(settings.specialise);
  settings.max_memory_bytes =
      parameters.number<std::int64_t>("max_memory_bytes", 0, std::numeric_limits<std::int64_t>::max())
          .value_or(settings.max_memory_bytes);
  settings.max_queue_size =
      parameters.number<std::int64_t>("max_queue_size", 0, kMostQueue).value_or(settings.max_queue_size);
  settings.warm_up = parameters.one_of<bool>("warm_up", {{"true", true}, {"false", false}}).value_or(settings.warm_up);
  parameters.finish();
  return settings;
}

bool has_queue_policy(const Json& config) {
  const auto batching = config.find("dynamic_batching");
  if (batching == config.end() || !batching->is_object()) return false;
  const auto above_zero = [](const Json& in, const char* key) {
    const auto found = in.find(key);
    return found != in.end() && integer_of(*found) > 0;
  };
  const auto policy = batching->find("default_queue_policy");
  return above_zero(*batching, "priority_levels") ||
         (policy != batching->end() && policy->is_object() &&
          (above_zero(*policy, "max_queue_size") || above_zero(*policy, "default_timeout_microseconds") ||
           policy->value("allow_timeout_override", false)));
}

void complete(Json& config, const Tensor& input, const std::vector<Tensor>& outputs, std::int64_t most_images) {
  if (const auto size = config.find("max_batch_size"); size == config.end() || integer_of(*size) == 0) {
    config["max_batch_size"] = most_images;
  }
  if (!is_there(config, "input")) {
    config["input"] = Json::array({written(input)});
  } else {
    fill(config["input"][0], input);
  }
  if (!is_there(config, "output")) {
    config["output"] = Json::array();
    for (const Tensor& output : outputs) config["output"].push_back(written(output));
  } else {
    for (Json& entry : config["output"]) {
      const std::string name = text_of(entry, "name");
      const auto known = std::ranges::find(outputs, name, &Tensor::name);
      if (name.empty()) {
        fill(entry, outputs.front());
      } else if (known != outputs.end()) {
        fill(entry, *known);
      }
    }
  }
}

std::int64_t check_tensors(const Json& config, const Tensor& input, const std::vector<Tensor>& outputs,
                           std::optional<std::int64_t> most_images, const std::string& where) {
  const std::vector<Json> inputs = tensors_of(config, "input");
  if (inputs.size() != 1 || tensor_of(inputs.front()) != input) {
    const std::string got = inputs.empty() ? "none" : describe(tensor_of(inputs.front()));
    throw Error(ErrorCode::invalid_argument, where + ": input",
                "must be " + describe(input) + " and no other, got " + got +
                    (inputs.size() > 1 ? " and " + std::to_string(inputs.size() - 1) + " more" : ""),
                "leave name and dims out to have them filled in");
  }
  for (const Json& entry : tensors_of(config, "output")) {
    const Tensor output = tensor_of(entry);
    if (std::ranges::find(outputs, output) != outputs.end()) continue;
    std::string known;
    for (const Tensor& one : outputs) known += (known.empty() ? "" : ", ") + describe(one);
    throw Error(ErrorCode::invalid_argument, where + ": output " + describe(output), "the model has " + known,
                "leave the outputs out to have them filled in; parameter 'top' adds top_classes, top_scores and, where "
                "the version folder has a labels.txt, top_labels");
  }
  if (tensors_of(config, "output").empty()) {
    throw Error(ErrorCode::invalid_argument, where + ": output", "there is none",
                "name " + describe(outputs.front()) + ", or let the server complete the configuration");
  }
  const auto found = config.find("max_batch_size");
  const std::int64_t images = found == config.end() ? 0 : integer_of(*found);
  if (images < 1) {
    throw Error(ErrorCode::invalid_argument, where + ": 'max_batch_size'", "must be 1 at least",
                "requests have a batch as their first dimension");
  }
  if (most_images && images > *most_images) {
    throw Error(ErrorCode::invalid_argument, where + ": 'max_batch_size'",
                "is " + std::to_string(images) + ", the plan file was compiled for " + std::to_string(*most_images));
  }
  return images;
}

}  // namespace mobicuda::triton
