#include "bench_engine/trace/tracer.h"

#include <algorithm>

#include "bench_engine/model/exit_codes.h"

#ifdef MOBICUDA_WITH_CUPTI

#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include <mobicuda/error.h>

#include "bench_engine/process/phase_range.h"
#include "bench_engine/trace/kernel_name.h"

namespace mobicuda::bench {
namespace {

// The records of CUDA 12 and 13 begin alike; what is read of them is in both.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
#else
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
#endif
using MemsetRecord = CUpti_ActivityMemset4;

// The library path; where it was at the build; where toolkits have it that do not put it on the library path.
constexpr const char* kFolders[] = {"", MOBICUDA_CUPTI_FOLDER "/", "/usr/local/cuda/extras/CUPTI/lib64/",
                                    "/usr/local/cuda/lib64/"};
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kBufferAlignment = 8;
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,           CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_MARKER};

// Full buffers as CUPTI hands them over, from a thread of its own. Its callbacks take no pointer to a user's data, so
// that this one has to be found without one.
struct Inbox {
  struct Buffer {
    std::unique_ptr<std::uint8_t, decltype(&std::free)> bytes;
    std::size_t valid;
  };
  std::mutex mutex;
  std::vector<Buffer> buffers;
};

Inbox& inbox() {
  static Inbox one;
  return one;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::scoped_lock lock(inbox().mutex);
  inbox().buffers.push_back({{buffer, &std::free}, valid});
}

ActivityKind copy_kind(std::uint8_t kind) {
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD) return ActivityKind::CopyToDevice;
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) return ActivityKind::CopyToHost;
  return ActivityKind::CopyOnDevice;
}

const char* copy_name(ActivityKind kind) {
  if (kind == ActivityKind::CopyToDevice) return "copy from host to device";
  if (kind == ActivityKind::CopyToHost) return "copy from device to host";
  return "copy on the device";
}

template <class Item>
void sort_by_start(std::vector<Item>& items) {
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.start_ns < b.start_ns; });
}

}  // namespace

struct Tracer::Cupti {
  void* library = nullptr;
  // As cupti.h declares them.
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiGetCallbackName) callback_name = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  bool registered = false;
  std::map<std::string, std::string> demangled;
  std::map<std::uint32_t, HostSpan> open_ranges;

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw UsageError(std::string(MOBICUDA_CUPTI_LIBRARY) + " has no " + name);
  }

  Cupti() {
    for (const char* folder : kFolders) {
      if (library == nullptr) library = dlopen((folder + std::string(MOBICUDA_CUPTI_LIBRARY)).c_str(), RTLD_NOW);
    }
    if (library == nullptr) {
      throw UsageError(
          "--dumpKernels and --exportTrace need " MOBICUDA_CUPTI_LIBRARY
          " of the CUDA Toolkit (extras/CUPTI), which cannot be loaded here: put its folder on LD_LIBRARY_PATH");
    }
    find(register_callbacks, "cuptiActivityRegisterCallbacks");
    find(enable, "cuptiActivityEnable");
    find(disable, "cuptiActivityDisable");
    find(flush, "cuptiActivityFlushAll");
    find(next_record, "cuptiActivityGetNextRecord");
    find(dropped_records, "cuptiActivityGetNumDroppedRecords");
    find(callback_name, "cuptiGetCallbackName");
    find(result_string, "cuptiGetResultString");
    receive_ranges();
  }

  // NVTX looks into this variable at its first call. A tool that runs us has set it already, and keeps the ranges.
  void receive_ranges() const {
    Dl_info where{};
    if (dladdr(reinterpret_cast<void*>(enable), &where) != 0) setenv("NVTX_INJECTION64_PATH", where.dli_fname, 0);
  }

  void check(CUptiResult result, const char* what) const {
    if (result == CUPTI_SUCCESS) return;
    const char* reason = nullptr;
    result_string(result, &reason);
    throw Error(ErrorCode::unsupported, what, reason == nullptr ? "CUPTI failed" : reason,
                "another profiler may be attached, or the driver may not allow profiling");
  }

  void start() {
    if (!registered) {
      const PhaseRange first("tracing");  // NVTX looks for receivers now
      check(register_callbacks(give_buffer, take_buffer), "tracing");
    }
    registered = true;
    drop_all();
    for (const CUpti_ActivityKind kind : kKinds) check(enable(kind), "tracing");
  }

  void stop() const {
    for (const CUpti_ActivityKind kind : kKinds) static_cast<void>(disable(kind));
  }

  void drop_all() {
    check(flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "tracing");
    const std::scoped_lock lock(inbox().mutex);
    inbox().buffers.clear();
    open_ranges.clear();
  }

  GpuTrace collect() {
    check(flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "tracing");
    GpuTrace trace;
    const std::scoped_lock lock(inbox().mutex);
    for (const Inbox::Buffer& buffer : inbox().buffers) {
      CUpti_Activity* record = nullptr;
      while (next_record(buffer.bytes.get(), buffer.valid, &record) == CUPTI_SUCCESS) add(*record, trace);
    }
    inbox().buffers.clear();
    std::size_t dropped = 0;
    if (dropped_records(nullptr, 0, &dropped) == CUPTI_SUCCESS) trace.dropped = dropped;
    sort_by_start(trace.gpu);
    sort_by_start(trace.calls);
    sort_by_start(trace.ranges);
    return trace;
  }

  void add(const CUpti_Activity& record, GpuTrace& trace) {
    if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      add_kernel(reinterpret_cast<const KernelRecord&>(record), trace);
    } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto& copy = reinterpret_cast<const CopyRecord&>(record);
      const ActivityKind kind = copy_kind(copy.copyKind);
      trace.gpu.push_back({kind, copy_name(kind), copy.start, copy.end, copy.streamId, copy.correlationId, copy.bytes});
    } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto& set = reinterpret_cast<const MemsetRecord&>(record);
      trace.gpu.push_back(
          {ActivityKind::Memset, "memset", set.start, set.end, set.streamId, set.correlationId, set.bytes});
    } else if (record.kind == CUPTI_ACTIVITY_KIND_RUNTIME || record.kind == CUPTI_ACTIVITY_KIND_DRIVER) {
      add_call(reinterpret_cast<const CUpti_ActivityAPI&>(record), trace);
    } else if (record.kind == CUPTI_ACTIVITY_KIND_MARKER) {
      add_marker(reinterpret_cast<const CUpti_ActivityMarker2&>(record), trace);
    }
  }

  void add_kernel(const KernelRecord& record, GpuTrace& trace) {
    if (record.end == 0) {  // the GPU had no room for its times
      ++trace.dropped;
      return;
    }
    const std::string mangled = record.name == nullptr ? "unknown" : record.name;
    auto [name, added] = demangled.try_emplace(mangled);
    if (added) name->second = demangle(mangled);
    trace.gpu.push_back(
        {ActivityKind::Kernel, name->second, record.start, record.end, record.streamId, record.correlationId, 0});
  }

  void add_call(const CUpti_ActivityAPI& record, GpuTrace& trace) const {
    const bool runtime = record.kind == CUPTI_ACTIVITY_KIND_RUNTIME;
    const char* name = nullptr;
    callback_name(runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API, record.cbid, &name);
    trace.calls.push_back({name == nullptr ? "unknown" : without_version(name), record.start, record.end,
                           record.threadId, record.correlationId});
  }

  // A range is two records, the second without a name.
  void add_marker(const CUpti_ActivityMarker2& record, GpuTrace& trace) {
    if ((record.flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0) {
      open_ranges[record.id] = {record.name == nullptr ? "" : record.name, record.timestamp, 0,
                                record.objectId.pt.threadId, 0};
    } else if (const auto found = open_ranges.find(record.id); found != open_ranges.end()) {
      found->second.end_ns = record.timestamp;
      trace.ranges.push_back(std::move(found->second));
      open_ranges.erase(found);
    }
  }
};

std::string why_no_tracer() { return {}; }

Tracer::Tracer() : cupti_(std::make_unique<Cupti>()) {}
Tracer::~Tracer() = default;

GpuTrace Tracer::record(const std::function<void()>& work) {
  cupti_->start();
  try {
    work();
    GpuTrace trace = cupti_->collect();
    cupti_->stop();
    return trace;
  } catch (...) {
    cupti_->stop();
    throw;
  }
}

}  // namespace mobicuda::bench

#else

namespace mobicuda::bench {

struct Tracer::Cupti {};

std::string why_no_tracer() { return "this build has no CUPTI, which --dumpKernels and --exportTrace need"; }

Tracer::Tracer() { throw UsageError(why_no_tracer()); }
Tracer::~Tracer() = default;

GpuTrace Tracer::record(const std::function<void()>&) { return {}; }

}  // namespace mobicuda::bench

#endif

namespace mobicuda::bench {}  // namespace mobicuda::bench
