#include <string>

#include "engine/timing/timing_cache.h"
#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

bool run(Bytes input) {
  const std::filesystem::path file = scratch_file("times", input);
  return returns([&] {
    TimingCache cache(file);
    const std::string subject = "a|b|c|d|e|f";
    const bool known = cache.find(subject, "kernel").has_value();
    cache.add(subject, "kernel", 1.5);
    cache.save();
    const TimingCache again(file);  // what was accepted is written so that it is accepted
    if (again.find(subject, "kernel") != 1.5) fail(known ? "a time was not replaced" : "a time was not added");
  });
}

}  // namespace

Target timing_cache() { return {run}; }

}  // namespace mobicuda::fuzz
