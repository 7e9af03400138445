#include "bench_engine/measure/machine.h"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include <mobicuda/error.h>

#ifdef MOBICUDA_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace mobicuda::bench {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

#ifdef MOBICUDA_WITH_CUDA

// CUDA counts its versions as 1000 * major + 10 * minor.
std::string cuda_version(int version) {
  return version == 0 ? std::string() : std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

// The few entry points of NVML that are needed, found at run time: machines without a driver lack the library.
class Nvml {
 public:
  static const Nvml* get() {
    static const Nvml nvml;
    return nvml.ready_ ? &nvml : nullptr;
  }

  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver() const {
    std::array<char, 96> text{};
    return driver_version_(text.data(), static_cast<unsigned>(text.size())) == 0 ? text.data() : std::string();
  }

  std::optional<GpuState> state(const char* pci_bus_id) const {
    void* device = nullptr;
    if (device_by_pci_(pci_bus_id, &device) != 0) return {};
    unsigned sm = 0;
    unsigned memory = 0;
    unsigned celsius = 0;
    unsigned milliwatts = 0;
    clock_(device, kSmClock, &sm);
    clock_(device, kMemoryClock, &memory);
    temperature_(device, kGpuTemperature, &celsius);
    power_(device, &milliwatts);
    return GpuState{static_cast<int>(sm), static_cast<int>(memory), static_cast<int>(celsius), milliwatts / 1000.0};
  }

 private:
  static constexpr int kSmClock = 1;
  static constexpr int kMemoryClock = 2;
  static constexpr int kGpuTemperature = 0;

  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    int (*init)() = nullptr;
    ready_ = find("nvmlInit_v2", init) && find("nvmlSystemGetDriverVersion", driver_version_) &&
             find("nvmlDeviceGetHandleByPciBusId_v2", device_by_pci_) && find("nvmlDeviceGetClockInfo", clock_) &&
             find("nvmlDeviceGetTemperature", temperature_) && find("nvmlDeviceGetPowerUsage", power_) && init() == 0;
  }
  ~Nvml() {
    if (library_ != nullptr) dlclose(library_);
  }

  template <class Function>
  bool find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    return function != nullptr;
  }

  void* library_ = nullptr;
  bool ready_ = false;
  int (*driver_version_)(char*, unsigned) = nullptr;
  int (*device_by_pci_)(const char*, void**) = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*temperature_)(void*, int, unsigned*) = nullptr;
  int (*power_)(void*, unsigned*) = nullptr;
};

// Asked by name, so that this program needs no header of cuDNN and can be built without it.
std::string cudnn_version() {
  using Version = std::size_t (*)();
  const auto version = reinterpret_cast<Version>(dlsym(RTLD_DEFAULT, "cudnnGetVersion"));
  if (version == nullptr) return {};
  const std::size_t number = version();  // 10000 * major + 100 * minor + patch since cuDNN 9
  return std::to_string(number / 10000) + '.' + std::to_string(number % 10000 / 100) + '.' +
         std::to_string(number % 100);
}

void describe_gpu(int device, Machine& machine) {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) machine.cuda_runtime = cuda_version(version);
  if (cudaDriverGetVersion(&version) == cudaSuccess) machine.cuda_driver = cuda_version(version);
  machine.cudnn = cudnn_version();
  if (const Nvml* nvml = Nvml::get()) machine.driver = nvml->driver();
  cudaDeviceProp properties{};
  if (!why_no_gpu(device).empty() || cudaGetDeviceProperties(&properties, device) != cudaSuccess) return;
  machine.gpu = properties.name;
  machine.compute_capability = std::to_string(properties.major) + '.' + std::to_string(properties.minor);
  machine.multiprocessors = properties.multiProcessorCount;
  machine.gpu_memory_gib = static_cast<double>(properties.totalGlobalMem) / (1 << 30);
}

#endif

}  // namespace

Machine describe_machine(int device) {
  Machine machine;
  machine.cpu = cpu_name();
  machine.cpu_threads = std::thread::hardware_concurrency();
  machine.compiler = "gcc " __VERSION__;
#ifdef MOBICUDA_WITH_CUDA
  describe_gpu(device, machine);
#else
  static_cast<void>(device);
#endif
  return machine;
}

#ifdef MOBICUDA_WITH_CUDA

std::string why_no_gpu(int device) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return "no CUDA device: no NVIDIA driver found";
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    return std::string("no usable CUDA device: ") + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
  }
  if (count == 0) return "no CUDA device";
  if (device >= count) {
    return "no CUDA device " + std::to_string(device) + ": this machine has " + std::to_string(count);
  }
  return {};
}

double create_gpu_context(int device) {
  const auto start = std::chrono::steady_clock::now();
  cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) status = cudaFree(nullptr);
  if (status != cudaSuccess) {
    throw Error(ErrorCode::device_unavailable, "CUDA device " + std::to_string(device), cudaGetErrorString(status));
  }
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::optional<std::int64_t> free_gpu_memory(int device) {
  std::size_t left = 0;
  std::size_t total = 0;
  if (cudaSetDevice(device) != cudaSuccess || cudaMemGetInfo(&left, &total) != cudaSuccess) return {};
  return static_cast<std::int64_t>(left);
}

std::optional<GpuState> gpu_state(int device) {
  constexpr int kPciBusIdBytes = 32;
  std::array<char, kPciBusIdBytes> pci_bus_id{};
  const Nvml* nvml = Nvml::get();
  if (nvml == nullptr || cudaDeviceGetPCIBusId(pci_bus_id.data(), kPciBusIdBytes, device) != cudaSuccess) return {};
  return nvml->state(pci_bus_id.data());
}

#else

std::string why_no_gpu(int) { return "this build has no CUDA (configured without it, or nvcc was not found)"; }

double create_gpu_context(int device) {
  throw Error(ErrorCode::device_unavailable, "CUDA device " + std::to_string(device), why_no_gpu(device));
}

std::optional<std::int64_t> free_gpu_memory(int) { return {}; }

std::optional<GpuState> gpu_state(int) { return {}; }

#endif

}  // namespace mobicuda::bench
