#pragma once

// The C interface of a library that is loaded while the program runs.
#include <dlfcn.h>

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

/// Reads the model that c_api_expected_files left in `folder`, runs it on the CPU, and holds the outputs against those
/// there.
inline void use_library(void* library, const std::string& folder) {
  const auto check = [&](mobicuda_status status) {
    if (status != MOBICUDA_OK) fail(MOBICUDA_FUNCTION(library, mobicuda_last_error_text)());
  };
  const std::vector<float> input = read_floats(folder + "/input.f32");
  const std::vector<float> expected = read_floats(folder + "/output.f32");
  std::vector<float> output(expected.size());
  mobicuda_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = MOBICUDA_BACKEND_CPU;
  options.max_batch = 3;
  options.threads = 2;
  mobicuda_engine* engine = nullptr;
  mobicuda_session* session = nullptr;
  check(MOBICUDA_FUNCTION(library, mobicuda_engine_load_onnx)((folder + "/model.onnx").c_str(), nullptr, &options,
                                                              &engine));
  check(MOBICUDA_FUNCTION(library, mobicuda_session_create)(engine, &session));
  check(MOBICUDA_FUNCTION(library, mobicuda_session_run)(session, input.data(), input.size(), output.data(),
                                                         output.size()));
  if (output != expected) fail("other outputs than expected");
  MOBICUDA_FUNCTION(library, mobicuda_session_destroy)(session);
  MOBICUDA_FUNCTION(library, mobicuda_engine_destroy)(engine);
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
