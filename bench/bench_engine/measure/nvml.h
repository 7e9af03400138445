#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mobicuda::bench {

/// NVML's nvmlFieldValue_t.
struct NvmlFieldValue {
  unsigned field = 0;
  unsigned scope = 0;
  long long timestamp_us = 0;
  long long latency_us = 0;
  int type = 0;
  int status = 0;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long long as_unsigned_long_long;
  } value{};
};

/// NVML's nvmlUtilization_t.
struct NvmlUtilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};

/// NVML's nvmlMemory_t.
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

/// The entry points of NVML that are used; null where the library has not got one. All return 0 for success.
struct NvmlApi {
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*device_by_pci)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*power_mw)(void*, unsigned*) = nullptr;
  int (*utilization)(void*, NvmlUtilization*) = nullptr;
  int (*memory)(void*, NvmlMemory*) = nullptr;
  int (*clock_reasons)(void*, unsigned long long*) = nullptr;
  int (*energy_mj)(void*, unsigned long long*) = nullptr;
  int (*field_values)(void*, int, NvmlFieldValue*) = nullptr;
};

/// The machine's NVML, loaded at run time as machines without a driver lack it; null there.
const NvmlApi* load_nvml();

/// What NVML tells of a GPU at a moment; nothing where the GPU or the library does not tell.
struct GpuReading {
  std::optional<double> gpu_percent;     ///< of a past while (1/6 to 1 s) in which a kernel ran
  std::optional<double> memory_percent;  ///< of that while in which memory was read or written
  std::optional<std::int64_t> used_bytes;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> power_w;  ///< of the moment where the GPU tells it, else NVML's average (up to 1 s)
  std::optional<double> temperature_c;
  std::optional<std::uint64_t> clock_reasons;  ///< bits: why clocks are not higher
  std::optional<double> energy_j;              ///< since the driver was loaded
};

/// One GPU. Reading is thread-safe.
class NvmlDevice {
 public:
  /// Nothing when NVML does not know it.
  static std::optional<NvmlDevice> find(const NvmlApi& api, const std::string& pci_bus_id);

  GpuReading read() const;

 private:
  NvmlDevice(const NvmlApi& api, void* device) : api_(&api), device_(device) {}
  std::optional<double> power_w() const;

  const NvmlApi* api_;
  void* device_;
};

/// Reasons for clocks that are not higher, in words: those but an idle GPU.
std::vector<std::string> clock_reason_names(std::uint64_t bits);

}  // namespace mobicuda::bench
