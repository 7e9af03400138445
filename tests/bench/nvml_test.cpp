#include "bench_engine/measure/nvml.h"

#include "support/catch.h"

using namespace mobicuda::bench;

namespace {

constexpr int kNotSupported = 3;
int g_device = 0;  // its address is the fake's handle

int fake_find(const char* pci_bus_id, void** device) {
  if (std::string(pci_bus_id) != "0000:01:00.0") return kNotSupported;
  *device = &g_device;
  return 0;
}

template <class Raw>
int answer(void* device, Raw* out, Raw value) {
  if (device != &g_device) return kNotSupported;
  *out = value;
  return 0;
}

int fake_utilization(void* device, NvmlUtilization* out) { return answer(device, out, NvmlUtilization{90, 40}); }
int fake_memory(void* device, NvmlMemory* out) { return answer(device, out, NvmlMemory{100, 30, 70}); }
int fake_clock(void* device, int which, unsigned* out) { return answer(device, out, which == 1 ? 1980U : 2619U); }
int fake_temperature(void* device, int, unsigned* out) { return answer(device, out, 45U); }
int fake_power(void* device, unsigned* out) { return answer(device, out, 350500U); }
int fake_reasons(void* device, unsigned long long* out) { return answer(device, out, 4ULL); }
int fake_energy(void* device, unsigned long long* out) { return answer(device, out, 12500ULL); }
int fake_fields(void*, int count, NvmlFieldValue* out) {
  if (count != 1 || out->field != 186) return kNotSupported;
  out->value.as_unsigned = 410250;
  return 0;
}
int no_such_field(void*, int, NvmlFieldValue* out) {
  out->status = kNotSupported;
  return 0;
}
int unsupported(void*, unsigned long long*) { return kNotSupported; }

NvmlApi fake_api() {
  NvmlApi api;
  api.device_by_pci = fake_find;
  api.utilization = fake_utilization;
  api.memory = fake_memory;
  api.clock = fake_clock;
  api.temperature = fake_temperature;
  api.power_mw = fake_power;
  api.clock_reasons = fake_reasons;
  api.energy_mj = fake_energy;
  api.field_values = fake_fields;
  return api;
}

}  // namespace

TEST_CASE("a reading has the GPU's numbers in watts, joules and MHz", "[nvml]") {
  const NvmlApi api = fake_api();
  const GpuReading reading = NvmlDevice::find(api, "0000:01:00.0").value().read();
  CHECK(reading.gpu_percent == 90);
  CHECK(reading.memory_percent == 40);
  CHECK(reading.used_bytes == 70);
  CHECK(reading.sm_clock_mhz == 1980);
  CHECK(reading.memory_clock_mhz == 2619);
  CHECK(reading.temperature_c == 45);
  CHECK(reading.power_w == 410.25);
  CHECK(reading.energy_j == 12.5);
  CHECK(reading.clock_reasons == 4);
}

TEST_CASE("power is NVML's average where the GPU does not tell that of the moment", "[nvml]") {
  NvmlApi api = fake_api();
  api.field_values = no_such_field;
  CHECK(NvmlDevice::find(api, "0000:01:00.0")->read().power_w == 350.5);
  api.field_values = nullptr;
  CHECK(NvmlDevice::find(api, "0000:01:00.0")->read().power_w == 350.5);
}

TEST_CASE("what a GPU or a library does not tell is nothing", "[nvml]") {
  NvmlApi api;
  api.device_by_pci = fake_find;
  api.energy_mj = unsupported;
  CHECK_FALSE(NvmlDevice::find(api, "0000:02:00.0").has_value());
  const GpuReading reading = NvmlDevice::find(api, "0000:01:00.0").value().read();
  CHECK_FALSE(reading.energy_j.has_value());
  CHECK_FALSE(reading.power_w.has_value());
  CHECK_FALSE(reading.gpu_percent.has_value());
  CHECK_FALSE(reading.sm_clock_mhz.has_value());
  CHECK_FALSE(reading.clock_reasons.has_value());
}

TEST_CASE("reasons for low clocks are named, but an idle GPU is none", "[nvml]") {
  CHECK(clock_reason_names(0).empty());
  CHECK(clock_reason_names(0x1).empty());
  CHECK(clock_reason_names(0x1 | 0x4 | 0x40) == std::vector<std::string>{"power cap", "thermal (hardware)"});
  CHECK(clock_reason_names(1ULL << 40) == std::vector<std::string>{"other"});
}
