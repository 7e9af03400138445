// fuzz_replay TARGET PATH...: runs files, and those of folders, through a fuzz target, without libFuzzer. For the
// corpus in every build, and for a single file that a fuzzer has found.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target.h"

namespace mobicuda::fuzz {

std::size_t plain_mutation(std::uint8_t* /*data*/, std::size_t size, std::size_t /*room*/) { return size; }

namespace {

namespace fs = std::filesystem;

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

const std::map<std::string_view, Target>& targets() {
  static const std::map<std::string_view, Target> all{
#include "fuzz_targets.inc"
  };
  return all;
}

std::vector<fs::path> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int replay(const Target& target, const std::vector<fs::path>& paths) {
  int accepted = 0;
  int count = 0;
  for (const fs::path& path : paths) {
    for (const fs::path& file : files_of(path)) {
      std::ifstream in(file, std::ios::binary);
      if (!in) {
        std::fprintf(stderr, "fuzz_replay: cannot read %s\n", file.c_str());
        return kExitFailure;
      }
      const std::vector<char> content{std::istreambuf_iterator<char>(in), {}};
      std::printf("%s\n", file.filename().c_str());
      std::fflush(stdout);  // should the next line be its last
      accepted += target.run({reinterpret_cast<const std::uint8_t*>(content.data()), content.size()}) ? 1 : 0;
      ++count;
    }
  }
  std::printf("%d inputs, %d accepted\n", count, accepted);
  if (accepted > 0) return 0;
  std::fprintf(
      stderr,
      "fuzz_replay: none of %d inputs was accepted: what reads them has changed, and they have to be made anew\n",
      count);
  return kExitFailure;
}

}  // namespace
}  // namespace mobicuda::fuzz

int main(int argc, char** argv) {
  using namespace mobicuda::fuzz;
  try {
    const auto found = argc < 3 ? targets().end() : targets().find(argv[1]);
    if (found != targets().end()) return replay(found->second, {argv + 2, argv + argc});
    std::fprintf(stderr, "usage: fuzz_replay TARGET FILE-OR-FOLDER...\ntargets:");
    for (const auto& entry : targets()) std::fprintf(stderr, " %s", std::string(entry.first).c_str());
    std::fprintf(stderr, "\n");
    return kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_replay: %s\n", error.what());
    return kExitFailure;
  }
}
