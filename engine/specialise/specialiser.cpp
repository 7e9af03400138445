#include "specialise/specialiser.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <cuda.h>

#include <mobicuda/error.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/common/driver_function.h"
#include "specialise/device_sources.h"

namespace mobicuda {
namespace {

/// Kernels that this process has loaded; they stay so.
class LoadedKernels {
 public:
  struct Kernel {
    const void* kernel = nullptr;
    SavedCode code;
  };
  using Key = std::tuple<std::string, std::string, int>;  // expression, header, capability

  static LoadedKernels& instance() {
    static LoadedKernels loaded;
    return loaded;
  }

  std::optional<Kernel> find(const Key& key) const {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(key);
    if (found == kernels_.end()) return std::nullopt;
    return found->second;
  }

  void add(const Key& key, const Kernel& kernel) {
    const std::scoped_lock lock(mutex_);
    kernels_.try_emplace(key, kernel);
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Kernel> kernels_;
};

LoadedKernels::Key key_in_process(const kernels::CodeName& code, int capability) {
  return {code.expression, code.header, capability};
}

/// Of all embedded headers: code of other sources is other code.
const std::string& sources_hash() {
  static const std::string hash = [] {
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    for (const DeviceSource& source : device_sources()) {
      XXH3_128bits_update(&state, source.path, std::string_view(source.path).size() + 1);
      XXH3_128bits_update(&state, source.text.data(), source.text.size() + 1);
    }
    const XXH128_hash_t digest = XXH3_128bits_digest(&state);
    return std::to_string(digest.high64) + "-" + std::to_string(digest.low64);
  }();
  return hash;
}

/// Throws Error(internal).
const void* load_kernel(const SavedCode& code) {
  using LoadData =
      CUresult(CUlibrary*, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned);
  using GetKernel = CUresult(CUkernel*, CUlibrary, const char*);
  static auto* const load = kernels::find_driver_function<LoadData*>("cuLibraryLoadData");
  static auto* const get = kernels::find_driver_function<GetKernel*>("cuLibraryGetKernel");
  const std::string where = "loading " + code.expression;
  if (load == nullptr || get == nullptr) {
    throw Error(ErrorCode::device_unavailable, where, "the driver cannot load code at run time",
                "a driver of CUDA 12.0 or later is needed");
  }
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUresult status = load(&library, code.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (status == CUDA_SUCCESS) status = get(&kernel, library, code.kernel.c_str());
  if (status != CUDA_SUCCESS) {
    throw Error(ErrorCode::internal, where, "the driver refuses it with CUresult " + std::to_string(status));
  }
  return kernel;
}

}  // namespace

Specialiser::Specialiser(const EngineOptions& options, const kernels::DeviceTraits& gpu)
    : options_(options), gpu_(gpu), cache_(options.code_cache ? *options.code_cache : default_code_folder()) {}

std::string Specialiser::why_not() {
  try {
    compiler();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

const CodeCompiler& Specialiser::compiler() {
  if (compiler_ == nullptr) compiler_ = CodeCompiler::open(options_.nvrtc_library);
  return *compiler_;
}

void Specialiser::add_saved(const std::vector<SavedCode>& saved) {
  saved_.insert(saved_.end(), saved.begin(), saved.end());
}

std::string Specialiser::key_of(const kernels::CodeName& code, const std::string& architecture) {
  return sources_hash() + "\n" + compiler().version() + "\n" + architecture + "\n" + code.header + "\n" +
         code.expression + "\n";
}

void Specialiser::load(const WantedKernel& wanted, const SavedCode& code) {
  const void* const kernel = load_kernel(code);
  LoadedKernels::instance().add(key_in_process(wanted.code, gpu_.capability), {kernel, code});
  wanted.give(gpu_.capability, kernel);
  provided_.push_back(code);
}

void Specialiser::provide(const std::vector<WantedKernel>& wanted) {
  std::vector<const WantedKernel*> missing;
  for (const WantedKernel& one : wanted) {
    const auto is_it = [&](const SavedCode& code) {
      return code.expression == one.code.expression && code.header == one.code.header && code.sources == sources_hash();
    };
    if (std::any_of(provided_.begin(), provided_.end(), is_it)) continue;
    if (const auto known = LoadedKernels::instance().find(key_in_process(one.code, gpu_.capability))) {
      one.give(gpu_.capability, known->kernel);
      provided_.push_back(known->code);
      ++counts_.loaded;
    } else if (const auto found = std::find_if(saved_.begin(), saved_.end(), is_it); found != saved_.end()) {
      load(one, *found);
      ++counts_.saved;
    } else {
      missing.push_back(&one);
    }
  }
  if (!missing.empty()) compile(missing);
}

void Specialiser::compile(const std::vector<const WantedKernel*>& wanted) {
  const CodeCompiler& compiler = this->compiler();
  struct Job {
    const WantedKernel* wanted;
    std::string architecture;
    std::string key;
    DeviceCode code{};
    bool cached = false;
    std::exception_ptr failure{};
  };
  std::vector<Job> jobs;
  for (const WantedKernel* one : wanted) {
    const std::string architecture = compiler.architecture(gpu_.capability, one->code.wgmma);
    jobs.push_back({one, architecture, key_of(one->code, architecture)});
  }
  const auto start = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      Job& job = jobs[i];
      try {
        if (auto found = cache_.find(job.key)) {
          job.code = std::move(*found);
          job.cached = true;
        } else {
          job.code = compiler.compile(job.wanted->code, job.architecture);
        }
      } catch (...) {
        job.failure = std::current_exception();
      }
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  counts_.threads = static_cast<int>(std::min(cores, jobs.size()));
  {
    std::vector<std::jthread> threads;
    try {
      for (int i = 1; i < counts_.threads; ++i) threads.emplace_back(work);
    } catch (const std::system_error&) {
      counts_.threads = static_cast<int>(threads.size()) + 1;  // as many as the system gives
    }
    work();
  }
  std::string not_kept;
  for (const Job& job : jobs) {
    if (job.failure) std::rethrow_exception(job.failure);
    ++(job.cached ? counts_.cached : counts_.compiled);
    if (!job.cached && not_kept.empty()) not_kept = cache_.store(job.key, job.code);
    const kernels::CodeName& name = job.wanted->code;
    load(*job.wanted, {name.header, name.expression, job.code.kernel, job.code.image, sources_hash()});
  }
  counts_.compile_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!not_kept.empty() && options_.log) {
    options_.log(LogLevel::Warning, "code of specialised kernels is not kept: " + not_kept);
  }
}

void Specialiser::report() {
  const Counts counts = std::exchange(counts_, {});
  if (!options_.log || counts.loaded + counts.saved + counts.cached + counts.compiled == 0) return;
  std::string parts;
  const auto add = [&](int count, const std::string& what) {
    if (count > 0) parts += (parts.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(counts.loaded, "loaded before");
  add(counts.saved, "from the saved engine");
  add(counts.cached, "from " + cache_.folder().string());
  add(counts.compiled, "compiled by " + (compiler_ != nullptr ? compiler_->version() : std::string()) + " with " +
                           std::to_string(counts.threads) + " threads");
  options_.log(LogLevel::Info,
               "specialised kernels: " + parts + "; " + std::to_string(static_cast<int>(counts.compile_ms)) + " ms");
}

}  // namespace mobicuda
