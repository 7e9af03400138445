#include "stream/journal.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <mobicuda/error.h>

#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::stream;

namespace {

namespace fs = std::filesystem;

constexpr Item kItems = 100;
const Identity kIdentity = {{"models", "[\"m\"]"}, {"seed", "1"}};

std::string line(Item item) { return "{\"item\":" + std::to_string(item) + ",\"picture\":\"p\"}\n"; }

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("stream journal: goes on where it ended", "[stream]") {
  const TemporaryFolder folder;
  const fs::path results = folder.path() / "new" / "results";
  {
    Journal journal(results, kIdentity, kItems, false);
    CHECK(journal.done_before() == 0);
    CHECK_FALSE(journal.was_done(3));
    journal.append(line(3) + line(99));
    journal.append(line(0));
    journal.flush();
  }
  Journal journal(results, kIdentity, kItems, true);
  CHECK(journal.done_before() == 3);
  CHECK(journal.cut_bytes() == 0);
  for (Item item = 0; item < kItems; ++item) CHECK(journal.was_done(item) == (item == 0 || item == 3 || item == 99));
  journal.append(line(4));
  CHECK(content(results / "results.jsonl") == line(3) + line(99) + line(0) + line(4));
}

TEST_CASE("stream journal: a line that was cut off goes away", "[stream]") {
  const TemporaryFolder folder;
  { Journal(folder.path(), kIdentity, kItems, false).append(line(5) + line(6)); }
  const std::string whole = line(5) + line(6);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    folder.write("results.jsonl", whole.substr(0, bytes));
    const std::size_t lines = bytes >= whole.size() ? 2 : bytes >= line(5).size() ? 1 : 0;
    {
      const Journal journal(folder.path(), kIdentity, kItems, true);
      CHECK(journal.done_before() == lines);
      CHECK(journal.cut_bytes() == bytes - (lines > 0 ? line(5).size() : 0));
    }
    CHECK(content(folder.path() / "results.jsonl") == (lines > 0 ? line(5) : ""));
  }
}

TEST_CASE("stream journal: long lines, and many", "[stream]") {
  const TemporaryFolder folder;
  constexpr Item kMany = 5000;
  {
    Journal journal(folder.path(), kIdentity, kMany, false);
    for (Item item = 0; item < kMany; item += 2) {
      journal.append("{\"item\":" + std::to_string(item) + ",\"picture\":\"" + std::string(item % 997 * 60, 'x') +
                     "\"}\n");
    }
  }
  const Journal journal(folder.path(), kIdentity, kMany, true);
  CHECK(journal.done_before() == kMany / 2);
  for (Item item = 0; item < kMany; ++item) REQUIRE(journal.was_done(item) == (item % 2 == 0));
}

TEST_CASE("stream journal: refuses what is not its own", "[stream]") {
  const TemporaryFolder folder;
  { Journal(folder.path(), kIdentity, kItems, false).append(line(1)); }
  CHECK_THROWS_WITH(Journal(folder.path(), kIdentity, kItems, false), contains("results of an earlier run; --resume"));
  CHECK_THROWS_WITH(Journal(folder.path(), {{"models", "[\"m\"]"}, {"seed", "2"}}, kItems, true),
                    contains("another 'seed'"));
  CHECK_THROWS_WITH(Journal(folder.path(), {{"models", "[\"n\"]"}, {"seed", "1"}}, kItems, true),
                    contains("another 'models'"));
  const auto damaged = [&](const std::string& text) {
    folder.write("results.jsonl", text);
    CHECK_THROWS_WITH(Journal(folder.path(), kIdentity, kItems, true), contains("is no result of this stream"));
    CHECK(content(folder.path() / "results.jsonl") == text);
  };
  damaged(line(1) + line(1));
  damaged(line(1) + line(kItems));
  damaged(line(1) + "\n" + line(2));
  damaged("{\"item\":}\n");
  damaged("{\"item\":-1,\"picture\":1}\n");
  damaged("{\"item\":99999999999999999999,\"picture\":1}\n");
  damaged("{\"item\":1}\n");
  damaged("note\n");
  folder.write("results.jsonl", line(1));
  folder.write("stream.json", "[]");
  CHECK_THROWS_WITH(Journal(folder.path(), kIdentity, kItems, true),
                    contains("stream.json: is not what a stream has written"));
}

TEST_CASE("stream journal: one process at a time", "[stream]") {
  const TemporaryFolder folder;
  const Journal first(folder.path(), kIdentity, kItems, false);
  CHECK_THROWS_WITH(Journal(folder.path(), kIdentity, kItems, false, std::chrono::milliseconds(200)),
                    contains("another process writes its results here"));
}

TEST_CASE("stream journal: waits for a process that is ending", "[stream]") {
  const TemporaryFolder folder;
  auto first = std::make_unique<Journal>(folder.path(), kIdentity, kItems, false);
  first->append(line(2));
  std::thread ending([&first] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  // As long as it takes: what ends the wait is the other's end.
  const Journal second(folder.path(), kIdentity, kItems, true, std::chrono::minutes(5));
  ending.join();
  CHECK(second.was_done(2));
}

TEST_CASE("stream journal: folders that cannot be used", "[stream]") {
  const TemporaryFolder folder;
  folder.write("file", "x");
  CHECK_THROWS_WITH(Journal(folder.path() / "file", kIdentity, kItems, false), contains("file"));
  fs::create_directories(folder.path() / "results.jsonl");
  CHECK_THROWS_WITH(Journal(folder.path(), kIdentity, kItems, false), contains("results.jsonl: cannot be opened"));
  const TemporaryFolder other;
  fs::create_symlink(folder.path() / "file", other.path() / "results.jsonl");
  CHECK_THROWS_WITH(Journal(other.path(), kIdentity, kItems, false), contains("results.jsonl: cannot be opened"));
}

TEST_CASE("stream journal: a full disk leaves whole lines", "[stream]") {
  // In a process of its own, whose files may not grow beyond a limit.
  const TemporaryFolder folder;
  const std::string whole = line(1) + line(2);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    int code = 1;
    try {
      Journal journal(folder.path(), kIdentity, kItems, false);
      journal.append(whole);
      const rlimit limit{whole.size() + 10, whole.size() + 10};
      setrlimit(RLIMIT_FSIZE, &limit);
      try {
        journal.append(line(3) + line(4));
      } catch (const Error& error) {
        code = error.code() == ErrorCode::io ? 0 : 2;
      }
    } catch (...) {
      code = 3;
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(content(folder.path() / "results.jsonl") == whole);
}

TEST_CASE("stream: replace_file leaves the old file or the new one", "[stream]") {
  const TemporaryFolder folder;
  replace_file(folder.path() / "f", "one");
  replace_file(folder.path() / "f", "two");
  CHECK(content(folder.path() / "f") == "two");
  CHECK_FALSE(fs::exists(folder.path() / "f.new"));
  CHECK_THROWS_WITH(replace_file(folder.path() / "none" / "f", "x"), contains("cannot be written"));
  fs::create_directories(folder.path() / "d" / "below");
  CHECK_THROWS_AS(replace_file(folder.path() / "d", "x"), Error);
  CHECK_FALSE(fs::exists(folder.path() / "d.new"));
}
