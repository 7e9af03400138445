// Sessions of engines side by side, every output compared with the bits that a session alone gave for the same n.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <mobicuda/engine.h>

#include "stress/engine_spec.h"

namespace mobicuda::stress {

/// What all threads of a program share.
struct Conditions {
  double seconds = 10;
  std::uint32_t seed = 1;
  int max_pause_us = 200;  ///< between host calls, at random; 0: none
  double window = 0;       ///< at the beginning and at the end, seconds in which each run is timed; 0: none
};

/// The first thing that went wrong, and whether all are to end.
class Alarm {
 public:
  /// Keeps the first text.
  void raise(const std::string& what);
  bool raised() const noexcept { return raised_.load(); }
  std::string what() const;

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::string what_;
};

/// The inputs of an engine, and what a session alone makes of each picture in a call of n: bits may depend on n, which
/// kernels are chosen by, and on nothing else.
class Expected {
 public:
  /// Runs every n that the spec's calls can have. Throws Error.
  Expected(const Engine& engine, const EngineSpec& spec, std::uint32_t seed);

  std::int64_t pictures() const noexcept { return pictures_; }
  const std::vector<std::int64_t>& batches() const noexcept { return batches_; }
  std::size_t input_elements() const noexcept { return input_elements_; }    ///< of a picture
  std::size_t output_elements() const noexcept { return output_elements_; }  ///< of a picture
  const float* floats(std::int64_t picture) const { return floats_.data() + at(picture) * input_elements_; }
  const std::uint8_t* bytes(std::int64_t picture) const { return bytes_.data() + at(picture) * input_elements_; }
  /// Empty where the outputs of a call for n pictures from `first` on are right in every bit, else what is wrong.
  std::string compare(std::int64_t n, std::int64_t first, const float* outputs) const;

 private:
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  const float* outputs(std::int64_t n, std::int64_t picture) const;

  std::int64_t pictures_;
  std::vector<std::int64_t> batches_;
  std::size_t input_elements_;
  std::size_t output_elements_;
  std::vector<float> floats_;                // or
  std::vector<std::uint8_t> bytes_;          // as the engine takes them
  std::vector<std::vector<float>> outputs_;  // by n
};

/// What the threads of one engine have done.
struct Tally {
  std::atomic<std::int64_t> sessions{0};  ///< made
  std::atomic<std::int64_t> reloads{0};   ///< of the engine
  std::atomic<std::int64_t> runs{0};
  std::atomic<std::int64_t> pictures{0};
  std::atomic<std::int64_t> wrong{0};  ///< runs
};

/// How long runs took, in microseconds, in the first and in the last window.
struct RunTimes {
  std::vector<float> first, last;
};

/// An engine under load.
class EngineLoad {
 public:
  /// Compiles the engine and learns what it computes when nothing else runs. Throws Error, UsageError.
  EngineLoad(const EngineSpec& spec, const Conditions& conditions);

  const EngineSpec& spec() const noexcept { return spec_; }
  const Tally& tally() const noexcept { return tally_; }
  /// Of the threads that have ended; not while one ends.
  const RunTimes& run_times() const noexcept { return times_; }
  /// What one of spec().sessions threads does until `end`, or until the alarm, which it raises on an error.
  void run(int thread, std::chrono::steady_clock::time_point end, Alarm& alarm);

 private:
  std::shared_ptr<const Engine> engine() const;
  /// Reads the engine anew from its plan; sessions that are there keep the one they have.
  void reload();

  EngineSpec spec_;
  Conditions conditions_;
  std::unique_ptr<Backend> backend_;
  EngineOptions options_;
  mutable std::mutex mutex_;  // of the next two members
  std::shared_ptr<const Engine> engine_;
  RunTimes times_;
  std::vector<std::byte> plan_;  // empty where the engine is not read anew
  std::unique_ptr<Expected> expected_;
  Tally tally_;
};

}  // namespace mobicuda::stress
