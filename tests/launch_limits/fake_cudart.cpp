#include "launch_limits/fake_cudart.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <cuda_runtime.h>

#include "support/device_attributes.h"

namespace mobicuda::test {
namespace {

using kernels::DeviceTraits;

struct Device {
  std::optional<DeviceTraits> traits;
  std::map<const void*, std::size_t> shared_bytes_allowed;  // by kernel, with cudaFuncSetAttribute()
  std::set<const void*> large_clusters_allowed;             // the same
  PlayedLaunches launches;
};

struct Machine {
  std::array<Device, 64> devices;
  int current = 0;
  std::map<const void*, std::string> kernels;  // host function: mangled name

  Device& device() { return devices.at(static_cast<std::size_t>(current)); }
  const DeviceTraits& traits() { return device().traits.value(); }
};

Machine& machine() {  // kernels are registered before main()
  static Machine only;
  return only;
}

/// Of sm_90a, by the names of the files that are compiled for it alone.
bool is_wgmma_kernel(const std::string& name) {
  return name.find("wgmma_kernel") != std::string::npos || name.find("image7_kernel") != std::string::npos ||
         name.find("sm90a_code") != std::string::npos;
}

int blocks_of_multiprocessor(std::size_t shared_bytes, int threads) {
  constexpr int kMostThreads = 1536;  // of the GPUs with least, but for sm_75
  const DeviceTraits& gpu = machine().traits();
  if (shared_bytes > gpu.shared_bytes_per_block) return 0;
  const std::size_t by_memory =
      gpu.shared_bytes_per_multiprocessor / std::max<std::size_t>(1, shared_bytes + gpu.reserved_shared_bytes);
  return static_cast<int>(std::min(by_memory, static_cast<std::size_t>(kMostThreads / std::max(1, threads))));
}

struct Attributes {
  unsigned cluster = 1;
  bool programmatic = false;
};

Attributes attributes_of(const cudaLaunchConfig_t& config) {
  Attributes found;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      found.cluster = attribute.val.clusterDim.x * attribute.val.clusterDim.y * attribute.val.clusterDim.z;
    }
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      found.programmatic = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
  }
  return found;
}

class Inspection {
 public:
  Inspection(const cudaLaunchConfig_t& config, const void* kernel)
      : config_(config), kernel_(kernel), gpu_(machine().traits()), attributes_(attributes_of(config)) {}

  std::vector<std::string> faults() {
    const auto known = machine().kernels.find(kernel_);
    const std::string name = known == machine().kernels.end() ? "an unregistered kernel" : known->second;
    expect(known != machine().kernels.end(), "is not in the library");
    expect(gpu_.wgmma_code || !is_wgmma_kernel(name), "is code of sm_90a");
    look_at_shared_memory();
    look_at_grid();
    look_at_attributes();
    for (std::string& fault : faults_) fault = name + " " + fault;
    return faults_;
  }

 private:
  void expect(bool fine, const std::string& otherwise) {
    if (!fine) faults_.push_back(otherwise);
  }

  void look_at_shared_memory() {
    const std::size_t bytes = config_.dynamicSmemBytes;
    const std::string text = std::to_string(bytes) + " bytes of shared memory";
    expect(bytes <= gpu_.shared_bytes_per_block,
           "wants " + text + " of " + std::to_string(gpu_.shared_bytes_per_block));
    const auto& allowed = machine().device().shared_bytes_allowed;
    const auto found = allowed.find(kernel_);
    expect(bytes <= kernels::kSharedBytesWithoutAsking || (found != allowed.end() && bytes <= found->second),
           "wants " + text + ", which it did not ask for");
  }

  void look_at_grid() {
    constexpr unsigned kMostX = (1U << 31U) - 1;
    constexpr unsigned kMostYz = 65535;
    constexpr unsigned kMostThreads = 1024;
    const dim3& grid = config_.gridDim;
    const dim3& block = config_.blockDim;
    expect(grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && grid.x <= kMostX && grid.y <= kMostYz && grid.z <= kMostYz,
           "has a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " + std::to_string(grid.z));
    const unsigned threads = block.x * block.y * block.z;
    expect(threads >= 1 && threads <= kMostThreads, "has " + std::to_string(threads) + " threads");
    expect(grid.x % attributes_.cluster == 0, "has clusters that are not whole");
  }

  void look_at_attributes() {
    const bool large = machine().device().large_clusters_allowed.contains(kernel_);
    const int most = large ? gpu_.large_cluster_blocks : gpu_.cluster_blocks;
    expect(attributes_.cluster <= static_cast<unsigned>(most),
           "has clusters of " + std::to_string(attributes_.cluster) + (large ? "" : ", without asking for large ones"));
    expect(!attributes_.programmatic || gpu_.programmatic_launch(), "has a programmatic launch");
  }

  const cudaLaunchConfig_t& config_;
  const void* kernel_;
  const DeviceTraits& gpu_;
  Attributes attributes_;
  std::vector<std::string> faults_;
};

/// Whatever a function of the driver takes: it succeeds.
extern "C" int driver_function() { return 0; }

}  // namespace

void play_gpu(int device, const DeviceTraits& traits) {
  machine().current = device;
  machine().device().traits = traits;
}

void play_kernel(const void* kernel, const std::string& name) { machine().kernels.emplace(kernel, name); }

PlayedLaunches take_launches() { return std::exchange(machine().device().launches, {}); }

}  // namespace mobicuda::test

using mobicuda::test::machine;

// What objects of kernels need of cudart: found by `nm -u`, which is why their names are as they are.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" {

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
void __cudaRegisterFunction(void** /*handle*/, const char* function, char* /*device_function*/, const char* name,
                            int /*threads*/, uint3* /*thread*/, uint3* /*block*/, dim3* /*block_extent*/,
                            dim3* /*grid_extent*/, int* /*warp_size*/) {
  machine().kernels.emplace(function, name);
}
void __cudaRegisterVar(void** /*handle*/, char* /*host*/, char* /*device*/, const char* /*name*/, int /*external*/,
                       std::size_t /*bytes*/, int /*constant*/, int /*global*/) {}
unsigned __cudaPopCallConfiguration(dim3* /*grid*/, dim3* /*block*/, std::size_t* /*shared*/, void* /*stream*/) {
  return cudaErrorNotSupported;
}
unsigned __cudaPushCallConfiguration(dim3 /*grid*/, dim3 /*block*/, std::size_t /*shared*/, void* /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t __cudaLaunchKernel(void* /*kernel*/, dim3 /*grid*/, dim3 /*block*/, void** /*arguments*/,
                               std::size_t /*shared*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t __cudaGetKernel(void** /*kernel*/, const void* /*function*/) { return cudaErrorNotSupported; }
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = machine().current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  machine().current = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int device) {
  const auto& traits = machine().devices.at(static_cast<std::size_t>(device)).traits;
  *value = traits ? mobicuda::test::attribute_of(*traits, what) : -1;
  return *value < 0 ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const auto found = machine().kernels.find(kernel);
  if (found == machine().kernels.end()) return cudaErrorInvalidDeviceFunction;
  const mobicuda::kernels::DeviceTraits& gpu = machine().traits();
  if (mobicuda::test::is_wgmma_kernel(found->second) && !gpu.wgmma_code) return cudaErrorNoKernelImageForDevice;
  *attributes = {};
  attributes->ptxVersion = gpu.code;
  attributes->binaryVersion = gpu.capability;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute what, int value) {
  if (what == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    machine().device().large_clusters_allowed.insert(kernel);
    return cudaSuccess;
  }
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorNotSupported;
  if (value < 0 || static_cast<std::size_t>(value) > machine().traits().shared_bytes_per_block) {
    return cudaErrorInvalidValue;
  }
  machine().device().shared_bytes_allowed[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* /*kernel*/, int threads,
                                                                   std::size_t shared_bytes, unsigned /*flags*/) {
  *blocks = mobicuda::test::blocks_of_multiprocessor(shared_bytes, threads);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* /*kernel*/, const cudaLaunchConfig_t* config) {
  const unsigned threads = config->blockDim.x * config->blockDim.y * config->blockDim.z;
  const int each = mobicuda::test::blocks_of_multiprocessor(config->dynamicSmemBytes, static_cast<int>(threads));
  const auto cluster = static_cast<int>(mobicuda::test::attributes_of(*config).cluster);
  *clusters = each * machine().traits().multiprocessors / cluster;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* kernel,
                                                 const cudaLaunchConfig_t* /*config*/) {
  const bool large = machine().device().large_clusters_allowed.contains(kernel);
  *blocks = large ? machine().traits().large_cluster_blocks : machine().traits().cluster_blocks;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* /*name*/, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/, cudaDriverEntryPointQueryResult* result) {
  *function = reinterpret_cast<void*>(&mobicuda::test::driver_function);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** /*arguments*/) {
  mobicuda::test::PlayedLaunches& launches = machine().device().launches;
  ++launches.count;
  for (std::string& fault : mobicuda::test::Inspection(*config, kernel).faults()) {
    launches.faults.push_back(std::move(fault));
  }
  return cudaSuccess;
}

}  // extern "C"
