#include "stream/config.h"

#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

bool run(Bytes input) {
  return returns([&] {
    const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
    const stream::Config config = stream::parse_config(text, "input", "/nonexistent");
    if (config.models.empty() || config.batchsize < 1 || config.times < 1) fail("a configuration out of range");
    for (const stream::ModelConfig& model : config.models) {
      if (!(model.share > 0) || model.name.empty()) fail("a model out of range");
    }
  });
}

}  // namespace

Target stream_config() { return {run}; }

}  // namespace mobicuda::fuzz
