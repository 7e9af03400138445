#include "timing/timing_cache.h"

#include <sys/stat.h>
#include <vector>

#include <mobicuda/error.h>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/texts.h"

namespace mobicuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSubject = "Some GPU|132|0.1.0|fp16|programmatic|gemm m=1 n=2 k=3";
const std::vector<std::string> kCandidates{"gemm/a", "gemm/b", "gemm/c"};

// Times by candidate; counts the measurements.
struct Clockwork {
  std::vector<double> times;
  std::vector<std::size_t> asked{};
  std::vector<double> limits{};

  CandidateTimer timer() {
    return [this](std::size_t candidate, double give_up_us) {
      asked.push_back(candidate);
      limits.push_back(give_up_us);
      return times.at(candidate);
    };
  }
};

TimedAnswer ask(TimingCache& cache, Clockwork& clockwork, bool require = false, std::size_t expected = 0) {
  return choose_fastest(cache, {"features.1", kSubject, kCandidates, expected, 0.05}, require, clockwork.timer());
}

TEST_CASE("a timing cache comes back from its file, to the digit") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "times";
  TimingCache cache(file);
  CHECK_FALSE(cache.find(kSubject, "gemm/a"));
  cache.save();
  CHECK_FALSE(fs::exists(file));  // nothing was added
  cache.add(kSubject, "gemm/b", 2.10449);
  cache.add(kSubject, "gemm/a", 1234567.8912);
  CHECK(cache.added() == 2);
  cache.save();
  CHECK(cache.added() == 0);
  CHECK(text_of(file) == "mobicuda timing cache, format 1\n" + std::string(kSubject) + "|gemm/a|1234567.891\n" +
                             kSubject + "|gemm/b|2.104\n");
  const TimingCache again(file);
  CHECK(again.find(kSubject, "gemm/a") == cache.find(kSubject, "gemm/a"));
  CHECK(again.find(kSubject, "gemm/b") == std::optional(2.104));
  CHECK_FALSE(again.find(kSubject, "gemm/c"));
  CHECK_FALSE(again.find("Another" + std::string(kSubject), "gemm/a"));
}

TEST_CASE("what another process wrote meanwhile stays") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "times";
  TimingCache first(file);
  TimingCache second(file);
  first.add(kSubject, "gemm/a", 1);
  second.add(kSubject, "gemm/b", 2);
  second.add(kSubject, "gemm/a", 3);
  first.save();
  second.save();
  const TimingCache both(file);
  CHECK(both.find(kSubject, "gemm/a") == std::optional(3.0));
  CHECK(both.find(kSubject, "gemm/b") == std::optional(2.0));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);  // no temporary file
}

TEST_CASE("a file that is no timing cache is refused with its line and stays as it is") {
  const TemporaryFolder folder;
  const std::string header = "mobicuda timing cache, format 1\n";
  const std::string good = std::string(kSubject) + "|gemm/a|1.000\n";
  struct Case {
    std::string content, line;
  };
  const auto c = GENERATE_COPY(
      Case{"\x08\x07ONNX", "line 1"}, Case{"mobicuda timing cache, format 2\n", "line 1"},
      Case{header + "x\n", "line 2"}, Case{header + good + "a|b|c|d|e|f|g|h\n", "line 3"},
      Case{header + good + kSubject + "|gemm/b|-1\n", "line 3"}, Case{header + kSubject + "|gemm/b|nan\n", "line 2"},
      Case{header + kSubject + "|gemm/b|1e999\n", "line 2"}, Case{header + kSubject + "|gemm/b|1 us\n", "line 2"},
      Case{header + kSubject + "|gemm/b|\n", "line 2"}, Case{header + "extra|" + good, "line 2"},
      Case{header + good + "\n", "line 3"});
  folder.write("times", c.content);
  const std::string message = message_of([&] { TimingCache(folder.path() / "times"); });
  CAPTURE(c.content, message);
  CHECK(message.starts_with("io: "));
  CHECK(contains(message, (folder.path() / "times").string()));
  CHECK(contains(message, c.line));
  CHECK(contains(message, "delete this one"));
  CHECK(text_of(folder.path() / "times") == c.content);
}

TEST_CASE("a timing cache behind a link is written where the link points") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "far");
  const fs::path file = folder.path() / "far" / "times";
  const fs::path link = folder.path() / "link";
  fs::create_symlink("far/times", folder.path() / "near");
  fs::create_symlink(folder.path() / "near", link);
  for (const char* kernels : {"gemm/a", "gemm/b"}) {  // the first save makes the file
    TimingCache cache(link);
    cache.add(kSubject, kernels, 1);
    cache.save();
    CHECK(fs::is_symlink(link));
    CHECK(fs::is_symlink(folder.path() / "near"));
    CHECK(TimingCache(file).find(kSubject, kernels) == std::optional(1.0));
  }
  CHECK(TimingCache(link).find(kSubject, "gemm/a") == std::optional(1.0));
  fs::create_symlink("absent/times", folder.path() / "nowhere");
  CHECK(contains(message_of([&] { TimingCache(folder.path() / "nowhere"); }), "its folder does not exist"));
}

TEST_CASE("a timing cache that can be neither read nor written is refused by name") {
  const TemporaryFolder folder;
  CHECK(contains(message_of([&] { TimingCache(folder.path()); }),
                 folder.path().string() + ": cannot be read as a timing cache: it is a folder"));
  const fs::path pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(contains(message_of([&] { TimingCache cache(pipe); }), "it is not a regular file"));
  const fs::path nowhere = folder.path() / "absent" / "times";
  CHECK(contains(message_of([&] { TimingCache cache(nowhere); }), nowhere.string() + ": its folder does not exist"));
  TimingCache cache(folder.path() / "times");
  cache.add(kSubject, "gemm/a", 1);
  fs::create_directory(folder.path() / "times");
  CHECK(contains(message_of([&] { cache.save(); }), (folder.path() / "times").string()));
  folder.write("empty", "");
  CHECK_NOTHROW(TimingCache(folder.path() / "empty"));
}

TEST_CASE("the fastest candidate is chosen, and measured once only") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "times";
  Clockwork clockwork{{4, 1.5, 2}};
  TimingCache cache(file);
  const TimedAnswer first = ask(cache, clockwork);
  CHECK(first.candidate == 1);
  CHECK(first.reason == "measured 1.50 us; next gemm/c 2.00 us");
  CHECK(clockwork.asked == std::vector<std::size_t>{0, 1, 2});
  CHECK(clockwork.limits[1] == 8);  // twice the best so far
  CHECK(clockwork.limits[2] == 3);
  cache.save();
  TimingCache later(file);
  Clockwork other{{1, 1, 1}};
  const TimedAnswer second = ask(later, other, true);
  CHECK(second.candidate == first.candidate);
  CHECK(second.reason == first.reason);
  CHECK(other.asked.empty());
  CHECK(later.added() == 0);
}

TEST_CASE("the rule's candidate stays unless another is clearly faster") {
  const TemporaryFolder folder;
  TimingCache cache(folder.path() / "times");
  Clockwork clockwork{{2.06, 2.1, 2}};
  CHECK(ask(cache, clockwork, false, 2).reason == "measured 2.00 us; next gemm/a 2.06 us");
  const TimedAnswer kept = ask(cache, clockwork, true, 0);
  CHECK(kept.candidate == 0);
  CHECK(kept.reason == "measured 2.06 us, as by rule; gemm/c 2.00 us is not clearly faster");
  CHECK(ask(cache, clockwork, true, 1).candidate == 1);
  TimingCache other(folder.path() / "others");
  Clockwork clearly{{2.0, 2.11, 2.11}};
  CHECK(ask(other, clearly, false, 1).candidate == 0);
}

TEST_CASE("of equal times the first wins, also after rounding") {
  const TemporaryFolder folder;
  TimingCache cache(folder.path() / "times");
  Clockwork clockwork{{2.0004, 2.0003, 3}};
  CHECK(ask(cache, clockwork, false, 2).candidate == 0);
}

TEST_CASE("only the times that are missing are measured") {
  const TemporaryFolder folder;
  TimingCache cache(folder.path() / "times");
  cache.add(kSubject, "gemm/b", 5);
  Clockwork clockwork{{7, 1, 6}};
  CHECK(ask(cache, clockwork).candidate == 1);
  CHECK(clockwork.asked == std::vector<std::size_t>{0, 2});
  Clockwork none{{}};
  const std::vector<std::string> single{"gemm/z"};
  CHECK(choose_fastest(cache, {"l", kSubject, single}, true, none.timer()).reason ==
        "the only kernel that runs this shape");
}

TEST_CASE("a required time that is missing is an error with layer, shape and remedy") {
  const TemporaryFolder folder;
  TimingCache cache(folder.path() / "times");
  cache.add(kSubject, "gemm/a", 5);
  Clockwork clockwork{{1, 1, 1}};
  const std::string message = message_of([&] { ask(cache, clockwork, true); });
  CAPTURE(message);
  for (const std::string& part : {(folder.path() / "times").string(), std::string("features.1"),
                                  std::string("gemm m=1 n=2 k=3"), std::string("gemm/b"), std::string("without")}) {
    CHECK(contains(message, part));
  }
  CHECK(clockwork.asked.empty());
}

TEST_CASE("what comes within 3 % of the chosen candidate is its rival") {
  const TemporaryFolder folder;
  struct Case {
    std::vector<double> times;
    std::size_t expected, exchangeable, chosen;
    std::optional<std::size_t> rival;
  };
  const auto c = GENERATE(
      Case{{2, 2.06, 2.05}, 0, 3, 0, 2}, Case{{2, 2.07, 2.061}, 0, 3, 0, {}},  // the faster one of the two; none
      Case{{2.06, 2.1, 2}, 0, 3, 0, 2}, Case{{2.09, 2.1, 2}, 0, 3, 0, 2},      // kept as expected: also within 5 %
      Case{{2, 3, 2.01}, 0, 2, 0, {}}, Case{{2, 2.05, 2.01}, 0, 2, 0, 1},      // the last one is another form
      Case{{2.2, 2.2, 2}, 2, 2, 2, {}}, Case{{2, 2, 2}, 1, 3, 1, 0}, Case{{2, 2, 2}, 1, 0, 1, {}});
  CAPTURE(c.times, c.expected, c.exchangeable);
  TimingCache cache(folder.path() / "times");
  Clockwork clockwork{c.times};
  const TimedQuestion question{"features.1", kSubject, kCandidates, c.expected, 0.05, c.exchangeable};
  const TimedAnswer answer = choose_fastest(cache, question, false, clockwork.timer());
  CHECK(answer.candidate == c.chosen);
  REQUIRE(answer.rival.has_value() == c.rival.has_value());
  if (!c.rival) return;
  CHECK(answer.rival->candidate == *c.rival);
  CHECK(answer.rival->reason == "measured " + timing_text(c.times[*c.rival]) + "; " + kCandidates[c.chosen] + " " +
                                    timing_text(c.times[c.chosen]));
}

TEST_CASE("a field of a timing cache holds no separators") { CHECK(timing_field("a|b\nc") == "a b c"); }

}  // namespace
}  // namespace mobicuda
