// The functions that Triton Inference Server calls: libtriton_mobicuda.so. docs/serving.md is its manual.
#include <charconv>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <mobicuda/error.h>

#include "triton/instance.h"
#include "triton/metrics.h"
#include "triton/model.h"
#include "triton/request_queue.h"
#include "triton/server_errors.h"
#include "triton/triton_api.h"

namespace mobicuda::triton {
namespace {

struct Backend {
  Metrics metrics;
  std::int64_t usual_batch = 4;  // the server's own default
};

/// A model, and what waits for its instances.
struct Served {
  Served(ModelPlace place, Json& config, const Metrics& metrics)
      : model(std::move(place), config, metrics),
        queue(model.max_batch(), model.settings().max_queue_size, model.waiting_requests()) {}

  Model model;
  RequestQueue queue;
};

// Runs a body at the border to C: what it throws becomes the error that is returned.
template <class Body>
TRITONSERVER_Error* guarded(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return current_error();
  }
}

/// A message of the server.
class Message {
 public:
  explicit Message(TRITONSERVER_Message* message) : message_(message) {}
  explicit Message(const std::string& json) {
    check(TRITONSERVER_MessageNewFromSerializedJson(&message_, json.data(), json.size()));
  }
  ~Message() { log_and_delete(TRITONSERVER_MessageDelete(message_), "message"); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  TRITONSERVER_Message* get() const noexcept { return message_; }
  Json json() const {
    const char* text = nullptr;
    std::size_t bytes = 0;
    check(TRITONSERVER_MessageSerializeToJson(message_, &text, &bytes));
    try {
      return Json::parse(text, text + bytes);
    } catch (const Json::exception& error) {
      throw Error(ErrorCode::internal, "the server's message", error.what());
    }
  }

 private:
  TRITONSERVER_Message* message_ = nullptr;
};

void require_api() {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  check(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major != kApiMajor || minor < kApiMinor) {
    throw Error(ErrorCode::unsupported, "mobicuda",
                "the server's backend API is " + std::to_string(major) + '.' + std::to_string(minor) +
                    ", this backend needs " + std::to_string(kApiMajor) + '.' + std::to_string(kApiMinor) +
                    " or a later one of " + std::to_string(kApiMajor),
                "take a server of release 24.10 or later");
  }
}

// What --backend-config=mobicuda,KEY=VALUE gave, and what the server adds. Keys that the server adds to every backend
// are in front; any other would be a mistake that stays unseen.
void read_backend_config(const Json& config, Backend& backend) {
  const auto command_line = config.find("cmdline");
  if (command_line == config.end() || !command_line->is_object()) return;
  for (const auto& [key, value] : command_line->items()) {
    if (key == "auto-complete-config" || key == "backend-directory" || key == "min-compute-capability") continue;
    if (key != "default-max-batch-size") {
      throw Error(ErrorCode::invalid_argument, "--backend-config=mobicuda," + key, "is not a known key",
                  "known is default-max-batch-size; models are set up by the parameters of config.pbtxt");
    }
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), backend.usual_batch);
    if (failed != std::errc() || end != text.data() + text.size() || backend.usual_batch < 1) {
      throw Error(ErrorCode::invalid_argument, "default-max-batch-size", "must be 1 at least, got \"" + text + '"');
    }
  }
}

template <class T>
T* state_of(TRITONSERVER_Error* (*getter)(TRITONBACKEND_Model*, void**), TRITONBACKEND_Model* of) {
  void* state = nullptr;
  check(getter(of, &state));
  return static_cast<T*>(state);
}

/// The server keeps it, until the handle's Finalize function is called.
template <class Handle, class State>
void give(TRITONSERVER_Error* (*setter)(Handle*, void*), Handle* handle, std::unique_ptr<State> state) {
  check(setter(handle, state.get()));
  [[maybe_unused]] const State* const given = state.release();
}

ModelPlace place_of(TRITONBACKEND_Model* model, const Backend& backend) {
  ModelPlace place;
  const char* name = nullptr;
  check(TRITONBACKEND_ModelName(model, &name));
  place.name = name;
  check(TRITONBACKEND_ModelVersion(model, &place.version));
  TRITONBACKEND_ArtifactType type{};
  const char* location = nullptr;
  check(TRITONBACKEND_ModelRepository(model, &type, &location));
  if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM) {
    throw Error(ErrorCode::unsupported, "model '" + place.name + "'", "does not lie in files");
  }
  place.folder = std::filesystem::path(location) / std::to_string(place.version);
  check(TRITONBACKEND_ModelAutoCompleteConfig(model, &place.complete));
  place.usual_batch = backend.usual_batch;
  return place;
}

void initialize_model(TRITONBACKEND_Model* handle) {
  constexpr std::uint32_t kConfigVersion = 1;
  TRITONBACKEND_Backend* backend_handle = nullptr;
  check(TRITONBACKEND_ModelBackend(handle, &backend_handle));
  void* state = nullptr;
  check(TRITONBACKEND_BackendState(backend_handle, &state));
  const auto& backend = *static_cast<const Backend*>(state);
  TRITONSERVER_Message* message = nullptr;
  check(TRITONBACKEND_ModelConfig(handle, kConfigVersion, &message));
  Json config = Message(message).json();
  const Json given = config;
  ModelPlace place = place_of(handle, backend);
  const bool complete = place.complete;
  auto served = std::make_unique<Served>(std::move(place), config, backend.metrics);
  if (complete && config != given) {
    check(TRITONBACKEND_ModelSetConfig(handle, kConfigVersion, Message(config.dump()).get()));
  }
  give(TRITONBACKEND_ModelSetState, handle, std::move(served));
}

Processor processor_of(TRITONBACKEND_ModelInstance* instance, const Model& model) {
  TRITONSERVER_InstanceGroupKind kind{};
  check(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  std::int32_t device = 0;
  check(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  switch (kind) {
    case TRITONSERVER_INSTANCEGROUPKIND_CPU:
      return {};
    case TRITONSERVER_INSTANCEGROUPKIND_GPU:
      return {device};
    case TRITONSERVER_INSTANCEGROUPKIND_MODEL:
      return {model.settings().device};
    case TRITONSERVER_INSTANCEGROUPKIND_AUTO:
      break;
  }
  throw Error(ErrorCode::unsupported, model.where(), "an instance is of an unknown kind");
}

void initialize_instance(TRITONBACKEND_ModelInstance* handle) {
  TRITONBACKEND_Model* model_handle = nullptr;
  check(TRITONBACKEND_ModelInstanceModel(handle, &model_handle));
  auto& served = *state_of<Served>(TRITONBACKEND_ModelState, model_handle);
  Model& model = served.model;
  const Processor processor = processor_of(handle, model);
  const char* name = nullptr;
  check(TRITONBACKEND_ModelInstanceName(handle, &name));
  std::unique_ptr<Instance> instance;
  try {
    std::shared_ptr<const EngineInUse> engine = model.engine(processor);
    std::unique_ptr<Runner> runner = make_runner(model, processor, *engine);
    instance = std::make_unique<Instance>(handle, model, served.queue, std::move(engine), std::move(runner),
                                          [name = std::string(name)] { end_process("instance " + name); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) end_process(error.what());
    throw;
  }
  give(TRITONBACKEND_ModelInstanceSetState, handle, std::move(instance));
}

}  // namespace
}  // namespace mobicuda::triton

// NOLINTBEGIN(readability-identifier-naming): the server's names
extern "C" {

#define MOBICUDA_TRITON_EXPORT __attribute__((visibility("default")))

MOBICUDA_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* handle) {
  using namespace mobicuda::triton;
  return guarded([handle] {
    require_api();
    auto backend = std::make_unique<Backend>();
    TRITONSERVER_Message* config = nullptr;
    check(TRITONBACKEND_BackendConfig(handle, &config));
    // The message stays the server's.
    const char* text = nullptr;
    std::size_t bytes = 0;
    check(TRITONSERVER_MessageSerializeToJson(config, &text, &bytes));
    read_backend_config(Json::parse(text, text + bytes), *backend);
    give(TRITONBACKEND_BackendSetState, handle, std::move(backend));
  });
}

MOBICUDA_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* handle) {
  using namespace mobicuda::triton;
  return guarded([handle] {
    void* state = nullptr;
    check(TRITONBACKEND_BackendState(handle, &state));
    delete static_cast<Backend*>(state);
  });
}

MOBICUDA_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(
    TRITONBACKEND_Backend* /*handle*/, TRITONBACKEND_BackendAttribute* attributes) {
  using namespace mobicuda::triton;
  return guarded([attributes] {
    // In this order: the server takes the first kind that it has processors for. Two on a GPU: the transfers of one
    // overlap the kernels of the other.
    check(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attributes, TRITONSERVER_INSTANCEGROUPKIND_GPU, 2,
                                                                  nullptr, 0));
    check(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 1,
                                                                  nullptr, 0));
  });
}

MOBICUDA_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* handle) {
  using namespace mobicuda::triton;
  return guarded([handle] { initialize_model(handle); });
}

MOBICUDA_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* handle) {
  using namespace mobicuda::triton;
  return guarded([handle] { delete state_of<Served>(TRITONBACKEND_ModelState, handle); });
}

MOBICUDA_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* handle) {
  using namespace mobicuda::triton;
  return guarded([handle] { initialize_instance(handle); });
}

MOBICUDA_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* handle) {
  using namespace mobicuda::triton;
  return guarded([handle] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(handle, &state));
    delete static_cast<Instance*>(state);
  });
}

MOBICUDA_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* handle,
                                                                              TRITONBACKEND_Request** requests,
                                                                              std::uint32_t count) {
  using namespace mobicuda::triton;
  return guarded([=] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(handle, &state));
    static_cast<Instance*>(state)->execute({requests, count});
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
