#include "serving/fake_server.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <utility>

// Opaque to the backend.
struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string text;
};
struct TRITONSERVER_Message {
  std::string json;
};
struct TRITONSERVER_Parameter {
  std::string name;
  std::string value;
};
struct TRITONSERVER_MetricFamily {
  TRITONSERVER_MetricKind kind;
  std::string name;
  int metrics = 0;
};
struct TRITONSERVER_Metric {
  TRITONSERVER_MetricFamily* family;
  std::string labels;
};
struct TRITONBACKEND_BackendAttribute {
  std::vector<TRITONSERVER_InstanceGroupKind> kinds;
};
struct TRITONBACKEND_Response {
  TRITONBACKEND_Request* request;
  std::map<std::string, TRITONBACKEND_Output> outputs;
};

namespace {

using mobicuda::test::fake_behaviour;
using mobicuda::test::fake_counts;

std::mutex& shared_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::condition_variable& request_released() {
  static std::condition_variable released;
  return released;
}
std::map<std::string, double>& metric_values() {
  static std::map<std::string, double> values;
  return values;
}
std::vector<std::string>& log_lines() {
  static std::vector<std::string> lines;
  return lines;
}

}  // namespace

namespace mobicuda::test {

FakeCounts& fake_counts() {
  static FakeCounts counts;
  return counts;
}

void wait_until_released(const TRITONBACKEND_Request& request) {
  std::unique_lock lock(shared_mutex());
  request_released().wait(lock, [&] { return request.released; });
}

FakeBehaviour& fake_behaviour() {
  static FakeBehaviour behaviour;
  return behaviour;
}

std::map<std::string, double> fake_metrics() {
  const std::scoped_lock lock(shared_mutex());
  return metric_values();
}

std::vector<std::string> take_fake_log() {
  const std::scoped_lock lock(shared_mutex());
  return std::exchange(log_lines(), {});
}

}  // namespace mobicuda::test

extern "C" {

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* msg) {
  ++fake_counts().errors;
  return new TRITONSERVER_Error{code, msg};
}
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) {
  --fake_counts().errors;
  delete error;
}
TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error* error) { return error->code; }
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->text.c_str(); }

TRITONSERVER_Error* TRITONSERVER_LogMessage(TRITONSERVER_LogLevel /*level*/, const char* /*file*/, int /*line*/,
                                            const char* msg) {
  const std::scoped_lock lock(shared_mutex());
  log_lines().emplace_back(msg);
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** message, const char* base,
                                                              std::size_t byte_size) {
  ++fake_counts().messages;
  *message = new TRITONSERVER_Message{{base, byte_size}};
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* message, const char** base,
                                                        std::size_t* byte_size) {
  *base = message->json.data();
  *byte_size = message->json.size();
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message) {
  --fake_counts().messages;
  delete message;
  return nullptr;
}

TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(const char* name, TRITONSERVER_ParameterType /*type*/,
                                                  const void* value) {
  ++fake_counts().parameters;
  return new TRITONSERVER_Parameter{name, static_cast<const char*>(value)};
}
void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter* parameter) {
  --fake_counts().parameters;
  delete parameter;
}

TRITONSERVER_Error* TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily** family, TRITONSERVER_MetricKind kind,
                                                 const char* name, const char* /*description*/) {
  if (!fake_behaviour().metrics) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "no metrics here");
  ++fake_counts().families;
  *family = new TRITONSERVER_MetricFamily{kind, name};
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily* family) {
  if (family->metrics != 0) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the family has metrics");
  --fake_counts().families;
  delete family;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricNew(TRITONSERVER_Metric** metric, TRITONSERVER_MetricFamily* family,
                                           const TRITONSERVER_Parameter** labels, std::uint64_t label_count) {
  std::string text = family->name + "{";
  for (std::uint64_t i = 0; i < label_count; ++i) {
    text += (i == 0 ? "" : ",") + labels[i]->name + "=" + labels[i]->value;
  }
  const std::scoped_lock lock(shared_mutex());
  ++family->metrics;
  ++fake_counts().metrics;
  *metric = new TRITONSERVER_Metric{family, text + "}"};
  metric_values()[(*metric)->labels] += 0;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricDelete(TRITONSERVER_Metric* metric) {
  const std::scoped_lock lock(shared_mutex());
  --metric->family->metrics;
  --fake_counts().metrics;
  delete metric;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricIncrement(TRITONSERVER_Metric* metric, double value) {
  if (metric->family->kind == TRITONSERVER_METRIC_KIND_COUNTER && value < 0) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "a counter does not fall");
  }
  const std::scoped_lock lock(shared_mutex());
  metric_values()[metric->labels] += value;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ApiVersion(std::uint32_t* major, std::uint32_t* minor) {
  *major = fake_behaviour().api_major;
  *minor = fake_behaviour().api_minor;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend* backend, TRITONSERVER_Message** message) {
  // The backend's own, as the server's is: not counted, gone with the thread.
  thread_local TRITONSERVER_Message config;
  config.json = backend->config;
  *message = &config;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendState(TRITONBACKEND_Backend* backend, void** state) {
  *state = backend->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend* backend, void* state) {
  backend->state = state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(TRITONBACKEND_BackendAttribute* attributes,
                                                                            TRITONSERVER_InstanceGroupKind kind,
                                                                            std::uint64_t /*count*/,
                                                                            const std::uint64_t* /*device_ids*/,
                                                                            std::uint64_t /*id_count*/) {
  attributes->kinds.push_back(kind);
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelName(TRITONBACKEND_Model* model, const char** name) {
  *name = model->name.c_str();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelVersion(TRITONBACKEND_Model* model, std::uint64_t* version) {
  *version = model->version;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelRepository(TRITONBACKEND_Model* model, TRITONBACKEND_ArtifactType* type,
                                                  const char** location) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = model->folder.c_str();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* model, std::uint32_t /*version*/,
                                              TRITONSERVER_Message** config) {
  return TRITONSERVER_MessageNewFromSerializedJson(config, model->config.data(), model->config.size());
}
TRITONSERVER_Error* TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model* model, bool* complete) {
  *complete = model->complete;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* model, std::uint32_t /*version*/,
                                                 TRITONSERVER_Message* config) {
  model->config = config->json;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* model, TRITONBACKEND_Backend** backend) {
  *backend = model->backend;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state) {
  *state = model->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state) {
  model->state = state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance* instance, const char** name) {
  *name = instance->name.c_str();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance* instance,
                                                    TRITONSERVER_InstanceGroupKind* kind) {
  *kind = instance->kind;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance* instance, std::int32_t* device) {
  *device = instance->device;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* instance,
                                                     TRITONBACKEND_Model** model) {
  *model = instance->model;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* instance, void** state) {
  *state = instance->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* instance, void* state) {
  instance->state = state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance* /*instance*/,
                                                                TRITONBACKEND_Request* request, bool success,
                                                                std::uint64_t exec_start_ns,
                                                                std::uint64_t compute_start_ns,
                                                                std::uint64_t compute_end_ns,
                                                                std::uint64_t exec_end_ns) {
  if (request->released) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "the request is released");
  ++request->reported;
  request->reported_success = success;
  request->times_rise = 0 < exec_start_ns && exec_start_ns <= compute_start_ns && compute_start_ns <= compute_end_ns &&
                        compute_end_ns <= exec_end_ns;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance* instance, std::uint64_t batch_size, std::uint64_t /*exec_start_ns*/,
    std::uint64_t /*compute_start_ns*/, std::uint64_t /*compute_end_ns*/, std::uint64_t /*exec_end_ns*/) {
  instance->batches.push_back(batch_size);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request* request, std::uint32_t* count) {
  *count = static_cast<std::uint32_t>(request->inputs.size());
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request* request, std::uint32_t index,
                                                      TRITONBACKEND_Input** input) {
  *input = &request->inputs.at(index);
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request* request, std::uint32_t* count) {
  *count = static_cast<std::uint32_t>(request->wanted.size());
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request* request, std::uint32_t index,
                                                    const char** name) {
  *name = request->wanted.at(index).c_str();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* request, bool* is_cancelled) {
  *is_cancelled = request->cancelled;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request, std::uint32_t /*flags*/) {
  const std::scoped_lock lock(shared_mutex());
  if (request->released) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "released twice");
  request->released = true;
  request_released().notify_all();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_InputProperties(TRITONBACKEND_Input* input, const char** name,
                                                  TRITONSERVER_DataType* datatype, const std::int64_t** shape,
                                                  std::uint32_t* dims_count, std::uint64_t* byte_size,
                                                  std::uint32_t* buffer_count) {
  if (name != nullptr) *name = input->input.name.c_str();
  *datatype = input->input.type;
  *shape = input->input.shape.data();
  *dims_count = static_cast<std::uint32_t>(input->input.shape.size());
  *byte_size = 0;
  for (const std::string& buffer : input->input.buffers) *byte_size += buffer.size();
  *buffer_count = static_cast<std::uint32_t>(input->input.buffers.size());
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* input, std::uint32_t index, const void** buffer,
                                              std::uint64_t* buffer_byte_size, TRITONSERVER_MemoryType* memory_type,
                                              std::int64_t* /*memory_type_id*/) {
  const std::string& bytes = input->input.buffers.at(index);
  *buffer = input->input.elsewhere != nullptr ? input->input.elsewhere : bytes.data();
  *buffer_byte_size = bytes.size();
  *memory_type = input->input.memory;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response, TRITONBACKEND_Request* request) {
  if (request->released) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "the request is released");
  if (fake_behaviour().fail_responses) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no response");
  ++fake_counts().responses;
  *response = new TRITONBACKEND_Response{request, {}};
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response, TRITONBACKEND_Output** output,
                                                 const char* name, TRITONSERVER_DataType datatype,
                                                 const std::int64_t* shape, std::uint32_t dims_count) {
  *output = &response->outputs[name];
  (*output)->output.type = datatype;
  (*output)->output.shape.assign(shape, shape + dims_count);
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** buffer,
                                               std::uint64_t buffer_byte_size, TRITONSERVER_MemoryType* memory_type,
                                               std::int64_t* /*memory_type_id*/) {
  if (fake_behaviour().fail_outputs) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory for it");
  output->output.bytes.resize(buffer_byte_size);
  *buffer = output->output.bytes.data();
  *memory_type = fake_behaviour().gpu_outputs ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, std::uint32_t /*flags*/,
                                               TRITONSERVER_Error* error) {
  TRITONBACKEND_Request& request = *response->request;
  ++request.answers;
  if (error != nullptr) {
    request.error_code = error->code;
    request.error = error->text;
  } else {
    for (auto& [name, output] : response->outputs) request.outputs[name] = std::move(output.output);
  }
  --fake_counts().responses;
  delete response;
  return nullptr;
}

}  // extern "C"
