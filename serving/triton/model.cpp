#include "triton/model.h"

#include <utility>

#include "triton/server_errors.h"

namespace mobicuda::triton {
namespace {

std::string describe(const ModelPlace& place) {
  return "model '" + place.name + "' version " + std::to_string(place.version);
}

Labels labels_of(const ModelPlace& place) {
  return {{"model", place.name}, {"version", std::to_string(place.version)}};
}

Labels with(Labels labels, const std::string& name, const std::string& value) {
  labels.emplace_back(name, value);
  return labels;
}

// Inputs of floats are taken as they are, plans for bytes have their own way from bytes to numbers.
void check_preprocess(const Settings& settings, InputKind kind, const ModelFile& file, const std::string& where) {
  if (!settings.preprocess) return;
  if (kind == InputKind::Floats) {
    throw Error(ErrorCode::invalid_argument, where + ": parameter 'preprocess'",
                "is given, and the input is TYPE_FP32, which the network reads as it is");
  }
  if (file.most_images() && file.usual_input() == InputKind::Pixels) {
    throw Error(ErrorCode::invalid_argument, where + ": parameter 'preprocess'",
                "is given, and the plan file was compiled with its own");
  }
}

}  // namespace

EngineInUse::EngineInUse(std::shared_ptr<const Engine> engine, const Metrics& metrics, const Labels& labels)
    : engine_(std::move(engine)),
      memory_(engine_->memory()),
      weights_(metrics.memory_bytes(with(labels, "what", "weights"))),
      sessions_(metrics.memory_bytes(with(labels, "what", "sessions"))) {
  weights_.add(static_cast<double>(memory_.weight_bytes));
}

EngineInUse::~EngineInUse() { weights_.add(-static_cast<double>(memory_.weight_bytes)); }

void EngineInUse::count_session(int change) const noexcept {
  sessions_.add(change * static_cast<double>(memory_.total() - memory_.weight_bytes));
}

Model::Model(ModelPlace place, Json& config, const Metrics& metrics)
    : place_(std::move(place)),
      where_(describe(place_)),
      metrics_(metrics),
      settings_(read_settings(config, where_)),
      file_(place_.folder, log_callback(where_)),
      failed_requests_(metrics.failed_requests(labels_of(place_))) {
  if (has_queue_policy(config)) {
    log(TRITONSERVER_LOG_WARN, where_ +
                                   ": dynamic_batching has a queue policy, under which the server lets requests wait "
                                   "for up to half a second: take "
                                   "parameter max_queue_size instead, and leave dynamic_batching out");
  }
  kind_ = settings_.input.value_or(file_.usual_input());
  input_ = file_.input(kind_);
  check_preprocess(settings_, kind_, file_, where_);
  const std::vector<Tensor> outputs = file_.outputs(settings_.top);
  if (place_.complete) complete(config, input_, outputs, file_.most_images().value_or(place_.usual_batch));
  max_batch_ = check_tensors(config, input_, outputs, file_.most_images(), where_);
  if (kind_ == InputKind::Encoded) {
    for (const auto decoder : {pictures::Decoder::None, pictures::Decoder::Cpu, pictures::Decoder::NvjpegUnits,
                               pictures::Decoder::NvjpegSms}) {
      const std::string name(pictures::to_string(decoder));
      decoded_.emplace(decoder, metrics.decoded_pictures(with(labels_of(place_), "decoder", name)));
    }
  }
}

std::shared_ptr<const EngineInUse> Model::engine(const Processor& processor) {
  const std::scoped_lock lock(mutex_);
  auto& engine = engines_[processor];
  if (engine == nullptr) {
    engine = std::make_shared<const EngineInUse>(file_.compile(processor, settings_, kind_, max_batch_), metrics_,
                                                 with(labels_of(place_), "processor", processor.name()));
  }
  return engine;
}

Metric Model::waiting_requests() const { return metrics_.waiting_requests(labels_of(place_)); }

void Model::count_decoded(pictures::Decoder decoder) const noexcept {
  const auto found = decoded_.find(decoder);
  if (found != decoded_.end()) found->second.add(1);
}

}  // namespace mobicuda::triton
