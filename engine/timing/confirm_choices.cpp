#include "timing/confirm_choices.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <mobicuda/error.h>

namespace mobicuda {
namespace {

// A rival has to save that share of the network's time. Two measurements of one network differ by up to a fifth of it
// (docs/bench_engine.md, "Utilisation"), and less would not pay for kernels that change from file to file.
constexpr double kLeastGain = 0.003;

// Of each network. The median difference of so many is wrong by about a quarter of the range that holds the middle half
// of them, which is taken for the noise.
constexpr int kTurns = 15;
constexpr int kWarmUpTurns = 3;         // not counted: clocks rise, caches fill
constexpr double kTurnMs = 3;           // long beside the wait between two turns
constexpr int kMostRuns = 64;           // in a turn
constexpr double kMicroseconds = 1000;  // in a millisecond

constexpr const char* kNoise = "noise";  // where a line of the file has the kernels

double quantile(std::vector<double> values, double part) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// The mean of the middle half: finer than the clock's steps, and without what the host's hiccups make longer.
double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 4);
  const auto count = static_cast<double>(values.size()) - 2 * static_cast<double>(cut);
  return std::accumulate(values.begin() + cut, values.end() - cut, 0.0) / count;
}

// FNV-1a.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add(c);
    add('\0');  // so that "ab", "c" is not "a", "bc"
  }
  std::string text() const {
    constexpr int kHexadecimal = 16;
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.begin(), digits.end(), value_, kHexadecimal).ptr;
    return {digits.begin(), end};
  }

 private:
  void add(char c) { value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U; }

  std::uint64_t value_ = 0xcbf29ce484222325U;
};

// All that the times depend on. The choices are those that the network runs with when the question is asked, earlier
// answers included. So each question is about the network as it would run, which kernels that disturb each other need;
// and since the answers are kept in the file, the next compilation asks the same questions.
std::string subject_of(const TimedNetwork& network, const std::vector<SavedChoice>& choices,
                       const ContestedChoice& contested) {
  Hash hash;
  hash.add(network.graph);
  for (const SavedChoice& choice : choices) {
    hash.add(choice.kernel);
    hash.add(choice.variant);
  }
  return network.machine + "|network " + hash.text() + " n=" + std::to_string(network.batch) +
         " bytes=" + std::to_string(static_cast<int>(network.bytes)) + " choice " + std::to_string(contested.position) +
         " " + timing_field(contested.layer);
}

// The names of the two kernels, as in the timing cache.
struct Kernels {
  std::string chosen, rival;
};

std::optional<NetworkTimes> known_times(const TimingCache& cache, const std::string& subject, const Kernels& kernels) {
  const auto chosen = cache.find(subject, kernels.chosen);
  const auto rival = cache.find(subject, kernels.rival);
  const auto noise = cache.find(subject, kNoise);
  if (!chosen || !rival || !noise) return std::nullopt;
  return NetworkTimes{*chosen, *rival, *noise};
}

[[noreturn]] void refuse(const TimingCache& cache, const std::string& subject, const ContestedChoice& contested,
                         const Kernels& kernels) {
  throw Error(ErrorCode::invalid_argument, cache.file().string(),
              "has no times of the network with " + kernels.chosen + " and with " + kernels.rival + " for layer '" +
                  contested.layer + "' (" + subject + ")",
              "compile once without the requirement on this GPU, with memory for two such engines: what is missing is "
              "measured and added");
}

bool clearly_faster(const NetworkTimes& times) {
  return times.chosen - times.rival > std::max(kLeastGain * times.chosen, times.noise);
}

std::string in_network(double runs, const std::string& other, double with_other) {
  return "; in the network " + timing_text(runs) + ", with " + other + " " + timing_text(with_other);
}

}  // namespace

NetworkTimes time_in_turns(const NetworkRuns& chosen, const NetworkRuns& rival) {
  constexpr int kFirstRuns = 3;
  const double run_ms = median(chosen(kFirstRuns));
  const int runs = run_ms * kMostRuns < kTurnMs ? kMostRuns : std::max(1, static_cast<int>(kTurnMs / run_ms));
  std::vector<double> times;
  std::vector<double> differences;
  for (int turn = -kWarmUpTurns; turn < kTurns; ++turn) {
    const bool chosen_first = turn % 2 == 0;  // neither always follows the other
    const double first = middle_mean((chosen_first ? chosen : rival)(runs));
    const double second = middle_mean((chosen_first ? rival : chosen)(runs));
    if (turn < 0) continue;
    times.push_back(chosen_first ? first : second);
    differences.push_back(chosen_first ? second - first : first - second);
  }
  const double time = median(times) * kMicroseconds;
  const double spread = quantile(differences, 0.75) - quantile(differences, 0.25);
  return {time, time + median(differences) * kMicroseconds, spread * kMicroseconds};
}

std::vector<SavedChoice> confirm_choices(TimingCache& cache, const TimedNetwork& network, ChosenLayers layers,
                                         bool require, const LogCallback& log, const NetworkTimer& measure) {
  std::vector<SavedChoice>& choices = layers.choices;
  std::string no_memory;
  int measured = 0;
  int changed = 0;
  int left_out = 0;
  for (const ContestedChoice& contested : layers.contested) {
    std::vector<SavedChoice> with_rival = choices;
    with_rival.at(contested.position).variant = contested.rival;
    const std::string subject = subject_of(network, choices, contested);
    const Kernels kernels{contested.kernel + "/" + choices.at(contested.position).variant,
                          contested.kernel + "/" + contested.rival};
    std::string& reason = choices.at(contested.reason_at).reason;
    auto times = known_times(cache, subject, kernels);
    if (!times && require) refuse(cache, subject, contested, kernels);
    if (!times && no_memory.empty()) {
      try {
        const NetworkTimes found = measure(choices, with_rival);
        cache.add(subject, kernels.chosen, found.chosen);
        cache.add(subject, kernels.rival, found.rival);
        cache.add(subject, kNoise, found.noise);
        times = known_times(cache, subject, kernels);
        ++measured;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_memory) throw;
        no_memory = "out of memory when " + error.where();
      }
    }
    if (!times) {
      reason += "; not confirmed: " + no_memory;
      ++left_out;
    } else if (clearly_faster(*times)) {
      with_rival.at(contested.reason_at).reason =
          contested.reason + in_network(times->rival, kernels.chosen, times->chosen);
      choices = std::move(with_rival);
      ++changed;
    } else {
      reason += in_network(times->chosen, kernels.rival, times->rival);
      if (times->rival < times->chosen) reason += ", not clearly faster";
    }
  }
  cache.save();
  if (!log) return choices;
  const std::string file = "timing cache " + cache.file().string() + ": ";
  log(LogLevel::Info, file + std::to_string(layers.contested.size()) + " choices asked of the network, " +
                          std::to_string(changed) + " changed by it, " + std::to_string(measured) +
                          " confirmations measured");
  if (left_out > 0) {
    log(LogLevel::Warning, file + std::to_string(left_out) + " choices not confirmed in the network: " + no_memory);
  }
  return choices;
}

}  // namespace mobicuda
