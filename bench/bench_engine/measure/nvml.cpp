#include "bench_engine/measure/nvml.h"

#include <dlfcn.h>

namespace mobicuda::bench {
namespace {

// Of NVML's enumerations.
constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;
constexpr int kGpuTemperature = 0;
constexpr unsigned kInstantPowerField = 186;  // milliwatts, unsigned
constexpr std::uint64_t kIdle = 0x1;

struct ClockReason {
  std::uint64_t bit;
  const char* name;
};

constexpr ClockReason kClockReasons[] = {
    {0x2, "application clocks"},  {0x4, "power cap"},           {0x8, "hardware slowdown"}, {0x10, "sync boost"},
    {0x20, "thermal (software)"}, {0x40, "thermal (hardware)"}, {0x80, "power brake"},      {0x100, "display clocks"},
};

class Library {
 public:
  Library() : handle_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) return;
    int (*init)() = nullptr;
    const bool complete = find("nvmlInit_v2", init) && find("nvmlSystemGetDriverVersion", api_.driver_version) &&
                          find("nvmlDeviceGetHandleByPciBusId_v2", api_.device_by_pci);
    find("nvmlDeviceGetClockInfo", api_.clock);
    find("nvmlDeviceGetTemperature", api_.temperature);
    find("nvmlDeviceGetPowerUsage", api_.power_mw);
    find("nvmlDeviceGetUtilizationRates", api_.utilization);
    find("nvmlDeviceGetMemoryInfo", api_.memory);
    // Its name before driver 535 is the second one.
    if (!find("nvmlDeviceGetCurrentClocksEventReasons", api_.clock_reasons)) {
      find("nvmlDeviceGetCurrentClocksThrottleReasons", api_.clock_reasons);
    }
    find("nvmlDeviceGetTotalEnergyConsumption", api_.energy_mj);
    find("nvmlDeviceGetFieldValues", api_.field_values);
    ready_ = complete && init() == 0;
  }
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const NvmlApi* api() const { return ready_ ? &api_ : nullptr; }

 private:
  template <class Function>
  bool find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle_, name));
    return function != nullptr;
  }

  void* handle_;
  NvmlApi api_;
  bool ready_ = false;
};

// What the device tells, or nothing.
template <class Raw>
std::optional<Raw> ask(int (*function)(void*, Raw*), void* device) {
  Raw raw{};
  if (function == nullptr || function(device, &raw) != 0) return std::nullopt;
  return raw;
}

std::optional<unsigned> ask(int (*function)(void*, int, unsigned*), void* device, int what) {
  unsigned raw = 0;
  if (function == nullptr || function(device, what, &raw) != 0) return std::nullopt;
  return raw;
}

std::optional<double> scaled(std::optional<unsigned long long> value, double factor) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value) * factor;
}

}  // namespace

const NvmlApi* load_nvml() {
  static const Library library;
  return library.api();
}

std::optional<NvmlDevice> NvmlDevice::find(const NvmlApi& api, const std::string& pci_bus_id) {
  void* device = nullptr;
  if (api.device_by_pci(pci_bus_id.c_str(), &device) != 0) return std::nullopt;
  return NvmlDevice(api, device);
}

std::optional<double> NvmlDevice::power_w() const {
  if (api_->field_values != nullptr) {
    NvmlFieldValue value;
    value.field = kInstantPowerField;
    if (api_->field_values(device_, 1, &value) == 0 && value.status == 0) return value.value.as_unsigned / 1e3;
  }
  return scaled(ask(api_->power_mw, device_), 1e-3);
}

GpuReading NvmlDevice::read() const {
  GpuReading reading;
  if (const auto utilization = ask(api_->utilization, device_)) {
    reading.gpu_percent = utilization->gpu;
    reading.memory_percent = utilization->memory;
  }
  if (const auto memory = ask(api_->memory, device_)) {
    reading.used_bytes = static_cast<std::int64_t>(memory->used);
  }
  reading.sm_clock_mhz = scaled(ask(api_->clock, device_, kSmClock), 1);
  reading.memory_clock_mhz = scaled(ask(api_->clock, device_, kMemoryClock), 1);
  reading.power_w = power_w();
  reading.temperature_c = scaled(ask(api_->temperature, device_, kGpuTemperature), 1);
  if (const auto reasons = ask(api_->clock_reasons, device_)) reading.clock_reasons = *reasons;
  reading.energy_j = scaled(ask(api_->energy_mj, device_), 1e-3);
  return reading;
}

std::vector<std::string> clock_reason_names(std::uint64_t bits) {
  std::vector<std::string> names;
  std::uint64_t known = kIdle;
  for (const ClockReason& reason : kClockReasons) {
    if ((bits & reason.bit) != 0) names.emplace_back(reason.name);
    known |= reason.bit;
  }
  if ((bits & ~known) != 0) names.emplace_back("other");
  return names;
}

}  // namespace mobicuda::bench
