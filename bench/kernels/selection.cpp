#include "selection.h"

#include <algorithm>

namespace mobicuda::bench {

Benchmarks::Benchmarks(std::string_view kernel, Register register_all, bool compared)
    : kernel_(kernel), register_all_(register_all), compared_(compared) {
  list().push_back(this);
}

std::vector<const Benchmarks*>& Benchmarks::list() {
  static std::vector<const Benchmarks*> benchmarks;
  return benchmarks;
}

std::vector<const Benchmarks*> Benchmarks::all() {
  std::vector<const Benchmarks*> sorted = list();
  std::ranges::sort(sorted, {}, &Benchmarks::kernel);
  return sorted;
}

}  // namespace mobicuda::bench
