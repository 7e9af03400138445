#include "bench_engine/measure/machine.h"

#include <dlfcn.h>

#include <array>
#include <fstream>
#include <memory>
#include <thread>

#include <mobicuda/error.h>

#include "bench_engine/process/clock.h"

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

std::string driver_version(const NvmlApi& nvml) {
  std::array<char, 96> text{};
  return nvml.driver_version(text.data(), static_cast<unsigned>(text.size())) == 0 ? text.data() : std::string();
}

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
  if (const NvmlApi* nvml = load_nvml()) machine.driver = driver_version(*nvml);
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
  const auto start = Clock::now();
  cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) status = cudaFree(nullptr);
  if (status != cudaSuccess) {
    throw Error(ErrorCode::device_unavailable, "CUDA device " + std::to_string(device), cudaGetErrorString(status));
  }
  return since_ms(start);
}

std::optional<std::int64_t> free_gpu_memory(int device) {
  std::size_t left = 0;
  std::size_t total = 0;
  if (cudaSetDevice(device) != cudaSuccess || cudaMemGetInfo(&left, &total) != cudaSuccess) return {};
  return static_cast<std::int64_t>(left);
}

std::optional<NvmlDevice> nvml_device(int device) {
  constexpr int kPciBusIdBytes = 32;
  std::array<char, kPciBusIdBytes> pci_bus_id{};
  const NvmlApi* nvml = load_nvml();
  if (nvml == nullptr || cudaDeviceGetPCIBusId(pci_bus_id.data(), kPciBusIdBytes, device) != cudaSuccess) return {};
  return NvmlDevice::find(*nvml, pci_bus_id.data());
}

#else

std::string why_no_gpu(int) { return "this build has no CUDA (configured without it, or nvcc was not found)"; }

double create_gpu_context(int device) {
  throw Error(ErrorCode::device_unavailable, "CUDA device " + std::to_string(device), why_no_gpu(device));
}

std::optional<std::int64_t> free_gpu_memory(int) { return {}; }

std::optional<NvmlDevice> nvml_device(int) { return {}; }

#endif

std::optional<GpuState> gpu_state(int device) {
  const std::optional<NvmlDevice> gpu = nvml_device(device);
  if (!gpu) return {};
  const GpuReading reading = gpu->read();
  const auto whole = [](std::optional<double> value) { return static_cast<int>(value.value_or(0)); };
  return GpuState{whole(reading.sm_clock_mhz), whole(reading.memory_clock_mhz), whole(reading.temperature_c),
                  reading.power_w.value_or(0)};
}

}  // namespace mobicuda::bench
