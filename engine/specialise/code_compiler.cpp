#include "specialise/code_compiler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <dlfcn.h>
#include <nvrtc.h>

#include <mobicuda/error.h>

#include "specialise/device_sources.h"

namespace mobicuda {
namespace {

constexpr const char* kRemedy =
    "install the toolkit's NVRTC or the Python package nvidia-cuda-nvrtc, or name the file in "
    "EngineOptions::nvrtc_library";

/// A shared library, closed at the end.
class SharedLibrary {
 public:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  ~SharedLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_;
};

/// Throws Error(device_unavailable).
void* open_library(const std::filesystem::path& library) {
  // It stays loaded: the next engine needs it again.
  const std::string name = "libnvrtc.so." + std::to_string(MOBICUDA_CUDA_MAJOR);
  const std::vector<std::string> tried =
      library.empty() ? std::vector<std::string>{name, std::string(MOBICUDA_NVRTC_FOLDER) + "/" + name}
                      : std::vector<std::string>{library.string()};
  std::string why;
  for (const std::string& file : tried) {
    if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); handle != nullptr)
      return handle;
    const char* const said = dlerror();
    why = said != nullptr ? said : "cannot be opened";
  }
  throw Error(ErrorCode::device_unavailable, "NVRTC", why, kRemedy);
}

struct Functions {
  explicit Functions(const SharedLibrary& from)
      : version(from.find<decltype(nvrtcVersion)>("nvrtcVersion")),
        count_architectures(from.find<decltype(nvrtcGetNumSupportedArchs)>("nvrtcGetNumSupportedArchs")),
        architectures(from.find<decltype(nvrtcGetSupportedArchs)>("nvrtcGetSupportedArchs")),
        create(from.find<decltype(nvrtcCreateProgram)>("nvrtcCreateProgram")),
        destroy(from.find<decltype(nvrtcDestroyProgram)>("nvrtcDestroyProgram")),
        add_name(from.find<decltype(nvrtcAddNameExpression)>("nvrtcAddNameExpression")),
        compile(from.find<decltype(nvrtcCompileProgram)>("nvrtcCompileProgram")),
        log_size(from.find<decltype(nvrtcGetProgramLogSize)>("nvrtcGetProgramLogSize")),
        log(from.find<decltype(nvrtcGetProgramLog)>("nvrtcGetProgramLog")),
        lowered_name(from.find<decltype(nvrtcGetLoweredName)>("nvrtcGetLoweredName")),
        cubin_size(from.find<decltype(nvrtcGetCUBINSize)>("nvrtcGetCUBINSize")),
        cubin(from.find<decltype(nvrtcGetCUBIN)>("nvrtcGetCUBIN")),
        ptx_size(from.find<decltype(nvrtcGetPTXSize)>("nvrtcGetPTXSize")),
        ptx(from.find<decltype(nvrtcGetPTX)>("nvrtcGetPTX")) {}

  bool complete() const {
    return version != nullptr && count_architectures != nullptr && architectures != nullptr && create != nullptr &&
           destroy != nullptr && add_name != nullptr && compile != nullptr && log_size != nullptr && log != nullptr &&
           lowered_name != nullptr && cubin_size != nullptr && cubin != nullptr && ptx_size != nullptr &&
           ptx != nullptr;
  }

  decltype(nvrtcVersion)* version;
  decltype(nvrtcGetNumSupportedArchs)* count_architectures;
  decltype(nvrtcGetSupportedArchs)* architectures;
  decltype(nvrtcCreateProgram)* create;
  decltype(nvrtcDestroyProgram)* destroy;
  decltype(nvrtcAddNameExpression)* add_name;
  decltype(nvrtcCompileProgram)* compile;
  decltype(nvrtcGetProgramLogSize)* log_size;
  decltype(nvrtcGetProgramLog)* log;
  decltype(nvrtcGetLoweredName)* lowered_name;
  decltype(nvrtcGetCUBINSize)* cubin_size;
  decltype(nvrtcGetCUBIN)* cubin;
  decltype(nvrtcGetPTXSize)* ptx_size;
  decltype(nvrtcGetPTX)* ptx;
};

class Nvrtc final : public CodeCompiler {
 public:
  explicit Nvrtc(const std::filesystem::path& library) : library_(open_library(library)), call_(library_) {
    int count = 0;
    if (!call_.complete() || call_.version(&major_, &minor_) != NVRTC_SUCCESS ||
        call_.count_architectures(&count) != NVRTC_SUCCESS || count <= 0) {
      throw Error(ErrorCode::device_unavailable, "NVRTC", "lacks functions that are needed", kRemedy);
    }
    // The embedded headers of the toolkit belong to its compiler.
    if (major_ != MOBICUDA_CUDA_MAJOR) {
      throw Error(
          ErrorCode::device_unavailable, "NVRTC",
          "is of CUDA " + std::to_string(major_) + ", mobicuda was built with " + std::to_string(MOBICUDA_CUDA_MAJOR),
          kRemedy);
    }
    known_.resize(static_cast<std::size_t>(count));
    if (call_.architectures(known_.data()) != NVRTC_SUCCESS) known_.clear();
  }

  std::string version() const override { return "NVRTC " + std::to_string(major_) + "." + std::to_string(minor_); }

  std::string architecture(int capability, bool wgmma) const override {
    constexpr int kWgmma = 90;
    int newest = 0;
    for (const int known : known_) {
      if (known <= capability) newest = std::max(newest, known);
    }
    const bool fits = wgmma ? capability == kWgmma && newest == kWgmma : newest > 0;
    if (!fits) {
      throw Error(
          ErrorCode::unsupported, version(),
          "compiles nothing for compute capability " + std::to_string(capability) + (wgmma ? " with wgmma" : ""));
    }
    return (newest == capability ? "sm_" : "compute_") + std::to_string(newest) + (wgmma ? "a" : "");
  }

  DeviceCode compile(const kernels::CodeName& name, const std::string& architecture) const override {
    const Program program(call_, "#include \"" + name.header + "\"\n", name);
    const std::string target = "--gpu-architecture=" + architecture;
    // Functions without an annotation, which device headers have for the host as well, become the device's.
    const char* const options[] = {target.c_str(), "--std=c++20", "--device-as-default-execution-space"};
    const nvrtcResult result = call_.compile(program.get(), std::size(options), options);
    if (result != NVRTC_SUCCESS) refuse(name, program.log());
    const bool machine_code = architecture.starts_with("sm_");
    std::size_t bytes = 0;
    DeviceCode code;
    const char* lowered = nullptr;
    const auto size = machine_code ? call_.cubin_size : call_.ptx_size;
    const auto get = machine_code ? call_.cubin : call_.ptx;
    if (call_.lowered_name(program.get(), name.expression.c_str(), &lowered) != NVRTC_SUCCESS ||
        size(program.get(), &bytes) != NVRTC_SUCCESS) {
      refuse(name, "made no code");
    }
    code.kernel = lowered;
    code.image.resize(bytes);
    if (get(program.get(), code.image.data()) != NVRTC_SUCCESS) refuse(name, "gave no code");
    return code;
  }

 private:
  /// A program with the embedded headers, destroyed at the end.
  class Program {
   public:
    Program(const Functions& call, const std::string& source, const kernels::CodeName& name) : call_(call) {
      std::vector<const char*> texts;
      std::vector<const char*> paths;
      for (const DeviceSource& header : device_sources()) {
        texts.push_back(header.text.data());
        paths.push_back(header.path);
      }
      if (call_.create(&program_, source.c_str(), "specialised.cu", static_cast<int>(texts.size()), texts.data(),
                       paths.data()) != NVRTC_SUCCESS) {
        throw Error(ErrorCode::out_of_memory, "NVRTC", "cannot make a program");
      }
      if (call_.add_name(program_, name.expression.c_str()) != NVRTC_SUCCESS) refuse(name, "is no name");
    }
    ~Program() { call_.destroy(&program_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    nvrtcProgram get() const { return program_; }
    std::string log() const {
      std::size_t bytes = 0;
      std::string text;
      if (call_.log_size(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) return "no word of why";
      text.resize(bytes);
      if (call_.log(program_, text.data()) != NVRTC_SUCCESS) return "no word of why";
      text.resize(bytes - 1);  // a zero byte ends it
      return text;
    }

   private:
    const Functions& call_;
    nvrtcProgram program_ = nullptr;
  };

  [[noreturn]] static void refuse(const kernels::CodeName& name, const std::string& why) {
    throw Error(ErrorCode::internal, "compiling " + name.expression, why,
                "EngineOptions::specialise = Never keeps to the library's own kernels");
  }

  SharedLibrary library_;
  Functions call_;
  int major_ = 0;
  int minor_ = 0;
  std::vector<int> known_;  ///< capabilities
};

}  // namespace

std::unique_ptr<const CodeCompiler> CodeCompiler::open(const std::filesystem::path& library) {
  return std::make_unique<Nvrtc>(library);
}

}  // namespace mobicuda
