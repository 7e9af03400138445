// Writes that fail or do not end: the file is the old one or the new one, never a part, whoever reads it.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mobicuda/mobicuda.h>

#include "faults/system_calls.h"
#include "support/catch.h"
#include "support/graphs.h"
#include "support/temporary_folder.h"
#include "support/texts.h"
#include "timing/timing_cache.h"
#ifdef MOBICUDA_WITH_CODE_CACHE
#include "specialise/code_cache.h"
#endif

namespace mobicuda::test {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const Engine> engine_of(std::int64_t channels) {
  TestNetwork network(Shape{1, 3, 8, 8});
  network.conv(channels, 1);
  network.head(10);
  return make_cpu_backend()->compile(std::move(network).build(), {});
}

constexpr const char* kSubject = "a|b|c|d|e|f";

// What writes a file below a folder, in two states, and reads it back.
struct Writer {
  const char* name;
  std::function<fs::path(const fs::path& folder)> file;
  /// Throws where it cannot.
  std::function<void(const fs::path& folder, int state)> write;
  /// The state that the file is in; throws where it is in none.
  std::function<int(const fs::path& folder)> read;
};

std::vector<Writer> writers() {
  static const std::shared_ptr<const Engine> engines[] = {engine_of(2000), engine_of(4000)};
  std::vector<Writer> all;
  all.push_back({"plan file", [](const fs::path& folder) { return folder / "net.plan"; },
                 [](const fs::path& folder, int state) { plan_file::save(*engines[state], folder / "net.plan"); },
                 [](const fs::path& folder) {
                   const Graph graph = plan_file::read(folder / "net.plan").graph;
                   return std::ranges::any_of(
                              graph.values(),
                              [](const Value& one) { return one.desc.shape.rank() == 4 && one.desc.shape[1] == 2000; })
                              ? 0
                              : 1;
                 }});
  all.push_back({"timing cache", [](const fs::path& folder) { return folder / "times"; },
                 [](const fs::path& folder, int state) {
                   TimingCache times(folder / "times");
                   for (int i = 0; i < 1000; ++i) times.add(kSubject, "k" + std::to_string(i), 1.0 + state);
                   times.save();
                 },
                 [](const fs::path& folder) {
                   const TimingCache times(folder / "times");
                   const double first = times.find(kSubject, "k0").value();
                   for (int i = 0; i < 1000; ++i) {
                     if (times.find(kSubject, "k" + std::to_string(i)) != first) throw std::runtime_error("mixed");
                   }
                   return first == 1.0 ? 0 : 1;
                 }});
#ifdef MOBICUDA_WITH_CODE_CACHE
  static const std::string images[] = {std::string(100000, 'a'), std::string(200000, 'b')};
  all.push_back({"code cache", [](const fs::path& folder) { return folder / "code"; },
                 [](const fs::path& folder, int state) {
                   const std::string failure = CodeCache(folder / "code").store("key", {"kernel", images[state]});
                   if (!failure.empty()) throw Error(ErrorCode::io, "code cache", failure);
                 },
                 [](const fs::path& folder) {
                   const std::string image = CodeCache(folder / "code").find("key").value().image;
                   if (image == images[0]) return 0;
                   if (image != images[1]) throw std::runtime_error("mixed");
                   return 1;
                 }});
#endif
  return all;
}

std::size_t files_below(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

enum : int { kWritten, kRefused, kOtherwise };

// What a process of its own comes to that writes, after `before`.
int outcome(const std::function<void()>& before, const std::function<void()>& write) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = kOtherwise;
    try {
      before();
      write();
      code = kWritten;
    } catch (const Error& error) {
      code = error.code() == ErrorCode::io ? kRefused : kOtherwise;
    } catch (...) {
      code = kOtherwise;
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a full disk leaves the old file, and nothing beside it") {
  for (const Writer& writer : writers()) {
    for (const rlim_t room : {0, 1, 100, 5000, 15000}) {
      CAPTURE(writer.name, room);
      const TemporaryFolder folder;
      writer.write(folder.path(), 0);
      const std::size_t files = files_below(folder.path());
      const auto fill = [&] {  // files of this process cannot grow beyond that
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{room, room};
        setrlimit(RLIMIT_FSIZE, &limit);
      };
      CHECK(outcome(fill, [&] { writer.write(folder.path(), 1); }) == kRefused);
      CHECK(writer.read(folder.path()) == 0);
      CHECK(files_below(folder.path()) == files);
    }
  }
}

TEST_CASE("a folder that cannot be written to is an Error, and leaves the old file") {
  constexpr uid_t kNobody = 65534;
  for (const Writer& writer : writers()) {
    CAPTURE(writer.name);
    const TemporaryFolder folder;
    writer.write(folder.path(), 0);
    const fs::path below = fs::is_directory(writer.file(folder.path())) ? writer.file(folder.path()) : folder.path();
    constexpr auto kReadOnly =
        fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec;
    fs::permissions(below, kReadOnly);
    if (below != folder.path()) fs::permissions(folder.path(), kReadOnly);
    const auto become_nobody = [] {  // root may write everywhere
      if (geteuid() == 0 && seteuid(kNobody) != 0) throw std::runtime_error("cannot become nobody");
    };
    CHECK(outcome(become_nobody, [&] { writer.write(folder.path(), 1); }) == kRefused);
    fs::permissions(folder.path(), fs::perms::owner_all);
    fs::permissions(below, fs::perms::owner_all);
    CHECK(writer.read(folder.path()) == 0);
  }
}

TEST_CASE("short and interrupted writes write the whole file") {
  for (const Writer& writer : writers()) {
    CAPTURE(writer.name);
    const TemporaryFolder folder;
    const ObstinateCalls calls(1000);
    writer.write(folder.path(), 1);
    CHECK(writer.read(folder.path()) == 1);
    CHECK(calls.interrupted() > 0);
    CHECK(calls.fell_short() > 0);
  }
}

TEST_CASE("a process that is killed while it writes leaves the old file or the new one") {
  constexpr int kKills = 25;
  for (const Writer& writer : writers()) {
    CAPTURE(writer.name);
    const TemporaryFolder folder;
    writer.write(folder.path(), 0);
    int seen[2] = {};
    for (int i = 0; i < kKills; ++i) {
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        alarm(60);  // where nobody kills it
        for (int state = 1;; state = 1 - state) writer.write(folder.path(), state);
      }
      // Read meanwhile, and once more when it is gone: in the middle of a write more often than not.
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(2000 + 777 * i);
      while (std::chrono::steady_clock::now() < end) ++seen[writer.read(folder.path())];
      kill(child, SIGKILL);
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      CHECK(WIFSIGNALED(status));
      ++seen[writer.read(folder.path())];
    }
    CHECK(seen[0] + seen[1] > kKills);
    writer.write(folder.path(), 1);  // what was left beside it is in nobody's way
    CHECK(writer.read(folder.path()) == 1);
  }
}

TEST_CASE("processes that add to one timing cache lose nothing of each other's") {
  constexpr int kProcesses = 4;
  constexpr int kTimes = 25;
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "times";
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(fork());
    REQUIRE(children.back() >= 0);
    if (children.back() == 0) {
      int code = 1;
      try {
        for (int i = 0; i < kTimes; ++i) {
          TimingCache times(file);
          times.add(kSubject, std::to_string(process) + "/" + std::to_string(i), 1);
          times.save();
        }
        code = 0;
      } catch (...) {
        code = 2;
      }
      _exit(code);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  const TimingCache times(file);
  int found = 0;
  for (int process = 0; process < kProcesses; ++process) {
    for (int i = 0; i < kTimes; ++i) {
      found += times.find(kSubject, std::to_string(process) + "/" + std::to_string(i)) ? 1 : 0;
    }
  }
  CHECK(found == kProcesses * kTimes);
}

}  // namespace mobicuda::test
