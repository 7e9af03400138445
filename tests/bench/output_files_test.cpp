#include "bench_engine/command_line/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mobicuda/error.h>

#include "support/catch.h"
#include "support/contains.h"
#include "support/temporary_folder.h"

using namespace mobicuda;
using namespace mobicuda::bench;

namespace {

namespace fs = std::filesystem;

void judge(const fs::path& json) {
  Options options;
  options.json = json;
  require_writable(options);
}

std::string content_of(const fs::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("outputs are tried without leaving anything behind", "[output_files]") {
  const TemporaryFolder folder;
  CHECK_NOTHROW(judge(folder.path() / "new.json"));
  fs::create_symlink("target.json", folder.path() / "link.json");
  CHECK_NOTHROW(judge(folder.path() / "link.json"));
  CHECK(fs::is_symlink(folder.path() / "link.json"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  folder.write("old.json", "old");
  CHECK_NOTHROW(judge(folder.path() / "old.json"));
  CHECK(content_of(folder.path() / "old.json") == "old");
  CHECK_NOTHROW(judge("/dev/null"));
}

TEST_CASE("an output that cannot be written is refused", "[output_files]") {
  const TemporaryFolder folder;
  fs::create_symlink("absent/target.json", folder.path() / "link.json");
  CHECK_THROWS_WITH(judge(folder.path() / "link.json"), contains("link.json: cannot be written: "));
  CHECK_THROWS_WITH(judge("/proc/x.json"), contains("/proc/x.json: cannot be written: "));
  CHECK_THROWS_WITH(judge(folder.path()), contains("it is a folder"));
  Options options;
  options.save_engine = "/dev/null";
  CHECK_THROWS_WITH(require_writable(options), contains("/dev/null: cannot be written: a plan file must be a regular"));
}

TEST_CASE("a pipe is an output only where this process writes it already", "[output_files]") {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(judge(pipe), contains("it is a pipe"));
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  CHECK_THROWS_WITH(judge(pipe), contains("it is a pipe"));
  const int writer = open(pipe.c_str(), O_WRONLY);
  CHECK_NOTHROW(judge(pipe));
  CHECK_NOTHROW(judge("/dev/fd/" + std::to_string(writer)));
  close(writer);
  close(reader);
}
