#pragma once

#include <functional>
#include <regex>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace mobicuda::bench {

/// The benchmarks whose names match Google Benchmark's filter. It has one of its own, but takes minutes to list tens of
/// thousands of benchmarks, since it copies all of them for each one.
class Registry {
 public:
  using Body = std::function<void(benchmark::State&)>;

  /// `filter` as --benchmark_filter takes it: a regular expression, "all", or what must not match behind a '-'. Throws
  /// std::invalid_argument where it is none.
  explicit Registry(std::string filter);

  bool wants(const std::string& name) const;
  /// `body` allocates, then measures; what it throws becomes the benchmark's error.
  void add(const std::string& name, Body body);

  std::size_t size() const { return wanted_.size(); }
  /// Prints the names as Google Benchmark would.
  void list() const;
  /// Hands the benchmarks to Google Benchmark.
  void hand_over() const;

 private:
  struct Wanted {
    std::string name;
    Body body;
  };

  bool inverted_;
  std::regex pattern_;
  std::vector<Wanted> wanted_;
};

}  // namespace mobicuda::bench
