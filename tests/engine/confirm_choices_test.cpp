#include "timing/confirm_choices.h"

#include <map>

#include <mobicuda/error.h>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/texts.h"

namespace mobicuda {
namespace {

namespace fs = std::filesystem;

const TimedNetwork kNetwork{"Some GPU|132|0.1.0|fp16|programmatic", "graph 'g'", 8, false};

// A plain layer, a block whose form keeps the reason of its variant, another plain layer.
ChosenLayers three_contested() {
  return {{{"gemm", "a", "measured 2.00 us; next gemm/b 2.01 us"},
           {"block", "fused", "measured 6.00 us; next inverted_residual/q 6.10 us"},
           {"inverted_residual", "p", ""},
           {"conv2d", "x", "measured 9.00 us; next conv2d/y 9.00 us"}},
          {{0, "first|layer", "gemm", "b", "measured 2.01 us; gemm/a 2.00 us", 0},
           {2, "block", "inverted_residual", "q", "measured 6.10 us; inverted_residual/p 6.00 us", 1},
           {3, "last", "conv2d", "y", "measured 9.00 us; conv2d/x 9.00 us", 3}}};
}

std::string variants_of(const std::vector<SavedChoice>& choices) {
  std::string text;
  for (const SavedChoice& choice : choices) text += (text.empty() ? "" : " ") + choice.variant;
  return text;
}

// The time of a network is that of its variants; counts the measurements.
struct Clockwork {
  std::map<std::string, double> times;  // by variants
  double noise = 0.01;
  std::vector<std::string> asked{};

  NetworkTimer timer() {
    return [this](const std::vector<SavedChoice>& chosen, const std::vector<SavedChoice>& rival) {
      asked.push_back(variants_of(chosen) + " / " + variants_of(rival));
      return NetworkTimes{times.at(variants_of(chosen)), times.at(variants_of(rival)), noise};
    };
  }
};

struct Log {
  std::vector<std::string> infos, warnings;

  LogCallback callback() {
    return [this](LogLevel level, std::string_view text) {
      (level == LogLevel::Info ? infos : warnings).emplace_back(text);
    };
  }
};

NetworkTimer never() {
  return [](const auto&, const auto&) -> NetworkTimes { throw Error(ErrorCode::internal, "test", "was measured"); };
}

std::vector<SavedChoice> confirm(const fs::path& file, const NetworkTimer& timer, bool require = false,
                                 const TimedNetwork& network = kNetwork) {
  TimingCache cache(file);
  return confirm_choices(cache, network, three_contested(), require, {}, timer);
}

// The second rival wins, the third one not by enough.
Clockwork second_wins() {
  return {{{"a fused p x", 44.8}, {"b fused p x", 45.1}, {"a fused q x", 44.5}, {"a fused q y", 44.4}}};
}

TEST_CASE("a contested choice is the network's, each asked with the answers before it") {
  const TemporaryFolder folder;
  Clockwork clockwork = second_wins();
  Log log;
  TimingCache cache(folder.path() / "times");
  const auto choices = confirm_choices(cache, kNetwork, three_contested(), false, log.callback(), clockwork.timer());
  CHECK(clockwork.asked == std::vector<std::string>{"a fused p x / b fused p x", "a fused p x / a fused q x",
                                                    "a fused q x / a fused q y"});
  CHECK(variants_of(choices) == "a fused q x");
  CHECK(choices[0].reason == "measured 2.00 us; next gemm/b 2.01 us; in the network 44.80 us, with gemm/b 45.10 us");
  CHECK(choices[1].reason ==
        "measured 6.10 us; inverted_residual/p 6.00 us; in the network 44.50 us, with inverted_residual/p 44.80 us");
  CHECK(choices[2].reason.empty());
  CHECK(choices[3].reason ==
        "measured 9.00 us; next conv2d/y 9.00 us; in the network 44.50 us, with conv2d/y 44.40 us, not clearly faster");
  REQUIRE(log.infos.size() == 1);
  CHECK(contains(log.infos[0], "3 choices asked of the network, 1 changed by it, 3 confirmations measured"));
  CHECK(log.warnings.empty());
}

TEST_CASE("with all times in the file the network is not measured, and the answers are the same") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "times";
  Clockwork clockwork = second_wins();
  const auto first = confirm(file, clockwork.timer());
  const std::string text = text_of(file);
  const auto second = confirm(file, never(), true);
  CHECK(text_of(file) == text);
  REQUIRE(first.size() == second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].kernel == second[i].kernel);
    CHECK(first[i].variant == second[i].variant);
    CHECK(first[i].reason == second[i].reason);
  }
  CAPTURE(text);
  CHECK(contains(text, "|inverted_residual/p|44.800\n"));
  CHECK(contains(text, "|inverted_residual/q|44.500\n"));
  CHECK(contains(text, "|noise|0.010\n"));
  CHECK(contains(text, " n=8 bytes=0 choice 0 first layer|gemm/a|44.800\n"));
}

TEST_CASE("the times of another network, batch, input or machine answer nothing") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "times";
  Clockwork clockwork = second_wins();
  confirm(file, clockwork.timer());
  TimedNetwork other = kNetwork;
  switch (GENERATE(0, 1, 2, 3)) {
    case 0:
      other.machine = "Some other GPU|132|0.1.0|fp16|programmatic";
      break;
    case 1:
      other.graph = "graph 'h'";
      break;
    case 2:
      other.batch = 9;
      break;
    default:
      other.bytes = true;
  }
  clockwork.asked.clear();
  confirm(file, clockwork.timer(), false, other);
  CHECK(clockwork.asked.size() == 3);
  clockwork.asked.clear();
  confirm(file, clockwork.timer());
  CHECK(clockwork.asked.empty());
}

TEST_CASE("a time of the network that is required and missing is an error with layer, kernels and remedy") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "times";
  const std::string message = message_of([&] { confirm(file, never(), true); });
  CAPTURE(message);
  for (const std::string& part : {std::string("invalid_argument: "), file.string(), std::string("'first|layer'"),
                                  std::string("gemm/a"), std::string("gemm/b"), std::string("without")}) {
    CHECK(contains(message, part));
  }
  CHECK_FALSE(fs::exists(file));
  Clockwork clockwork = second_wins();
  confirm(file, clockwork.timer());
  std::string text = text_of(file);
  const std::size_t line = text.find('\n', text.find("|conv2d/x|44.500")) + 1;
  text.erase(line, text.find('\n', line) + 1 - line);
  folder.write("times", text);
  CHECK(contains(message_of([&] { confirm(file, never(), true); }), "layer 'last'"));
}

TEST_CASE("a rival has to win by more than the noise and a share of the network's time") {
  const TemporaryFolder folder;
  const auto [rival, noise, wins] = GENERATE(table<double, double, bool>(
      {{99.5, 0.1, true}, {99.5, 0.6, false}, {99.71, 0.1, false}, {99.69, 0.1, true}, {101, 0.1, false}}));
  CAPTURE(rival, noise);
  Clockwork clockwork{{{"a", 100}, {"b", rival}}, noise};
  TimingCache cache(folder.path() / "times");
  const auto choices = confirm_choices(cache, kNetwork, {{{"gemm", "a", ""}}, {{0, "l", "gemm", "b", "", 0}}}, false,
                                       {}, clockwork.timer());
  CHECK(choices[0].variant == (wins ? "b" : "a"));
}

TEST_CASE("where memory runs out choices stay, with reason and warning, and what the file has still counts") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "times";
  Clockwork clockwork = second_wins();
  confirm(file, clockwork.timer());
  std::string text = text_of(file);  // the first question's times go
  for (std::size_t at = text.find(" choice 0 "); at != std::string::npos; at = text.find(" choice 0 ")) {
    const std::size_t line = text.rfind('\n', at) + 1;
    text.erase(line, text.find('\n', at) + 1 - line);
  }
  folder.write("times", text);
  int tries = 0;
  const NetworkTimer no_memory = [&](const auto&, const auto&) -> NetworkTimes {
    ++tries;
    throw Error(ErrorCode::out_of_memory, "allocating 5 bytes", "none left");
  };
  Log log;
  TimingCache cache(file);
  const auto choices = confirm_choices(cache, kNetwork, three_contested(), false, log.callback(), no_memory);
  CHECK(variants_of(choices) == "a fused q x");
  CHECK(choices[0].reason ==
        "measured 2.00 us; next gemm/b 2.01 us; not confirmed: out of memory when allocating 5 bytes");
  CHECK(contains(choices[3].reason, "; in the network 44.50 us"));
  CHECK(tries == 1);
  REQUIRE(log.warnings.size() == 1);
  CHECK(contains(log.warnings[0], "1 choices not confirmed in the network: out of memory"));
  CHECK(text_of(file) == text);

  const auto unmeasured = confirm(folder.path() / "others", no_memory);
  CHECK(variants_of(unmeasured) == "a fused p x");
  for (const std::size_t i : {0U, 1U, 3U}) CHECK(contains(unmeasured[i].reason, "; not confirmed: out of memory"));
  CHECK(tries == 2);  // once is enough

  CHECK(contains(message_of([&] { confirm(folder.path() / "others", never()); }), "was measured"));
}

// Runs of a network that get slower by `drift` ms each, whichever network runs; each 64th takes ten times as long.
struct Runs {
  double now = 0, drift = 0;
  std::vector<int> iterations{};

  NetworkRuns of(double milliseconds) {
    return [this, milliseconds](int count) {
      iterations.push_back(count);
      std::vector<double> times;
      for (int i = 0; i < count; ++i) times.push_back((milliseconds + now) * (i == 7 ? 10 : 1));
      now += drift;
      return times;
    };
  }
};

TEST_CASE("networks are timed in turns, so that neither drift nor hiccups count") {
  Runs runs{0, 1e-5};
  const NetworkTimes times = time_in_turns(runs.of(0.045), runs.of(0.044));
  CHECK(times.chosen - times.rival == Approx(1).epsilon(0.02));
  CHECK(times.noise < 0.03);
  CHECK(times.chosen > 45);
  CHECK(times.chosen < 46);
}

TEST_CASE("noise of the turns is what their differences vary by") {
  int turn = 0;
  const NetworkRuns jitters = [&](int count) { return std::vector<double>(count, 1 + 0.01 * (turn++ % 4)); };
  const NetworkRuns steady = [](int count) { return std::vector<double>(count, 1.0); };
  CHECK(time_in_turns(steady, jitters).noise > 9);
  CHECK(time_in_turns(steady, steady).noise == 0);
}

TEST_CASE("a turn is a few milliseconds, at least one run") {
  const auto [milliseconds, count] = GENERATE(table<double, int>({{0, 64}, {0.01, 64}, {0.1, 30}, {1, 3}, {50, 1}}));
  CAPTURE(milliseconds);
  Runs runs;
  time_in_turns(runs.of(milliseconds), runs.of(milliseconds));
  CHECK(runs.iterations.back() == count);
}

}  // namespace
}  // namespace mobicuda
