#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "triton/triton_api.h"

/// What the backend calls of Triton, in memory and in one process: for tests without a server, also under sanitizers.
namespace mobicuda::test {

/// An input of a request, in as many pieces as there are buffers.
struct FakeInput {
  std::string name = "input";
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_FP32;
  std::vector<std::int64_t> shape;
  std::vector<std::string> buffers;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  const void* elsewhere = nullptr;  ///< where the bytes of the only buffer lie instead
};

struct FakeOutput {
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_FP32;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// Counts of what the backend made and must have given back.
struct FakeCounts {
  std::atomic<int> errors{0};
  std::atomic<int> messages{0};
  std::atomic<int> metrics{0};
  std::atomic<int> families{0};
  std::atomic<int> parameters{0};
  std::atomic<int> responses{0};
};
FakeCounts& fake_counts();

/// How the server is, for the backends that are loaded from now on.
struct FakeBehaviour {
  std::uint32_t api_major = mobicuda::triton::kApiMajor;
  std::uint32_t api_minor = mobicuda::triton::kApiMinor;
  bool metrics = true;
  std::atomic<bool> fail_responses{false};  ///< ResponseNew fails
  std::atomic<bool> fail_outputs{false};    ///< OutputBuffer fails
  std::atomic<bool> gpu_outputs{false};     ///< OutputBuffer gives GPU memory
};
FakeBehaviour& fake_behaviour();

/// Values of metrics by name and labels: "mobicuda_memory_bytes{model=m,...}".
std::map<std::string, double> fake_metrics();
/// Lines of the log since the last call.
std::vector<std::string> take_fake_log();
/// Returns once the backend has given it back: what became of it may be looked at.
void wait_until_released(const TRITONBACKEND_Request& request);

}  // namespace mobicuda::test

struct TRITONBACKEND_Input {
  mobicuda::test::FakeInput input;
};

struct TRITONBACKEND_Output {
  mobicuda::test::FakeOutput output;
};

struct TRITONBACKEND_Request {
  std::vector<TRITONBACKEND_Input> inputs;
  std::vector<std::string> wanted{"output"};
  bool cancelled = false;

  // What became of it.
  int answers = 0;
  bool released = false;
  int reported = 0;
  bool reported_success = false;
  bool times_rise = false;
  TRITONSERVER_Error_Code error_code = TRITONSERVER_ERROR_UNKNOWN;
  std::string error;
  std::map<std::string, mobicuda::test::FakeOutput> outputs;
};

struct TRITONBACKEND_Backend {
  std::string config = R"({"cmdline":{"auto-complete-config":"true","default-max-batch-size":"4"}})";
  void* state = nullptr;
};

struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend* backend = nullptr;
  std::string name = "m";
  std::uint64_t version = 1;
  std::string folder;
  std::string config;
  bool complete = true;
  void* state = nullptr;
};

struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model = nullptr;
  std::string name = "m_0";
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;
  std::int32_t device = 0;
  void* state = nullptr;
  std::vector<std::uint64_t> batches;  ///< sizes that were reported
};

// What the backend has for the server.
// NOLINTBEGIN(readability-identifier-naming): the server's names
extern "C" {
TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend);
TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend);
TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend* backend,
                                                      TRITONBACKEND_BackendAttribute* attributes);
TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model);
TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests, std::uint32_t count);
}
// NOLINTEND(readability-identifier-naming)
