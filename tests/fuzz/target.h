// What fuzz targets have in common. Each is a function that gives a Target; fuzz_main.cpp makes a libFuzzer program of
// one, replay.cpp runs files through any of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/onnx_import.h>

namespace mobicuda::fuzz {

using Bytes = std::span<const std::uint8_t>;

struct Target {
  /// Runs one input. What must never happen ends the process, with a line that says what. Returns whether the input was
  /// accepted, at least as far as a corpus should get.
  bool (*run)(Bytes input);
  /// Changes an input in place, which has room for `room` bytes, and returns its size; null: as libFuzzer does. `plain`
  /// is libFuzzer's own way.
  std::size_t (*mutate)(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) = nullptr;
};

Target onnx_model();      ///< an ONNX file in memory, imported
Target onnx_external();   ///< a model with files of external data
Target onnx_compile();    ///< an ONNX file, compiled and run on the CPU, also after a plan file
Target graph();           ///< a graph made by calls, compiled and held against bounds
Target session();         ///< calls of a session, in any order
Target plan();            ///< a plan file, with the checksum put right
Target plan_disk();       ///< a plan file on disk, or what stands in its place
Target picture();         ///< an encoded picture
Target picture_tar();     ///< a tar archive of pictures
Target timing_cache();    ///< a timing cache
Target stream_config();   ///< mobicuda_stream's configuration
Target bench_options();   ///< bench_engine's arguments, one a line
Target bench_document();  ///< what `bench_engine report` reads

/// Ends the process: `what` happened, which must not.
[[noreturn]] void fail(std::string_view what);

/// Runs `action`; true where it returned. An Error is the expected answer to bad input, unless it is one of
/// ErrorCode::internal or its text is unfit for a terminal; any other exception is not.
bool returns(const std::function<void()>& action);

/// Limits that keep an input's memory far below libFuzzer's.
onnx_import::ImportLimits small_limits();

/// An engine for the CPU with these options, run on one image of fixed numbers; nothing where it would take too long or
/// the engine refuses.
EngineOptions small_options();
std::vector<float> run_once(const Engine& engine);
bool is_small(const Graph& graph);

/// A folder of the process, in memory where the system has that, which goes away with it.
const std::filesystem::path& scratch_folder();
/// Replaces a file there; returns its path.
std::filesystem::path scratch_file(const std::string& name, Bytes content);

/// libFuzzer's own mutation; does nothing in a program without libFuzzer.
std::size_t plain_mutation(std::uint8_t* data, std::size_t size, std::size_t room);

/// Mutates a protobuf message of any schema: fields are changed, left out, doubled and exchanged, also those of
/// messages within, and the lengths around them stay right. A part of the calls falls back on plain_mutation().
std::size_t mutate_message(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed);

}  // namespace mobicuda::fuzz
