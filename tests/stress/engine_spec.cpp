#include "stress/engine_spec.h"

#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace mobicuda::stress {
namespace {

constexpr std::int64_t kMostTurns = 1'000'000;

template <class T>
using Names = std::vector<std::pair<std::string_view, T>>;

template <class T>
T named(const std::string& key, std::string_view value, const Names<T>& names) {
  std::string all;
  for (const auto& [name, meaning] : names) {
    if (name == value) return meaning;
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  throw UsageError(key + ": must be one of " + all + ", got '" + std::string(value) + "'");
}

std::int64_t number(const std::string& key, std::string_view value, std::int64_t least, std::int64_t most) {
  std::int64_t found = 0;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), found);
  if (failure != std::errc{} || end != value.data() + value.size() || found < least || found > most) {
    throw UsageError(key + ": must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                     ", got '" + std::string(value) + "'");
  }
  return found;
}

/// "head:layers+block:fused"
std::map<std::string, std::string> variants(std::string_view value) {
  std::map<std::string, std::string> found;
  while (!value.empty()) {
    const std::size_t end = value.find('+');
    const std::string_view one = value.substr(0, end);
    const std::size_t colon = one.find(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == one.size()) {
      throw UsageError("variants: must read KERNEL:NAME+KERNEL:NAME, got '" + std::string(one) + "'");
    }
    found[std::string(one.substr(0, colon))] = one.substr(colon + 1);
    value = end == std::string_view::npos ? std::string_view() : value.substr(end + 1);
  }
  return found;
}

bool is_on(const std::string& key, std::string_view value) {
  return named<bool>(key, value, {{"1", true}, {"0", false}});
}

struct Key {
  std::string_view name;
  std::string_view meaning;
  std::function<void(EngineSpec&, const std::string& key, const std::string& value)> set;
};

const std::vector<Key>& keys() {
  static const std::vector<Key> all = {
      {"impl", "custom, cudnn or cpu",
       [](EngineSpec& spec, const auto&, const auto& value) { spec.implementation = value; }},
      {"network", "of models/zoo, default mobilenet_v2",
       [](EngineSpec& spec, const auto&, const auto& value) { spec.network = value; }},
      {"model", "an ONNX file, instead of network",
       [](EngineSpec& spec, const auto&, const auto& value) { spec.model = value; }},
      {"resolution", "of the network's pictures, default its own",
       [](EngineSpec& spec, const auto& key, const auto& value) {
         spec.resolution = number(key, value, 1, std::numeric_limits<std::int32_t>::max());
       }},
      {"precision", "fp16, fp32 or fp64, default fp16, of cpu fp32",
       [](EngineSpec& spec, const auto& key, const auto& value) {
         spec.precision = named<Precision>(
             key, value, {{"fp16", Precision::Fp16}, {"fp32", Precision::Fp32}, {"fp64", Precision::Fp64}});
       }},
      {"input", "floats or bytes, default floats",
       [](EngineSpec& spec, const auto& key, const auto& value) {
         spec.bytes = named<bool>(key, value, {{"floats", false}, {"bytes", true}});
       }},
      {"max_batch", "1 to 256, default 16",
       [](EngineSpec& spec, const auto& key, const auto& value) { spec.max_batch = number(key, value, 1, 256); }},
      {"sessions", "threads with a session each, 1 to 64, default 4",
       [](EngineSpec& spec, const auto& key, const auto& value) {
         spec.sessions = static_cast<int>(number(key, value, 1, 64));
       }},
      {"batches", "n of a call: random, eighths (of max_batch) or whole, default random",
       [](EngineSpec& spec, const auto& key, const auto& value) {
         spec.batches = named<Batches>(
             key, value, {{"random", Batches::Random}, {"eighths", Batches::Eighths}, {"whole", Batches::Whole}});
       }},
      {"calls", "staged, host, device or any at random, default staged; cpu has no device",
       [](EngineSpec& spec, const auto& key, const auto& value) {
         spec.calls = named<Calls>(
             key, value,
             {{"staged", Calls::Staged}, {"host", Calls::Host}, {"device", Calls::Device}, {"any", Calls::Any}});
       }},
      {"renew", "runs, on average, after which a thread makes its session anew, default 0: never",
       [](EngineSpec& spec, const auto& key, const auto& value) { spec.renew = number(key, value, 0, kMostTurns); }},
      {"reload", "sessions, on average, after which the engine is read anew from its plan, default 0: never",
       [](EngineSpec& spec, const auto& key, const auto& value) { spec.reload = number(key, value, 0, kMostTurns); }},
      {"graph", "1 or 0: CUDA graph, default 1",
       [](EngineSpec& spec, const auto& key, const auto& value) { spec.cuda_graph = is_on(key, value); }},
      {"programmatic", "1 or 0: programmatic launch, default 1",
       [](EngineSpec& spec, const auto& key, const auto& value) { spec.programmatic_launch = is_on(key, value); }},
      {"variants", "KERNEL:NAME+KERNEL:NAME, as EngineOptions::kernel_variants",
       [](EngineSpec& spec, const auto&, const auto& value) { spec.kernel_variants = variants(value); }},
  };
  return all;
}

const Key& find_key(const std::string& name) {
  std::string all;
  for (const Key& key : keys()) {
    if (key.name == name) return key;
    all += (all.empty() ? "" : ", ") + std::string(key.name);
  }
  throw UsageError("no key is named '" + name + "'; there are " + all);
}

}  // namespace

EngineSpec parse_engine_spec(const std::string& text) {
  EngineSpec spec;
  spec.text = text;
  std::set<std::string> given;
  std::istringstream parts(text);
  const auto refuse = [&](const std::string& what) { throw UsageError("'" + text + "': " + what); };
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals + 1 == part.size()) {
      refuse("an engine must read key=value,key=value, got '" + part + "'");
    }
    const std::string name = part.substr(0, equals);
    if (!given.insert(name).second) refuse("'" + name + "' is given twice");
    try {
      find_key(name).set(spec, name, part.substr(equals + 1));
    } catch (const UsageError& error) {
      refuse(error.what());
    }
  }
  if (given.contains("model") && (given.contains("network") || given.contains("resolution"))) {
    refuse("model: a file has its own network and resolution; leave these out");
  }
  if (spec.reload != 0 && spec.renew == 0)
    refuse("reload: sessions that are made anew take the engine; give renew too");
  if (spec.implementation == "cpu") {
    if (!given.contains("precision")) spec.precision = Precision::Fp32;
    if (spec.calls == Calls::Device) refuse("calls: cpu has no 'device'; choose from staged, host, any");
  }
  return spec;
}

std::string describe_engine_spec() {
  std::string text;
  for (const Key& key : keys()) text += "  " + std::string(key.name) + "=  " + std::string(key.meaning) + "\n";
  return text;
}

}  // namespace mobicuda::stress
