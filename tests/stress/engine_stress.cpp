// engine_stress: several engines, with several sessions each, under load at the same time in one process; each output
// is compared in every bit. What goes wrong ends the process at once: after a fault of the GPU nothing else can run in
// it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <mobicuda/error.h>

#include "stress/engine_load.h"
#include "stress/engine_spec.h"
#include "stress/memory_use.h"

namespace {

using namespace mobicuda::stress;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr int kExitFault = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNoDevice = 4;
// A run takes milliseconds; one that takes this long does not end.
constexpr std::chrono::seconds kStuck{60};

struct CommandLine {
  std::vector<std::string> engines;
  Conditions conditions;
  std::string json;
};

void define(CLI::App& app, CommandLine& line) {
  app.option_defaults()->always_capture_default();
  app.add_option("engine", line.engines, "Engines, each as key=value,key=value")->required()->type_name("ENGINE");
  app.add_option("--seconds", line.conditions.seconds, "How long the load lasts")
      ->check(CLI::Range(0.01, 3600.0))
      ->check([](const std::string& text) {
        return std::isfinite(std::stod(text)) ? "" : "must be a number, got " + text;
      });
  app.add_option("--seed", line.conditions.seed, "Of inputs, batches and pauses");
  app.add_option("--maxPause", line.conditions.max_pause_us, "Longest pause between host calls, microseconds, 0: none")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--window", line.conditions.window,
                 "Memory is told by so many seconds, slow runs of the first and of the last so many; 0: not")
      ->check(CLI::Range(0.0, 600.0));
  app.add_option("--json", line.json, "File to write what ran to");
  app.footer(
      "Keys of an ENGINE:\n" + describe_engine_spec() +
      "Exit codes: 0 every output was right, 1 a fault, a wrong output or no end of a run, 2 usage, or an engine that\n"
      "cannot be made, 4 no GPU.\n"
      "Example: engine_stress --seconds 30 input=bytes,sessions=8 precision=fp32,max_batch=64,sessions=2");
}

/// Half of the times are not above the first, one in 1,000 above the second.
Json quantiles(std::vector<float> times) {
  if (times.empty()) return nullptr;
  const auto quantile = [&](double share) {
    const auto place = times.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(times.size() - 1));
    std::nth_element(times.begin(), place, times.end());
    return *place;
  };
  return {{"runs", times.size()}, {"p50Us", quantile(0.5)}, {"p999Us", quantile(0.999)}};
}

Json describe(const EngineLoad& load, bool with_times) {
  const Tally& tally = load.tally();
  Json json{{"engine", load.spec().text}, {"sessions", tally.sessions.load()}, {"reloads", tally.reloads.load()},
            {"runs", tally.runs.load()},  {"pictures", tally.pictures.load()}, {"wrong", tally.wrong.load()}};
  if (with_times) {
    json["first"] = quantiles(load.run_times().first);
    json["last"] = quantiles(load.run_times().last);
  }
  return json;
}

/// Medians of what MemoryUse says in each window of a load.
class MemoryWatch {
 public:
  void look(double seconds) {
    if (!samples_.empty() && seconds - samples_.back().seconds < kBetween) return;
    samples_.push_back({seconds, memory_use()});
  }

  /// Of whole windows, and of the part of one that is left at the end where it is more than half.
  Json medians(double window) const {
    return {{"hostBytes", medians(window, &MemoryUse::host)}, {"deviceBytes", medians(window, &MemoryUse::device)}};
  }

 private:
  static constexpr double kBetween = 0.25;  // seconds

  struct Sample {
    double seconds;
    MemoryUse use;
  };

  std::vector<std::int64_t> medians(double window, std::int64_t MemoryUse::*member) const {
    std::vector<std::int64_t> all;
    auto sample = samples_.begin();
    for (int number = 0; (number + 0.5) * window < samples_.back().seconds; ++number) {
      std::vector<std::int64_t> values;
      for (; sample != samples_.end() && sample->seconds < (number + 1) * window; ++sample)
        values.push_back(sample->use.*member);
      if (values.empty()) continue;
      const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      std::nth_element(values.begin(), middle, values.end());
      all.push_back(*middle);
    }
    return all;
  }

  std::vector<Sample> samples_;
};

/// Says how it ended; in the file as well, if it is open.
void tell(const CommandLine& line, const std::vector<std::unique_ptr<EngineLoad>>& loads, double seconds,
          const std::string& fault, const MemoryWatch& memory, std::ofstream& file) {
  Json json{{"seconds", seconds},
            {"seed", line.conditions.seed},
            {"maxPauseUs", line.conditions.max_pause_us},
            {"fault", fault},
            {"engines", Json::array()}};
  // After a fault threads may still be about to hand in their times.
  const bool windows = line.conditions.window > 0 && fault.empty();
  if (windows) json["memory"] = memory.medians(line.conditions.window);
  for (const auto& load : loads) {
    json["engines"].push_back(describe(*load, windows));
    std::printf("%s: %lld runs, %lld pictures, %lld wrong\n", load->spec().text.c_str(),
                static_cast<long long>(load->tally().runs), static_cast<long long>(load->tally().pictures),
                static_cast<long long>(load->tally().wrong));
  }
  if (windows) std::printf("memory by %g s: %s\n", line.conditions.window, json["memory"].dump().c_str());
  std::printf("%s after %.1f s, seed %u\n", fault.empty() ? "ok" : ("FAULT: " + fault).c_str(), seconds,
              line.conditions.seed);
  std::fflush(stdout);
  if (!file.is_open()) return;
  file << json.dump(1) << '\n';
  if (!file.flush()) std::fprintf(stderr, "engine_stress: %s: writing failed\n", line.json.c_str());
}

std::int64_t runs_of(const std::vector<std::unique_ptr<EngineLoad>>& loads) {
  std::int64_t runs = 0;
  for (const auto& load : loads) runs += load->tally().runs;
  return runs;
}

int run(const CommandLine& line) {
  std::vector<EngineSpec> specs;
  for (const std::string& text : line.engines) specs.push_back(parse_engine_spec(text));
  if (2 * line.conditions.window > line.conditions.seconds) {
    throw UsageError("--window: --seconds must be two windows at least");
  }
  std::ofstream file;
  if (!line.json.empty()) {
    file.open(line.json);
    if (!file) throw UsageError("--json: " + line.json + " cannot be written");
  }
  std::vector<std::unique_ptr<EngineLoad>> loads;
  for (const EngineSpec& spec : specs) {
    loads.push_back(std::make_unique<EngineLoad>(spec, line.conditions));
    std::printf("ready: %s\n", spec.text.c_str());
    std::fflush(stdout);
  }

  Alarm alarm;
  const auto start = Clock::now();
  const auto end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(line.conditions.seconds));
  std::vector<std::thread> threads;
  std::atomic<int> running{0};
  for (const auto& load : loads) {
    for (int i = 0; i < load->spec().sessions; ++i) {
      ++running;
      threads.emplace_back([&, load = load.get(), number = static_cast<int>(threads.size())] {
        load->run(number, end, alarm);
        --running;
      });
    }
  }
  std::int64_t runs = 0;
  MemoryWatch memory;
  auto last_end = start;
  while (running > 0 && !alarm.raised()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (line.conditions.window > 0) memory.look(std::chrono::duration<double>(Clock::now() - start).count());
    if (const std::int64_t now = runs_of(loads); now != runs) {
      runs = now;
      last_end = Clock::now();
    } else if (Clock::now() - last_end > kStuck) {
      alarm.raise("no run has ended for " + std::to_string(kStuck.count()) + " s");
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (alarm.raised()) {
    tell(line, loads, seconds, alarm.what(), memory, file);
    std::_Exit(kExitFault);  // threads may wait for the GPU for ever
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& load : loads) {
    if (load->tally().runs == 0) alarm.raise("no run ended in time (" + load->spec().text + ")");
  }
  tell(line, loads, seconds, alarm.what(), memory, file);
  return alarm.raised() ? kExitFault : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs engines and sessions side by side and compares every output with that of a session alone."};
  CommandLine line;
  define(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  try {
    return run(line);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "engine_stress: %s\n", error.what());
    return kExitUsage;
  } catch (const mobicuda::Error& error) {
    std::fprintf(stderr, "engine_stress: %s\n", error.what());
    if (error.code() == mobicuda::ErrorCode::device_unavailable) return kExitNoDevice;
    return error.code() == mobicuda::ErrorCode::device_lost ? kExitFault : kExitUsage;  // of an engine being made
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_stress: %s\n", error.what());
    return kExitFault;
  }
}
