// Compiled code on disk: found again by its key, whole or not at all, and bounded.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "specialise/code_cache.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace mobicuda {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc).write(text.data(), static_cast<std::streamsize>(text.size()));
}

DeviceCode code_of(const std::string& text) { return {"kernel_" + text, text + std::string("\0binary", 7)}; }

TEST_CASE("code cache: what was stored is found by its key, by other objects too") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "made" / "when needed";
  CHECK_FALSE(CodeCache(path).find("key"));
  REQUIRE(CodeCache(path).store("key", code_of("one")).empty());
  REQUIRE(CodeCache(path).store("other key", code_of("two")).empty());
  const auto found = CodeCache(path).find("key");
  REQUIRE(found);
  CHECK(found->kernel == "kernel_one");
  CHECK(found->image == code_of("one").image);
  CHECK(CodeCache(path).find("other key")->kernel == "kernel_two");
  CHECK_FALSE(CodeCache(path).find("a third"));
  CHECK(files_in(path).size() == 2);
  REQUIRE(CodeCache(path).store("key", code_of("new")).empty());
  CHECK(CodeCache(path).find("key")->kernel == "kernel_new");
}

TEST_CASE("code cache: without a folder nothing is kept") {
  const CodeCache cache{fs::path()};
  CHECK(cache.store("key", code_of("one")).empty());
  CHECK_FALSE(cache.find("key"));
}

TEST_CASE("code cache: a damaged file counts as absent, and is replaced") {
  const TemporaryFolder folder;
  const CodeCache cache(folder.path());
  REQUIRE(cache.store("key", code_of("one")).empty());
  const fs::path file = files_in(folder.path()).at(0);
  const std::string whole = read(file);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    write(file, damaged);
    INFO("byte " << i);
    CHECK_FALSE(cache.find("key"));
  }
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write(file, whole.substr(0, bytes));
    INFO(bytes << " bytes");
    CHECK_FALSE(cache.find("key"));
  }
  write(file, whole + "more");
  CHECK_FALSE(cache.find("key"));
  REQUIRE(cache.store("key", code_of("one")).empty());
  CHECK(cache.find("key"));
}

TEST_CASE("code cache: a file of another key under this one's name is not taken for it") {
  const TemporaryFolder folder;
  const CodeCache cache(folder.path());
  REQUIRE(cache.store("key", code_of("one")).empty());
  const fs::path file = files_in(folder.path()).at(0);
  REQUIRE(cache.store("other", code_of("two")).empty());
  for (const fs::path& other : files_in(folder.path())) {
    if (other != file) fs::copy_file(other, file, fs::copy_options::overwrite_existing);
  }
  CHECK_FALSE(cache.find("key"));
}

TEST_CASE("code cache: a folder that cannot be one is told, and nothing throws") {
  const TemporaryFolder folder;
  write(folder.path() / "file", "not a folder");
  const CodeCache cache(folder.path() / "file" / "below");
  CHECK_FALSE(cache.store("key", code_of("one")).empty());
  CHECK_FALSE(cache.find("key"));
}

TEST_CASE("code cache: beyond its size what was used longest ago goes, and so do files that nobody finished") {
  const TemporaryFolder folder;
  const CodeCache cache(folder.path(), 70'000);
  const auto now = fs::file_time_type::clock::now();
  const std::string big(8000, 'x');
  std::vector<fs::path> in_order;
  for (int i = 0; i < 4; ++i) {
    const auto before = files_in(folder.path());
    REQUIRE(cache.store("key " + std::to_string(i), code_of(big)).empty());
    for (const fs::path& file : files_in(folder.path())) {
      if (std::find(before.begin(), before.end(), file) == before.end()) in_order.push_back(file);
    }
  }
  REQUIRE(in_order.size() == 4);
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    fs::last_write_time(in_order[i], now - std::chrono::hours(10 - static_cast<int>(i)));
  }
  write(folder.path() / "a.1.2.tmp", "unfinished");
  fs::last_write_time(folder.path() / "a.1.2.tmp", now - std::chrono::hours(2));
  write(folder.path() / "b.1.2.tmp", "under way");
  CHECK(cache.find("key 0"));  // used now
  REQUIRE(cache.store("key 4", code_of(big)).empty());
  CHECK(cache.find("key 0"));
  CHECK(cache.find("key 4"));
  CHECK_FALSE(cache.find("key 1"));
  CHECK_FALSE(fs::exists(folder.path() / "a.1.2.tmp"));
  CHECK(fs::exists(folder.path() / "b.1.2.tmp"));
}

TEST_CASE("code cache: threads that store and find the same keys see whole files") {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const CodeCache cache(folder.path());
      for (int round = 0; round < 50; ++round) {
        const std::string key = std::to_string(round % 3);
        if (!cache.store(key, code_of(std::string(5000, key[0]))).empty()) ++wrong;
        const auto found = cache.find(key);
        if (!found || found->image != code_of(std::string(5000, key[0])).image) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(files_in(folder.path()).size() == 3);
}

}  // namespace
}  // namespace mobicuda
