#include "registry.h"

#include <iostream>
#include <stdexcept>
#include <utility>

namespace mobicuda::bench {
namespace {

constexpr const char* kTimedByUs = "/manual_time";  // what Google Benchmark appends to the names

void run(const Registry::Body& body, benchmark::State& state) {
  try {
    body(state);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

}  // namespace

Registry::Registry(std::string filter) : inverted_(filter.starts_with('-')) {
  if (inverted_) filter.erase(0, 1);
  if (filter.empty() || filter == "all") filter = ".";
  try {
    pattern_.assign(filter, std::regex::extended | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw std::invalid_argument("--benchmark_filter=" + filter + ": " + error.what());
  }
}

bool Registry::wants(const std::string& name) const {
  return std::regex_search(name + kTimedByUs, pattern_) != inverted_;
}

void Registry::add(const std::string& name, Body body) {
  if (wants(name)) wanted_.push_back({name, std::move(body)});
}

void Registry::list() const {
  for (const Wanted& wanted : wanted_) std::cout << wanted.name << kTimedByUs << '\n';
}

void Registry::hand_over() const {
  for (const Wanted& wanted : wanted_) {
    const auto guarded = [body = wanted.body](benchmark::State& state) { run(body, state); };
    benchmark::RegisterBenchmark(wanted.name.c_str(), guarded)->UseManualTime()->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace mobicuda::bench
