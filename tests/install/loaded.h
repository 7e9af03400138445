#pragma once

// The C interface of a library that is loaded while the program runs.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <mobicuda/mobicuda_c.h>

namespace mobicuda::test {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

inline void* load_library(const char* path, int flags) {
  void* library = dlopen(path, flags);
  if (library == nullptr) fail(std::string("dlopen: ") + dlerror());
  return library;
}

/// MOBICUDA_FUNCTION(library, name): that function of the library.
#define MOBICUDA_FUNCTION(library, name) reinterpret_cast<decltype(&(name))>(::mobicuda::test::find(library, #name))
inline void* find(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) fail(std::string("dlsym: ") + dlerror());
  return found;
}

inline std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) fail("cannot read " + path);
  std::vector<float> values(static_cast<std::size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

/// What the model that c_api_expected_files left in `folder` makes of its input, on MOBICUDA_BACKEND_... Nothing where
/// there is no device for it.
inline std::vector<float> run_model(void* library, const std::string& folder, std::int32_t backend) {
  const auto check = [&](mobicuda_status status) {
    if (status != MOBICUDA_OK) fail(MOBICUDA_FUNCTION(library, mobicuda_last_error_text)());
  };
  const std::vector<float> input = read_floats(folder + "/input.f32");
  std::vector<float> output(read_floats(folder + "/output.f32").size());
  mobicuda_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = backend;
  options.max_batch = 3;
  options.threads = 2;
  mobicuda_engine* engine = nullptr;
  mobicuda_session* session = nullptr;
  const std::string model = folder + "/model.onnx";
  const mobicuda_status loaded =
      MOBICUDA_FUNCTION(library, mobicuda_engine_load_onnx)(model.c_str(), nullptr, &options, &engine);
  if (loaded == MOBICUDA_DEVICE_UNAVAILABLE) return {};
  check(loaded);
  check(MOBICUDA_FUNCTION(library, mobicuda_session_create)(engine, &session));
  const auto run = MOBICUDA_FUNCTION(library, mobicuda_session_run);
  check(run(session, input.data(), input.size(), output.data(), output.size()));
  MOBICUDA_FUNCTION(library, mobicuda_session_destroy)(session);
  MOBICUDA_FUNCTION(library, mobicuda_engine_destroy)(engine);
  return output;
}

/// Runs that model on the CPU, and holds the outputs against those in `folder`.
inline void use_library(void* library, const std::string& folder) {
  if (run_model(library, folder, MOBICUDA_BACKEND_CPU) != read_floats(folder + "/output.f32")) {
    fail("other outputs than expected");
  }
}

/// Whether a file whose path has `part` is mapped into the process.
inline bool is_mapped(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace mobicuda::test
